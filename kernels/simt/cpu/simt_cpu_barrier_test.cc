// The promises of kernels/simt/simt.h for barrier kernels on a CPU.
#include "kernels/simt/cpu/simt_cpu_barrier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/simt/kernel_test_util.h"
#include "kernels/simt/simt.h"
#include "kernels/simt/simt_surface.cuh"

namespace carillon::simt {
namespace {

struct WordsArgs {
  Span<uint32_t> words;
  uint32_t mode;
};

// Each thread writes, waits for the others, and sums what all of them wrote,
// with block shapes of every kind and blocks in several OS threads at once.
CARILLON_BARRIER_KERNEL(sum_of_block, WordsArgs, args, self) {
  uint32_t* cells = self.shared<uint32_t>(0, self.block_threads());
  cells[self.linear()] = self.thread_index().x + 10 * self.thread_index().y +
                         100 * self.thread_index().z +
                         static_cast<uint32_t>(self.global_x());
  CARILLON_SYNC_THREADS(self);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < self.block_threads(); ++i) sum += cells[i];
  args.words[self.global_linear()] = sum;
}
CARILLON_KERNEL_INFO(sum_of_block, WordsArgs, "test", Registers(1),
                     CARILLON_PARAM(WordsArgs, words, ""));

TEST(BarrierKernel, EveryThreadSeesWhatAllWroteBeforeTheBarrier) {
  for (const Dim3 block : {Dim3{1, 1, 1}, Dim3{7, 1, 1}, Dim3{3, 5, 2},
                           Dim3{32, 2, 1}, Dim3{33, 3, 3}, Dim3{32, 32, 1}}) {
    const Dim3 grid{6, 1, 1};
    std::vector<uint32_t> words(grid.count() * block.count());
    const GridResult result =
        RunGrid(sum_of_block_info, grid, block, WordsArgs{Writable(words), 0},
                {.extra_shared_bytes = static_cast<uint32_t>(block.count() * 4),
                 .workers = 3});
    ASSERT_EQ(result.status, kFailNone) << result.message;
    for (uint32_t b = 0; b < grid.x; ++b) {
      uint32_t expected = 0;
      for (uint32_t z = 0; z < block.z; ++z) {
        for (uint32_t y = 0; y < block.y; ++y) {
          for (uint32_t x = 0; x < block.x; ++x) {
            expected += x + 10 * y + 100 * z + b * block.x + x;
          }
        }
      }
      for (uint64_t i = 0; i < block.count(); ++i) {
        ASSERT_EQ(words[b * block.count() + i], expected) << b << " " << i;
      }
    }
  }
}

struct Counter {
  explicit Counter(int* count) : count(count) { ++*count; }
  ~Counter() { --*count; }
  Counter(const Counter&) = delete;
  int* count;
};
int live_locals = 0;

// Different ways to wait for threads that never arrive, by mode.
CARILLON_BARRIER_KERNEL(stuck, WordsArgs, args, self) {
  const Counter counter(&live_locals);
  const uint32_t me = self.linear();
  switch (args.mode) {
    case 0:  // two barriers in the arms of a divergent branch
      if (me < 5) {
        CARILLON_SYNC_THREADS(self);
      } else {
        CARILLON_SYNC_THREADS(self);
      }
      break;
    case 1:  // the same between warps
      if (self.warp() == 0) {
        CARILLON_SYNC_THREADS(self);
      } else {
        CARILLON_SYNC_THREADS(self);
      }
      break;
    case 2:  // one lane misses a shuffle and goes to the barrier
      if (me != 3) {
        CARILLON_SYNC_WARP(self);
      }
      CARILLON_SYNC_THREADS(self);
      break;
    case 3:  // different operations with the same mask
      if (me % 2 == 0) {
        const auto v = CARILLON_SHFL(self, me, 0);
        args.words[0] = v;
      } else {
        const auto v = CARILLON_BALLOT(self, true);
        args.words[0] = v;
      }
      break;
    case 4:  // a mask without the thread itself
      CARILLON_SYNC_WARP_MASK(self, 1u << ((self.lane() + 1) % 32));
      break;
    case 5:  // only the second phase is wrong
      CARILLON_SYNC_THREADS(self);
      if (self.warp() == 1) {
        CARILLON_SYNC_THREADS(self);
      }
      CARILLON_SYNC_THREADS(self);
      break;
    case 6:  // a mask of nobody
      CARILLON_SYNC_WARP_MASK(self, 0);
      break;
  }
  args.words[me] = 1;
}
CARILLON_KERNEL_INFO(stuck, WordsArgs, "test", Registers(1),
                     CARILLON_PARAM(WordsArgs, words, ""));

TEST(BarrierKernel, WaitingForThreadsThatDoNotComeFailsTheEvent) {
  const std::vector<uint32_t> expected{
      kFailBarrierDeadlock, kFailBarrierDeadlock, kFailWarpDeadlock,
      kFailWarpDeadlock,    kFailWarpDeadlock,    kFailBarrierDeadlock,
      kFailWarpDeadlock};
  for (uint32_t mode = 0; mode < expected.size(); ++mode) {
    std::vector<uint32_t> words(70);
    const GridResult result = RunGrid(stuck_info, {2, 1, 1}, {70, 1, 1},
                                      WordsArgs{Writable(words), mode});
    EXPECT_EQ(result.status, expected[mode]) << mode << ": " << result.message;
    EXPECT_EQ(result.message.find("kernel stuck, block (0,0,0): thread "), 0u)
        << result.message;
    // No thread passed the place, and the locals of all threads were destroyed.
    EXPECT_EQ(words, std::vector<uint32_t>(70)) << mode;
    EXPECT_EQ(live_locals, 0) << mode;
  }
}

TEST(BarrierKernel, ADeadlockIsExplainedByTwoThreadsAndTheirLines) {
  std::vector<uint32_t> words(70);
  const std::string message =
      RunGrid(stuck_info, {}, {70, 1, 1}, WordsArgs{Writable(words), 2})
          .message;
  EXPECT_NE(message.find("thread 0 waits at a warp operation in line "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("thread 3 at the block barrier in line "),
            std::string::npos)
      << message;
}

// Lane 1 shuffles with itself before it joins lane 0.
CARILLON_BARRIER_KERNEL(join_late, WordsArgs, args, self) {
  uint32_t value = 7;
  if (self.lane() == 1) {
    value = 100;
    const auto own = CARILLON_SHFL_MASK(self, 0x2, value, 0);
    value = 2 * own;
  }
  const auto other = CARILLON_SHFL_MASK(self, 0x3, value, self.lane() ^ 1);
  args.words[self.lane()] = other;
}
CARILLON_KERNEL_INFO(join_late, WordsArgs, "test", Registers(1),
                     CARILLON_PARAM(WordsArgs, words, ""));

TEST(BarrierKernel, AWarpOperationWaitsForLanesThatNameTheSameMask) {
  std::vector<uint32_t> words(2);
  const GridResult result =
      RunGrid(join_late_info, {}, {2, 1, 1}, WordsArgs{Writable(words), 0});
  ASSERT_EQ(result.status, kFailNone) << result.message;
  EXPECT_EQ(words[0], 200u);
  EXPECT_EQ(words[1], 7u);
}

// On GPUs since Volta a barrier waits only for threads that are still alive.
CARILLON_BARRIER_KERNEL(leave_early, WordsArgs, args, self) {
  if (self.linear() % 3 == 1) CARILLON_EXIT;
  CARILLON_SYNC_THREADS(self);
  const auto votes = CARILLON_BALLOT(self, true);
  args.words[self.linear()] = votes;
  if (self.warp() == 0) CARILLON_EXIT;
  CARILLON_SYNC_THREADS(self);
  args.words[self.linear()] += 1;
}
CARILLON_KERNEL_INFO(leave_early, WordsArgs, "test", Registers(1),
                     CARILLON_PARAM(WordsArgs, words, ""));

TEST(BarrierKernel, ThreadsThatHaveExitedAreNotWaitedFor) {
  std::vector<uint32_t> words(45);
  const GridResult result =
      RunGrid(leave_early_info, {}, {45, 1, 1}, WordsArgs{Writable(words), 0});
  ASSERT_EQ(result.status, kFailNone) << result.message;
  uint32_t votes[2] = {0, 0};
  for (uint32_t i = 0; i < 45; ++i) {
    if (i % 3 != 1) votes[i / 32] |= 1u << (i % 32);
  }
  for (uint32_t i = 0; i < 45; ++i) {
    EXPECT_EQ(words[i], i % 3 == 1 ? 0 : votes[i / 32] + i / 32) << i;
  }
}

CARILLON_BARRIER_KERNEL(exit_all, WordsArgs, args, self) {
  if (args.mode == 0) CARILLON_EXIT;
  CARILLON_SYNC_THREADS(self);
}
CARILLON_KERNEL_INFO(exit_all, WordsArgs, "test", Registers(1),
                     CARILLON_PARAM(WordsArgs, words, ""));

TEST(BarrierKernel, BlocksThatNoLaunchMayHaveAreRefused) {
  std::vector<uint32_t> words(1);
  for (const Dim3 block : {Dim3{0, 1, 1}, Dim3{1025, 1, 1}, Dim3{32, 33, 1},
                           Dim3{65536, 65536, 1}, Dim3{1u << 31, 2, 1},
                           // 2^64 + 4 threads, which 64 bits take for 4
                           Dim3{769546, 494770, 48448661}}) {
    const GridResult result =
        RunGrid(exit_all_info, {}, block, WordsArgs{Writable(words), 0});
    EXPECT_EQ(result.status, kFailBadLaunch) << block.x << "x" << block.y;
  }
  EXPECT_EQ(
      RunGrid(exit_all_info, {}, {1024, 1, 1}, WordsArgs{Writable(words), 0})
          .status,
      kFailNone);
}

CARILLON_BARRIER_KERNEL(fail_late, WordsArgs, args, self) {
  CARILLON_SYNC_THREADS(self);
  if (self.linear() == args.mode) self.Fail(77);
  CARILLON_SYNC_THREADS(self);
  args.words[self.linear()] = 1;
}
CARILLON_KERNEL_INFO(fail_late, WordsArgs, "test", Registers(1),
                     CARILLON_PARAM(WordsArgs, words, ""));

TEST(BarrierKernel, AThreadThatFailsGoesOnToTheNextBarrier) {
  std::vector<uint32_t> words(40);
  const GridResult result =
      RunGrid(fail_late_info, {}, {40, 1, 1}, WordsArgs{Writable(words), 35});
  EXPECT_EQ(result.status, 77u);
  EXPECT_EQ(words, std::vector<uint32_t>(40, 1));
}

// A warp's leader takes and releases a lock between two barriers, as with a
// hash table's set locks. All warps of all blocks contend for one lock.
struct LockArgs {
  Span<uint32_t> lock;
  Span<uint64_t> guarded;
};
CARILLON_BARRIER_KERNEL(lock_by_warp, LockArgs, args, self) {
  if (self.lane() == 0) {
    for (uint32_t round = 0; AtomicCas(&args.lock[0], 0, 1) != 0; ++round) {
      SpinPause(round);
    }
    ThreadFence();
  }
  CARILLON_SYNC_WARP(self);
  const uint64_t seen = args.guarded[0];
  CARILLON_SYNC_WARP(self);
  if (self.lane() == 0) {
    args.guarded[0] = seen + 1;
    ThreadFence();
    AtomicExch(&args.lock[0], 0);
  }
}
CARILLON_KERNEL_INFO(lock_by_warp, LockArgs, "test", Registers(1),
                     CARILLON_PARAM(LockArgs, lock, ""),
                     CARILLON_PARAM(LockArgs, guarded, ""));

TEST(BarrierKernel, WarpsMayGuardDataWithALockAcrossWarpOperations) {
  std::vector<uint32_t> lock(1);
  std::vector<uint64_t> guarded(1);
  const GridResult result =
      RunGrid(lock_by_warp_info, {50, 1, 1}, {128, 1, 1},
              LockArgs{Writable(lock), Writable(guarded)}, {.workers = 4});
  ASSERT_EQ(result.status, kFailNone) << result.message;
  EXPECT_EQ(guarded[0], 50u * 4);
}

TEST(FrameArena, GivesTheSameMemoryToTheNextBlock) {
  internal::FrameArena arena;
  const internal::FrameArena::Mark start = arena.mark();
  void* first = arena.Allocate(100);
  void* large = arena.Allocate(1 << 20);
  void* after = arena.Allocate(100);
  ASSERT_NE(first, nullptr);
  for (int i = 0; i < 3; ++i) {
    arena.Release(start);
    EXPECT_EQ(arena.Allocate(100), first);
    EXPECT_EQ(arena.Allocate(1 << 20), large);
    EXPECT_EQ(arena.Allocate(100), after);
  }
}

TEST(FrameArena, InnerBlocksLeaveOuterFramesAlone) {
  internal::FrameArena arena;
  auto* outer = static_cast<uint8_t*>(arena.Allocate(64));
  std::fill_n(outer, 64, uint8_t{7});
  const internal::FrameArena::Mark inner = arena.mark();
  for (int i = 0; i < 100; ++i) {
    auto* frame = static_cast<uint8_t*>(arena.Allocate(4000));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frame) % 16, 0u);
    std::fill_n(frame, 4000, uint8_t{9});
  }
  arena.Release(inner);
  auto* next = static_cast<uint8_t*>(arena.Allocate(64));
  EXPECT_GE(next, outer + 64);
  EXPECT_EQ(std::count(outer, outer + 64, 7), 64);
}

TEST(BarrierKernel, HasPagodasNamesForItsThreadItsBarrierAndItsMemory) {
  constexpr uint32_t kThreads = 70;
  std::vector<uint32_t> in(3 * kThreads);
  std::vector<uint32_t> out(in.size());
  for (uint32_t i = 0; i < in.size(); ++i) in[i] = 1000 + i;
  const GridResult result =
      RunGrid(rotate_task_info, {3, 1, 1}, {kThreads, 1, 1},
              RotateArgs{ReadOnly(in), Writable(out)},
              {.extra_shared_bytes = kThreads * 4});
  ASSERT_EQ(result.status, kFailNone) << result.message;
  for (uint32_t i = 0; i < in.size(); ++i) {
    const uint32_t block = i / kThreads * kThreads;
    ASSERT_EQ(out[i], in[block + (i - block + 1) % kThreads]) << i;
  }
}

}  // namespace
}  // namespace carillon::simt
