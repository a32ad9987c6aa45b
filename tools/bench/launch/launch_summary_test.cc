#include "tools/bench/launch/launch_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tools/bench/launch/samples.h"

namespace carillon::bench {
namespace {

using ::testing::HasSubstr;

Json LatencyRun(size_t round, std::vector<uint32_t> samples_ns,
                bool disturbed) {
  return {
      {"round", round},
      {"disturbed", disturbed},
      {"round_trips", {{"latency", SamplesToJson(samples_ns)}}},
      {"pipelined", {{"per_second", 1000.0}}},
      {"load_80",
       {{"latency", SamplesToJson(samples_ns)},
        {"per_second", 800.0},
        {"kept_up", !disturbed}}},
      {"gpud_cpu_ns_per_event", {{"one_in_flight", 5.0}, {"pipelined", 2.0}}}};
}

LaunchCell Cell(const std::string& path, std::vector<Json> runs) {
  return {.path = path, .workload = "warp", .runs = std::move(runs)};
}

TEST(LaunchSamples, KeepEverySampleInTheirHistogramWhenMerged) {
  const Json one = SamplesToJson({10, 1000, 1'000'000});
  const Json two = SamplesToJson({10, 10, 4'000'000'000});
  EXPECT_EQ(one["p50"], 1000);
  EXPECT_EQ(one["mean"], (10 + 1000 + 1'000'000) / 3.0);
  const Json sum = SummarizeSamples({one, two, SamplesToJson({})});
  EXPECT_EQ(sum["samples"], 6);
  EXPECT_EQ(sum["p50_ns"]["runs"], 2);  // a run without samples has no p50
  EXPECT_EQ(sum["histogram"][0], Json::array({10, 3}));
  uint64_t count = 0;
  for (const Json& bucket : sum["histogram"]) {
    count += bucket[1].get<uint64_t>();
  }
  EXPECT_EQ(count, 6u);
}

TEST(LaunchSummary, SaysWhoRunsTheKernel) {
  Json inlined = LatencyRun(1, {100}, false);
  inlined["short_path"] = true;
  const Json run = LatencyRun(2, {100}, false);
  const Json cells =
      SummarizeLatency({Cell("edge", {inlined}), Cell("edge", {inlined, run}),
                        Cell("baseline", {run}), Cell("persistent", {run})});
  EXPECT_EQ(cells[0]["kernel_runs"], "inline");
  EXPECT_EQ(cells[1]["kernel_runs"], "hand-off");
  EXPECT_EQ(cells[2]["kernel_runs"], "hand-off");
  EXPECT_EQ(cells[3]["kernel_runs"], "inline");
}

TEST(LaunchSummary, CountsDisturbedRunsOnlyWhereThereIsNoOther) {
  const Json both = SummarizeLatency(
      {Cell("edge", {LatencyRun(1, {100}, false), LatencyRun(1, {900}, true)}),
       Cell("baseline", {LatencyRun(1, {700}, true)})});
  EXPECT_EQ(both[0]["latency"]["p50_ns"]["runs"], 1);
  EXPECT_EQ(both[0]["latency"]["p50_ns"]["high"], 100);
  EXPECT_EQ(both[0]["disturbed_runs"], 1);
  EXPECT_EQ(both[0]["load_80"]["runs_kept_up"], 1);
  EXPECT_EQ(both[1]["latency"]["p50_ns"]["median"], 700);
  EXPECT_EQ(both[1]["load_80"]["runs_kept_up"], 0);
}

TEST(LaunchSummary, SaysWhatWasRefusedAndWhatFailedAndWhy) {
  LaunchCell refused = Cell("persistent", {});
  refused.refused = "it would never end";
  LaunchCell failed = Cell("graph", {LatencyRun(1, {100}, false)});
  failed.failed = "gpud is gone";
  const Json cells = SummarizeLatency({refused, failed});
  EXPECT_EQ(cells[0]["status"], "refused");
  EXPECT_FALSE(cells[0].contains("latency"));
  EXPECT_EQ(cells[1]["status"], "failed");
  EXPECT_EQ(cells[1]["reason"], "gpud is gone");

  const std::string text = LaunchTables(
      {{"backend", {{"name", "cpu"}, {"description", "2"}, {"gpu", Json()}}},
       {"latency", cells},
       {"power", SummarizePower({}, "no NVML")},
       {"ledger",
        {{"rung", 1},
         {"done", 0},
         {"failed", 0},
         {"aborted", 0},
         {"balanced", false}}}});
  EXPECT_THAT(text, HasSubstr("persistent warp: refused: it would never end"));
  EXPECT_THAT(text, HasSubstr("graph warp: failed: gpud is gone"));
  EXPECT_THAT(text, HasSubstr("power: not measured (no NVML)"));
  EXPECT_THAT(text, HasSubstr("NOT BALANCED"));
}

TEST(LaunchFigures, CompareTheBaselineWithEdgeRoundByRound) {
  const std::vector<LaunchCell> latency = {
      Cell("edge", {LatencyRun(1, {100}, false), LatencyRun(2, {1000}, false)}),
      Cell("baseline",
           {LatencyRun(1, {500}, false), LatencyRun(2, {5000}, false)})};
  for (const bool wishes : {false, true}) {
    bool found = false;
    for (const Figure& figure : LaunchFigures(latency, {}, wishes)) {
      if (figure.name != "baseline_over_edge_warp_p50") continue;
      found = true;
      EXPECT_NEAR(figure.value.low, 5, 1e-9);
      EXPECT_NEAR(figure.value.high, 5, 1e-9);
      EXPECT_EQ(figure.wish == Figure::Wish::kAtLeast, wishes);
    }
    EXPECT_TRUE(found);
  }
  EXPECT_TRUE(LaunchFigures({}, {}, true).empty());
}

}  // namespace
}  // namespace carillon::bench
