#include "tools/bench/narrow/cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace carillon::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

NarrowCell Measured(const std::string& path, double tasks_per_second) {
  NarrowSummary summary;
  summary.total_ns = 1e6;
  summary.tasks_per_second = tasks_per_second;
  summary.mean_ns = 1e3;
  summary.p99_ns = 2e3;
  return {.part = "tasks",
          .workload = "mm",
          .path = path,
          .tasks = 8,
          .rounds = {{summary}}};
}

NarrowReport Report() {
  NarrowReport report;
  report.backend = "cuda";
  report.base = "hyperq";
  report.conditions = Json::object();
  report.paths = {"hyperq", "edge"};
  report.workloads = {"mm"};
  report.cells = {Measured("hyperq", 4321), Measured("edge", 8765)};
  return report;
}

TEST(NarrowReport, TheBaseOfARatioIsMeasured) {
  const BenchResult result = Report().ToResult();
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.figures.size(), 1u);
  EXPECT_TRUE(result.extra.at("cells").at(1).contains("over_baseline"));
}

TEST(NarrowReport, ACellThatWasOverBehindARoundCountsNowhere) {
  const auto check = [](size_t over, const NarrowReport& report) {
    const BenchResult result = report.ToResult();
    EXPECT_TRUE(result.figures.empty());
    // One of another path is there only for the base itself.
    EXPECT_FALSE(result.extra.at("cells").at(1).contains("over_baseline"));
    EXPECT_NE(result.extra.at("cells").at(over).at("status"), "measured");
    EXPECT_THAT(result.extra_table,
                HasSubstr("mm on " + report.paths[over] + ": gone wrong"));
    EXPECT_THAT(result.extra_table, HasSubstr(over == 0 ? "8765" : "4321"));
    EXPECT_THAT(result.extra_table,
                Not(HasSubstr(over == 0 ? "4321" : "8765")));
  };
  for (const size_t over : {0, 1}) {
    NarrowReport failed = Report();
    failed.cells[over].failed = absl::DataLossError("gone wrong");
    check(over, failed);
    EXPECT_TRUE(absl::IsDataLoss(failed.ToResult().status));
    NarrowReport refused = Report();
    refused.cells[over].refused = "gone wrong";
    check(over, refused);
  }
}

TEST(NarrowReport, OfIrregularTasksItSaysWhatThePaperHas) {
  NarrowReport report = Report();
  report.backend = "sim";
  report.base = "baseline";
  report.paths = {"baseline", "pagoda", "fusion"};
  report.cells = {Measured("baseline", 100), Measured("pagoda", 180),
                  Measured("fusion", 90)};
  for (NarrowCell& cell : report.cells) cell.part = "irregular";
  report.cells[2].rounds[0][0].mean_ns = 3e3;
  const BenchResult result = report.ToResult();
  ASSERT_EQ(result.figures.size(), 3u);
  EXPECT_THAT(result.figures[0].what, HasSubstr("(paper: 1.8)"));
  EXPECT_THAT(result.figures[1].what, HasSubstr("(paper: 0.9)"));
  // Pagoda's tasks wait 1 us, fused ones 3.
  EXPECT_EQ(result.figures[2].name, "response_fusion_over_pagoda_irregular");
  EXPECT_NEAR(result.figures[2].value.median, 3, 1e-9);
  EXPECT_THAT(result.figures[2].what, HasSubstr("(paper: 1.4 to 5.4)"));
}

TEST(NarrowReport, WhatAPartLeavesOutNamesThePart) {
  NarrowReport report = Report();
  report.left_out = {{"graph", "no graphs"},
                     {"threads", "copies nothing", "copies"}};
  const BenchResult result = report.ToResult();
  EXPECT_EQ(result.extra.at("left_out").dump(),
            R"([{"path":"graph","reason":"no graphs"},)"
            R"({"path":"threads","reason":"copies nothing","part":"copies"}])");
  EXPECT_THAT(result.extra_table,
              HasSubstr("copies without threads: copies nothing"));
}

}  // namespace
}  // namespace carillon::bench
