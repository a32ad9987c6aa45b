// Narrow tasks on a small simulated GPU: every path computes what the references
// say, keeps the order that tasks depend on, and takes the time that it must.
#include "tools/bench/narrow/simulated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/narrow/workload.h"

namespace carillon::bench {
namespace {

using sim::timing::LoadConfig;
using ::testing::HasSubstr;

SimulatedOptions SmallGpu() {
  SimulatedOptions options{.config = *LoadConfig("gtx980")};
  options.config.sm.count = 2;
  return options;
}

NarrowWorkload Workload(const std::string& name, uint32_t count,
                        uint32_t threads = 0) {
  auto workload = NarrowWorkload::Make(name, count, 1, threads);
  EXPECT_TRUE(workload.ok()) << workload.status();
  return *std::move(workload);
}

NarrowOutcome Outcome(const NarrowWorkload& workload, const std::string& path,
                      const SimulatedOptions& options) {
  auto outcome = RunSimulated(workload, path, options);
  EXPECT_TRUE(outcome.ok())
      << workload.name() << " on " << path << ": " << outcome.status();
  return outcome.ok() ? *std::move(outcome) : NarrowOutcome();
}

uint64_t End(const NarrowOutcome& outcome) {
  uint64_t end = 0;
  for (const NarrowTimes& task : outcome.tasks) {
    end = std::max(end, task.ended_ns);
  }
  return end;
}

class EveryWorkload : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryWorkload, HasRightResultsAndEachTaskATime) {
  const NarrowWorkload workload = Workload(GetParam(), 1);
  // Those that share no code; matrix products, which are short, try them all.
  std::vector<std::string> paths = {"baseline", "pagoda", "pagoda_ring",
                                    "fusion"};
  if (GetParam() == "mm") paths = SimulatedPaths();
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    SimulatedOptions options = SmallGpu();
    options.batch = 2;
    const NarrowOutcome outcome = Outcome(workload, path, options);
    ASSERT_EQ(outcome.tasks.size(), workload.tasks().size());
    for (const NarrowTimes& task : outcome.tasks) {
      EXPECT_GT(task.ended_ns, task.begun_ns);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Simulated, EveryWorkload,
                         ::testing::ValuesIn(NarrowWorkload::Names()),
                         [](const auto& test) { return "of_" + test.param; });

TEST(Simulated, ATaskBeginsWhenThoseThatItNeedsHaveEnded) {
  const NarrowWorkload workload = Workload("conv", 4);
  for (const char* const path :
       {"baseline", "pagoda", "pagoda_ring", "batches"}) {
    SCOPED_TRACE(path);
    const NarrowOutcome outcome = Outcome(workload, path, SmallGpu());
    for (size_t i = 0; i < outcome.tasks.size(); i += 2) {
      EXPECT_EQ(workload.tasks()[i].phase, 0u);
      EXPECT_GE(outcome.tasks[i + 1].begun_ns, outcome.tasks[i].ended_ns) << i;
    }
  }
}

TEST(Simulated, ABatchBeginsWhenTheSlowestOfTheLastOneHasEnded) {
  const NarrowWorkload workload = Workload("mm", 10);
  SimulatedOptions options = SmallGpu();
  options.batch = 4;
  for (const char* const path : {"batches", "pagoda_batches"}) {
    SCOPED_TRACE(path);
    const NarrowOutcome outcome = Outcome(workload, path, options);
    ASSERT_EQ(outcome.tasks.size(), 10u);
    for (size_t first = 4; first < 10; first += 4) {
      for (size_t i = first; i < std::min<size_t>(first + 4, 10); ++i) {
        for (size_t before = first - 4; before < first; ++before) {
          EXPECT_GE(outcome.tasks[i].begun_ns, outcome.tasks[before].ended_ns);
        }
      }
    }
  }
  const NarrowOutcome batches = Outcome(workload, "batches", options);
  EXPECT_EQ(batches.launches, 3u);
  const NarrowOutcome fusion = Outcome(workload, "fusion", options);
  EXPECT_EQ(fusion.launches, 1u);
  for (const NarrowTimes& task : fusion.tasks) {
    EXPECT_EQ(task.ended_ns, End(fusion));
  }
  EXPECT_EQ(Outcome(workload, "baseline", options).launches, 10u);
  EXPECT_EQ(Outcome(workload, "pagoda", options).launches, 1u);
}

// 8 tasks have 256 KiB of inputs, which the link brings in 8 chunks.
TEST(Simulated, CopiesTakeTheLinksTime) {
  const NarrowWorkload workload = Workload("mm", 8);
  SimulatedOptions options = SmallGpu();
  options.config.pcie.megabytes_per_second = 500;
  options.config.pcie.chunk_ns = 1000;
  for (const std::string path :
       {"baseline", "pagoda", "pagoda_ring", "fusion"}) {
    SCOPED_TRACE(path);
    const uint64_t without = End(Outcome(workload, path, options));
    options.copies = true;
    const uint64_t with = End(Outcome(workload, path, options));
    options.copies = false;
    constexpr uint64_t kInputs = 8 * 2 * 64 * 64 * 4;
    EXPECT_GE(with, kInputs * 2 + 8 * 1000);
    EXPECT_LT(without, kInputs * 2);
    // Where a task is a launch, or a spawn, outputs leave while inputs come.
    if (path != "fusion") {
      EXPECT_LT(with, kInputs * 2 + without + kInputs / 4 * 2);
    }
  }
}

TEST(Simulated, AHostThatNeedsLongerForALaunchMakesTheBaselineSlower) {
  const NarrowWorkload workload = Workload("mm", 8);
  SimulatedOptions options = SmallGpu();
  options.call_us = 100;
  EXPECT_GE(End(Outcome(workload, "baseline", options)), 800'000u);
  EXPECT_LT(End(Outcome(workload, "pagoda", options)), 800'000u);
  EXPECT_LT(End(Outcome(workload, "pagoda_ring", options)), 800'000u);
  options.store_us = 200;
  EXPECT_GE(End(Outcome(workload, "pagoda", options)), 1'600'000u);
  EXPECT_GE(End(Outcome(workload, "pagoda_ring", options)), 1'600'000u);
  EXPECT_GE(End(Outcome(workload, "edge", options)), 1'600'000u);
}

// A chain of tasks by copies: each waits for the one before, whose release may be
// an empty update.
TEST(Simulated, PagodasThresholdsAreThoseThatWereAskedFor) {
  const NarrowWorkload workload = Workload("slud", 8);
  SimulatedOptions options = SmallGpu();
  const uint64_t usual = End(Outcome(workload, "pagoda_copy", options));
  options.empty_update_us = 0;
  EXPECT_NE(End(Outcome(workload, "pagoda_copy", options)), usual);
  options = SmallGpu();
  options.copy_back_us = 0;
  EXPECT_NE(End(Outcome(workload, "pagoda_copy", options)), usual);
}

TEST(Simulated, ARunIsTheSameTwice) {
  const NarrowWorkload workload = Workload("fb", 4);
  for (const char* const path : {"baseline", "pagoda", "pagoda_ring"}) {
    const NarrowOutcome one = Outcome(workload, path, SmallGpu());
    const NarrowOutcome two = Outcome(workload, path, SmallGpu());
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(one.tasks[i].ended_ns, two.tasks[i].ended_ns);
    }
  }
}

TEST(Simulated, WhatThereIsNotIsRefusedByName) {
  const NarrowWorkload workload = Workload("mm", 1);
  const auto graph = RunSimulated(workload, "graph", SmallGpu());
  EXPECT_TRUE(absl::IsNotFound(graph.status()));
  EXPECT_THAT(graph.status().message(), HasSubstr("baseline, edge, pagoda"));
  SimulatedOptions small = SmallGpu();
  small.config.sm.shared_bytes = 16 << 10;
  for (const char* const path : {"pagoda", "pagoda_ring"}) {
    SCOPED_TRACE(path);
    const auto mtb = RunSimulated(workload, path, small);
    EXPECT_TRUE(absl::IsResourceExhausted(mtb.status())) << mtb.status();
    EXPECT_THAT(mtb.status().message(),
                HasSubstr("1024 threads, 32 registers each"));
  }
}

TEST(Simulated, ATaskOf1024ThreadsIsForPathsWithoutMtbs) {
  const NarrowWorkload workload = Workload("mm", 1, 1024);
  EXPECT_GT(End(Outcome(workload, "baseline", SmallGpu())), 0u);
  for (const char* const path : {"pagoda", "pagoda_ring"}) {
    SCOPED_TRACE(path);
    const auto mtb = RunSimulated(workload, path, SmallGpu());
    EXPECT_TRUE(absl::IsResourceExhausted(mtb.status())) << mtb.status();
    EXPECT_THAT(mtb.status().message(),
                HasSubstr("a task has 1024 threads: an MTB has 992"));
  }
}

// Column 0 looks at the doorbells, and at first and then now and then at the trap
// and the command before them, a read of the host's memory each; who takes the
// task reads its entry. What the task itself needs is
// known from a host whose memory is near.
TEST(Simulated, ARungTaskTakesThePollsThatItWaitsForAndOneReadOfItsEntry) {
  const NarrowWorkload workload = Workload("mm", 1);
  SimulatedOptions options = SmallGpu();
  options.store_us = 0;
  options.host_read_us = 0;
  const uint64_t near = End(Outcome(workload, "pagoda_ring", options));
  constexpr uint64_t kRead = 100'000;
  options.host_read_us = 100;
  std::vector<uint64_t> after_bell;
  for (uint64_t half = 0; half < 6; ++half) {
    options.store_us = static_cast<double>(half) * 50;
    const uint64_t bell = half * kRead / 2;
    after_bell.push_back(End(Outcome(workload, "pagoda_ring", options)) - bell);
    EXPECT_GE(after_bell.back() + near / 2, near + kRead * 3 / 2);
    EXPECT_LE(after_bell.back(), near + near / 2 + kRead * 9 / 2);
  }
  // Rung at all moments of a look, it waits for up to three reads: the longest
  // and the shortest way are nearly so far apart.
  const auto [least, most] = std::ranges::minmax(after_bell);
  EXPECT_GE(most - least, kRead * 2);
  EXPECT_LE(most - least, kRead * 3 + near / 2);
}

// The run itself compares what was rung, taken and done, and fails if they differ.
TEST(Simulated, ARingRunsEachTaskOnceByOneLaunch) {
  SimulatedOptions options = SmallGpu();
  const NarrowWorkload workload = Workload("dct", 40);
  const NarrowOutcome outcome = Outcome(workload, "pagoda_ring", options);
  EXPECT_EQ(outcome.tasks.size(), workload.tasks().size());
  EXPECT_EQ(outcome.launches, 1u);
}

}  // namespace
}  // namespace carillon::bench
