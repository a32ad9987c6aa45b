// `bench narrow` and `bench launch` with --backend cuda, by the programs themselves,
// on drivers without a GPU.
// No number of wall time is judged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "base/json.h"

namespace carillon::bench {
namespace {

using ::testing::HasSubstr;

constexpr char kFake[] = "gpu_daemon/backends/cuda/fake";
constexpr char kSimulated[] = "gpu_daemon/backends/cuda/sim_driver";

// A run's output and its exit code. `driver`: a folder with a libcuda.so.1.
std::pair<std::string, int> OutputOf(const std::string& driver,
                                     const std::string& program,
                                     const std::string& options) {
  const std::string command =
      "LD_LIBRARY_PATH=" + std::filesystem::absolute(driver).string() +
      " tools/bench/" + program + " --backend cuda --quick " + options;
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof(piece), pipe)) > 0;) {
    text.append(piece, n);
  }
  const int status = pclose(pipe);
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

std::pair<std::string, int> Output(const std::string& driver,
                                   const std::string& options) {
  return OutputOf(driver, "narrow_bench", options);
}

Json Measure(const std::string& driver, const std::string& options) {
  const auto [text, code] = Output(driver, options + " --json");
  EXPECT_EQ(code, 0);
  Json document = Json::parse(text, nullptr, false);
  EXPECT_TRUE(document.is_object()) << text;
  return document.is_object() ? document : Json::object();
}

TEST(NarrowOnCuda, EveryPathRunsWithAndWithoutCopiesOnTheFakeDriver) {
  const std::string out = getenv("TEST_TMPDIR") + std::string("/out");
  const Json document =
      Measure(kFake, "--workloads conv,slud --parts tasks,copies --out " + out);
  EXPECT_EQ(document.at("backend"), "cuda");
  EXPECT_EQ(document.at("driver"), "fake driver: function only");
  // Its ratios are no figures.
  EXPECT_TRUE(document.at("figures").empty());
  EXPECT_EQ(document.at("base"), "hyperq");
  // What is not measured is named.
  std::set<std::string> names = document.at("paths");
  const size_t measured = names.size();
  EXPECT_GE(measured, 8u);
  for (const Json& path : document.at("left_out")) {
    EXPECT_NE(path.at("reason"), "");
    names.insert(path.at("path"));
  }
  EXPECT_THAT(document.at("left_out").dump(), HasSubstr("it copies nothing"));
  EXPECT_THAT(document.at("conditions").at("order").get<std::string>(),
              HasSubstr("hyperq and fusion ran before"));
  EXPECT_EQ(names, (std::set<std::string>{"baseline", "edge", "graph", "pagoda",
                                          "pagoda_copy", "pagoda_ring",
                                          "hyperq", "fusion", "batches",
                                          "pagoda_batches", "threads"}));
  // Path threads copies nothing.
  EXPECT_EQ(document.at("cells").size(), 2 * (2 * measured - 1));
  for (const Json& cell : document.at("cells")) {
    SCOPED_TRACE(cell.dump());
    if (cell.at("path") == "fusion") {
      EXPECT_EQ(cell.at("status"), "refused");
      EXPECT_THAT(cell.at("reason").get<std::string>(),
                  HasSubstr("runs no PTX of narrow_tasks.cu"));
      continue;
    }
    ASSERT_EQ(cell.at("status"), "measured");
    EXPECT_FALSE(cell.at("part") == "copies" && cell.at("path") == "threads");
    for (const char* number : {"tasks_per_second", "total_us",
                               "response_mean_us", "response_p99_us"}) {
      EXPECT_GT(cell.at(number).at("median"), 0);
      EXPECT_EQ(cell.at(number).at("runs"), 2);  // there and back
    }
    EXPECT_EQ(cell.at("over_baseline").at("runs"), 1);
  }
  EXPECT_GT(std::filesystem::file_size(out + "/narrow.png"), 0u);
}

// Of 1,024 threads a task has no MTB.
TEST(NarrowOnCuda, TasksOfManySizesAndOfManyThreadsRun) {
  const Json document = Measure(kFake,
                                "--workloads mm,mb --parts irregular,threads "
                                "--paths hyperq,edge,pagoda,pagoda_ring");
  std::multiset<std::string> parts;
  for (const Json& cell : document.at("cells")) {
    SCOPED_TRACE(cell.dump());
    const std::string part = cell.at("part");
    parts.insert(part);
    const bool on_mtb =
        cell.at("path").get<std::string>().starts_with("pagoda");
    if (cell.value("threads", 0) == 1024 && on_mtb) {
      EXPECT_EQ(cell.at("status"), "refused");
      EXPECT_THAT(cell.at("reason").get<std::string>(),
                  HasSubstr("a block must have 1 to 992 threads"));
      continue;
    }
    EXPECT_EQ(cell.at("status"), "measured");
  }
  EXPECT_EQ(parts.count("irregular"), 2u * 4);
  EXPECT_EQ(parts.count("threads"), 3u * 4);
}

// The PTX that a GPU would run.
TEST(NarrowOnCuda, FusedLaunchesAndStreamsComputeOnTheSimulatedGpusDriver) {
  const Json document = Measure(kSimulated,
                                "--workloads conv,mpe --parts tasks,copies "
                                "--paths hyperq,fusion");
  EXPECT_EQ(document.at("driver"), "simulated GPU's driver: function only");
  EXPECT_EQ(document.at("cells").size(), 8u);
  for (const Json& cell : document.at("cells")) {
    EXPECT_EQ(cell.at("status"), "measured") << cell;
  }
}

// A gpud that comes up once only.
TEST(NarrowOnCuda, WhatWasMeasuredIsReportedWhenNoGpudComesUpAnyMore) {
  const std::string folder = getenv("TEST_TMPDIR");
  const std::string gpud = folder + "/once";
  std::ofstream(gpud) << "#!/bin/sh\nmkdir " << folder
                      << "/begun 2>/dev/null || exit 1\nexec "
                      << std::filesystem::current_path().string()
                      << "/gpu_daemon/gpud \"$@\"\n";
  std::filesystem::permissions(gpud, std::filesystem::perms::owner_all);
  const auto [text, code] = Output(
      kFake,
      "--workloads conv,mpe --parts tasks --paths hyperq,baseline,threads "
      "--json --gpud " +
          gpud);
  EXPECT_EQ(code, 1);
  const Json document = Json::parse(text, nullptr, false);
  ASSERT_TRUE(document.is_object()) << text;
  EXPECT_EQ(document.at("cells").size(), 6u);
  for (const Json& cell : document.at("cells")) {
    EXPECT_EQ(cell.at("status"),
              cell.at("path") == "hyperq" ? "measured" : "failed")
        << cell;
  }
}

// Of the fake driver's times nothing is hoped.
TEST(LaunchOnCuda, ADriverWithoutAGpuHasNoFigures) {
  const auto [text, code] = OutputOf(
      kFake, "launch_bench", "--parts latency --paths edge,baseline --json");
  EXPECT_EQ(code, 0);
  const Json document = Json::parse(text, nullptr, false);
  ASSERT_TRUE(document.is_object()) << text;
  EXPECT_EQ(document.at("driver"), "fake driver: function only");
  EXPECT_TRUE(document.at("figures").empty());
  EXPECT_FALSE(document.at("latency").empty());
}

TEST(NarrowOnCuda, WithoutAGpuOneErrorSaysSo) {
  setenv("CARILLON_FAKE_CUDA", "devices=0", 1);
  const auto [text, code] = Output(kFake, "2>&1");
  unsetenv("CARILLON_FAKE_CUDA");
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, HasSubstr("an NVIDIA driver, but no GPU here"));
}

TEST(NarrowOnCuda, WhatItHasNotIsRefusedByName) {
  const auto refused = [](const std::string& options) {
    return Output(kFake, options + " 2>&1");
  };
  using ::testing::Pair;
  EXPECT_THAT(refused("--paths pagoda_copy"),
              Pair(HasSubstr("pagoda itself copies entries"), 3));
  EXPECT_THAT(refused("--paths teleport"),
              Pair(HasSubstr("it has hyperq, fusion, baseline, edge"), 3));
  EXPECT_THAT(refused("--parts threads --workloads mb"),
              Pair(HasSubstr("part threads is of mm and conv"), 2));
}

}  // namespace
}  // namespace carillon::bench
