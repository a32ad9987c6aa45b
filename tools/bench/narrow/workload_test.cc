#include "tools/bench/narrow/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tools/bench/narrow/on_cores.h"
#include "tools/bench/narrow/order.h"
#include "tools/bench/narrow/outcome.h"

namespace carillon::bench {
namespace {

using ::testing::HasSubstr;

TEST(NarrowWorkload, EveryTasksResultIsCheckedAgainstTheReferences) {
  for (const std::string& name : NarrowWorkload::Names()) {
    SCOPED_TRACE(name);
    const auto workload = NarrowWorkload::Make(name, 5, 1);
    ASSERT_TRUE(workload.ok()) << workload.status();
    ASSERT_GE(workload->tasks().size(), 5u);
    const auto outcome = RunByThreads(*workload, 2);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->tasks.size(), workload->tasks().size());
    // Without a task having run, nothing is right.
    EXPECT_TRUE(absl::IsDataLoss(workload->Check(workload->initial())));
  }
}

// Each size has results of its own.
TEST(NarrowWorkload, IrregularTasksHaveManySizesAndAreCheckedToo) {
  for (const std::string& name : NarrowWorkload::Names()) {
    SCOPED_TRACE(name);
    const auto workload =
        NarrowWorkload::Make(name, 12, 1, 0, kernels::NarrowSizes::kIrregular);
    ASSERT_TRUE(workload.ok()) << workload.status();
    std::set<uint32_t> threads;
    for (const NarrowUnit& task : workload->tasks()) {
      threads.insert(task.threads);
    }
    EXPECT_GT(threads.size(), 2u);
    const auto outcome = RunByThreads(*workload, 2);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_TRUE(absl::IsDataLoss(workload->Check(workload->initial())));
  }
}

// Every number of an output counts, wherever it is.
TEST(NarrowWorkload, OneWrongNumberIsFoundAndItsTaskNamed) {
  // So many that several threads compare them.
  const auto workload = NarrowWorkload::Make("mm", 300, 1);
  ASSERT_TRUE(workload.ok()) << workload.status();
  std::vector<std::byte> memory(workload->initial().begin(),
                                workload->initial().end());
  for (const NarrowUnit& task : workload->tasks()) {
    uint32_t status = 0;
    std::vector<std::byte> shared(task.kernel->static_shared_bytes);
    const auto arguments = NarrowWorkload::ArgumentsOf(
        task, reinterpret_cast<uint64_t>(memory.data()));
    task.kernel->run_block({.grid = {1, 1, 1},
                            .block = {task.threads, 1, 1},
                            .block_index = {0, 0, 0},
                            .shared_bytes = task.kernel->static_shared_bytes,
                            .shared = shared.data(),
                            .fail_status = &status},
                           arguments.data());
  }
  ASSERT_TRUE(workload->Check(memory).ok());
  const auto last_byte = [&](size_t task) -> std::byte& {
    const NarrowUnit& unit = workload->tasks()[task];
    const auto product =
        std::ranges::find(unit.arguments, "c", &NarrowArgument::name);
    return memory[product->offset + product->bytes - 1];
  };
  last_byte(299) ^= std::byte{1};
  EXPECT_THAT(workload->Check(memory).message(), HasSubstr("task 299 of 300"));
  // The first of several.
  last_byte(130) ^= std::byte{1};
  EXPECT_THAT(workload->Check(memory).message(), HasSubstr("task 130 of 300"));
  last_byte(130) ^= std::byte{1};
  last_byte(299) ^= std::byte{1};
  EXPECT_TRUE(workload->Check(memory).ok());
}

TEST(NarrowWorkload, TasksComeInWholeGroupsWithWhatIsCopiedForThem) {
  const auto beams = NarrowWorkload::Make("bf", 33, 1);
  ASSERT_TRUE(beams.ok());
  EXPECT_EQ(beams->tasks().size(), 64u);
  const auto conv = NarrowWorkload::Make("conv", 3, 1, 256);
  ASSERT_TRUE(conv.ok());
  ASSERT_EQ(conv->tasks().size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    constexpr uint64_t kImage = 128 * 128 * 4;
    EXPECT_EQ(conv->tasks()[i].in.bytes, i % 2 == 0 ? kImage : 0);
    EXPECT_EQ(conv->tasks()[i].out.bytes, i % 2 == 1 ? kImage : 0);
    EXPECT_EQ(conv->tasks()[i].threads, 256u);
  }
  // Each block that is there is copied in once, and each that is changed, back.
  const auto slud = NarrowWorkload::Make("slud", 40, 1);
  ASSERT_TRUE(slud.ok());
  uint64_t in = 0, out = 0;
  for (const NarrowUnit& task : slud->tasks()) {
    in += task.in.bytes;
    out += task.out.bytes;
  }
  EXPECT_GT(in, 0u);
  EXPECT_GT(out, in);
  EXPECT_EQ(in % 4096, 0u);
}

TEST(NarrowWorkload, WhatCannotBeIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(NarrowWorkload::Make("x", 1, 1).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(NarrowWorkload::Make("mm", 0, 1).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(NarrowWorkload::Make("mm", 32'769, 1).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(NarrowWorkload::Make("mm", 1, 1, 33).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(NarrowWorkload::Make("mm", 1, 1, 1056).status()));
}

TEST(NarrowOrder, GivesEachTaskOnceAndNoneBeforeThoseThatItNeeds) {
  for (const char* const name : {"bf", "slud", "conv", "mpe"}) {
    SCOPED_TRACE(name);
    const auto workload = NarrowWorkload::Make(name, 64, 1);
    ASSERT_TRUE(workload.ok());
    const auto& tasks = workload->tasks();
    NarrowOrder order(*workload);
    std::vector<int> state(tasks.size());  // 1: begun, 2: ended
    std::vector<size_t> open;
    while (!order.all_ended()) {
      while (order.may_begin()) {
        const size_t task = order.Next();
        ASSERT_EQ(state[task], 0);
        for (size_t other = 0; other < tasks.size(); ++other) {
          if (tasks[other].group == tasks[task].group &&
              tasks[other].phase < tasks[task].phase) {
            ASSERT_EQ(state[other], 2) << other << " before " << task;
          }
        }
        state[task] = 1;
        open.push_back(task);
      }
      ASSERT_EQ(order.Next(), NarrowOrder::kNone);
      // The last one that began ends first.
      ASSERT_FALSE(open.empty());
      state[open.back()] = 2;
      order.Ended(open.back());
      open.pop_back();
    }
    EXPECT_TRUE(order.all_begun());
    EXPECT_EQ(std::ranges::count(state, 2), static_cast<int>(tasks.size()));
  }
}

TEST(NarrowSummary, ResponseIsFromATasksBeginningToItsEnd) {
  NarrowOutcome outcome;
  for (uint64_t i = 1; i <= 100; ++i) {
    outcome.tasks.push_back({.begun_ns = i, .ended_ns = i + 10 * i});
  }
  const NarrowSummary summary = Summarize(outcome);
  EXPECT_EQ(summary.total_ns, 1100);
  EXPECT_DOUBLE_EQ(summary.tasks_per_second, 100e9 / 1100);
  EXPECT_DOUBLE_EQ(summary.mean_ns, 505);
  EXPECT_EQ(summary.p99_ns, 990);
}

}  // namespace
}  // namespace carillon::bench
