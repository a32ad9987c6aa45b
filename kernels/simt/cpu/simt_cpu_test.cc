// The promises of kernels/simt/simt.h for plain kernels on a CPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "kernels/simt/kernel_test_util.h"
#include "kernels/simt/simt.h"
#include "kernels/simt/simt_surface.cuh"

namespace carillon::simt {
namespace {

struct Seen {
  Dim3 thread;
  Dim3 block;
  Dim3 block_dim;
  Dim3 grid_dim;
  uint32_t linear, lane, warp, warp_mask, block_threads;
  uint64_t x, y, z, global_linear, grid_threads;
};
struct SeenArgs {
  Span<Seen> seen;
  Span<uint32_t> count;
};

CARILLON_KERNEL(note_position, SeenArgs, args, self) {
  const uint64_t slot = AtomicAdd(&args.count[0], 1);
  if (!args.seen.InBounds(slot, 1)) {
    self.Fail(kFailBadArguments);
    return;
  }
  args.seen[slot] =
      Seen{self.thread_index(),  self.block_index(), self.block_dim(),
           self.grid_dim(),      self.linear(),      self.lane(),
           self.warp(),          self.warp_mask(),   self.block_threads(),
           self.global_x(),      self.global_y(),    self.global_z(),
           self.global_linear(), self.grid_threads()};
}
CARILLON_KERNEL_INFO(note_position, SeenArgs, "test", Registers(1),
                     CARILLON_PARAM(SeenArgs, seen, "one entry a thread"),
                     CARILLON_PARAM(SeenArgs, count, "threads that ran"));

TEST(PlainKernel, EveryThreadRunsOnceAndKnowsItsPlace) {
  const Dim3 grid{3, 2, 2};
  const Dim3 block{5, 4, 2};
  const uint64_t threads = grid.count() * block.count();
  std::vector<Seen> seen(threads);
  std::vector<uint32_t> count(1);
  const GridResult result = RunGrid(note_position_info, grid, block,
                                    SeenArgs{Writable(seen), Writable(count)});
  EXPECT_EQ(result.status, kFailNone);
  ASSERT_EQ(count[0], threads);
  std::set<uint64_t> places;
  for (const Seen& s : seen) {
    EXPECT_EQ(s.block_dim, block);
    EXPECT_EQ(s.grid_dim, grid);
    ASSERT_LT(s.thread.x, block.x);
    ASSERT_LT(s.thread.y, block.y);
    ASSERT_LT(s.thread.z, block.z);
    EXPECT_EQ(s.linear, (s.thread.z * 4 + s.thread.y) * 5 + s.thread.x);
    EXPECT_EQ(s.lane, s.linear % 32);
    EXPECT_EQ(s.warp, s.linear / 32);
    EXPECT_EQ(s.block_threads, 40u);
    EXPECT_EQ(s.warp_mask, s.warp == 0 ? 0xffffffffu : 0xffu);
    EXPECT_EQ(s.x, s.block.x * 5 + s.thread.x);
    EXPECT_EQ(s.y, s.block.y * 4 + s.thread.y);
    EXPECT_EQ(s.z, s.block.z * 2 + s.thread.z);
    EXPECT_EQ(s.grid_threads, threads);
    EXPECT_EQ(s.global_linear,
              ((s.block.z * 2 + s.block.y) * 3 + s.block.x) * 40 + s.linear);
    places.insert(s.global_linear);
  }
  EXPECT_EQ(places.size(), threads);
}

struct CodeArgs {
  uint32_t first_code;
};
CARILLON_KERNEL(fail_each, CodeArgs, args, self) {
  self.Fail(args.first_code + self.linear());
}
CARILLON_KERNEL_INFO(fail_each, CodeArgs, "test", Registers(1),
                     CARILLON_PARAM(CodeArgs, first_code, "of thread 0"));

TEST(PlainKernel, TheFirstFailureWins) {
  EXPECT_EQ(RunGrid(fail_each_info, {}, {8, 1, 1}, CodeArgs{7}).status, 7u);
}

TEST(PlainKernel, StatusesOfTheBackEndCannotBeForged) {
  EXPECT_EQ(RunGrid(fail_each_info, {}, {}, CodeArgs{0}).status,
            kMaxKernelStatus);
  EXPECT_EQ(
      RunGrid(fail_each_info, {}, {}, CodeArgs{kFailBarrierDeadlock}).status,
      kMaxKernelStatus);
}

TEST(PlainKernel, AFailureInOneOfManyConcurrentBlocksIsKept) {
  const GridResult result = RunGrid(fail_each_info, {64, 1, 1}, {32, 1, 1},
                                    CodeArgs{100}, {.workers = 4});
  EXPECT_GE(result.status, 100u);
  EXPECT_LT(result.status, 132u);
}

struct SharedArgs {
  Span<uint32_t> out;
  uint32_t offset;
  uint32_t count;
};
CARILLON_KERNEL(use_shared, SharedArgs, args, self) {
  uint32_t* words = self.shared<uint32_t>(args.offset, args.count);
  for (uint32_t i = 0; i < args.count; ++i) words[i] = i;
  args.out[0] = args.count == 0 ? 0 : words[args.count - 1];
}
CARILLON_KERNEL_INFO(use_shared, SharedArgs, "test", Registers(1),
                     CARILLON_PARAM(SharedArgs, out, "last word"),
                     CARILLON_PARAM(SharedArgs, offset, "bytes"),
                     CARILLON_PARAM(SharedArgs, count, "words"));

TEST(PlainKernel, SharedMemoryReachesToItsEnd) {
  std::vector<uint32_t> out(1);
  const GridResult result =
      RunGrid(use_shared_info, {}, {}, SharedArgs{Writable(out), 16, 12},
              {.extra_shared_bytes = 64});
  EXPECT_EQ(result.status, kFailNone) << result.message;
  EXPECT_EQ(out[0], 11u);
}

TEST(PlainKernel, SharedMemoryBeyondTheLaunchFailsTheEventAndNothingElse) {
  std::vector<uint32_t> out(1);
  for (const auto& [offset, count] : std::vector<std::pair<uint32_t, uint32_t>>{
           {16, 13}, {64, 1}, {0xfffffffc, 1}, {2, 4}, {0, 1u << 20}}) {
    const GridResult result = RunGrid(use_shared_info, {}, {},
                                      SharedArgs{Writable(out), offset, count},
                                      {.extra_shared_bytes = 64});
    EXPECT_EQ(result.status, kFailSharedOutOfRange) << offset << " " << count;
    EXPECT_NE(result.message.find("kernel use_shared, block (0,0,0)"),
              std::string::npos)
        << result.message;
    EXPECT_NE(result.message.find("64 bytes"), std::string::npos);
  }
}

TEST(Atomics, ConcurrentBlocksLoseNoUpdate) {
  constexpr uint32_t kThreads = 64 * 128;
  std::vector<uint32_t> u32{0, 0, 1000000, 0, 0, ~0u, ~0u, 0};
  std::vector<int32_t> i32{0, -1000000};
  std::vector<uint64_t> u64{0, 0, 0};
  std::vector<float> f32{0};
  RunGrid(
      use_atomics_info, {64, 1, 1}, {128, 1, 1},
      AtomicArgs{Writable(u32), Writable(i32), Writable(u64), Writable(f32)},
      {.workers = 4});
  EXPECT_EQ(u32[0], kThreads);
  EXPECT_EQ(u32[1], 0u - 2 * kThreads);
  EXPECT_EQ(u32[2], 5u);
  EXPECT_EQ(u32[3], kThreads - 1);
  EXPECT_EQ(u32[4], ~0u);
  EXPECT_EQ(u32[5], 0u);
  EXPECT_LT(u32[6], kThreads);
  EXPECT_EQ(i32[0], 1 - static_cast<int32_t>(kThreads));
  EXPECT_EQ(i32[1], 0);
  EXPECT_EQ(u64[0], uint64_t{kThreads} << 32);
  EXPECT_EQ(u64[1], kThreads);
  EXPECT_EQ(f32[0], kThreads / 2.0f);
}

TEST(Atomics, ReturnTheOldValue) {
  uint32_t word = 10;
  EXPECT_EQ(AtomicAdd(&word, 5), 10u);
  EXPECT_EQ(AtomicSub(&word, 1), 15u);
  EXPECT_EQ(AtomicMin(&word, 20), 14u);
  EXPECT_EQ(AtomicMax(&word, 20), 14u);
  EXPECT_EQ(AtomicExch(&word, 3), 20u);
  EXPECT_EQ(AtomicCas(&word, 4, 9), 3u);
  EXPECT_EQ(word, 3u);
  EXPECT_EQ(AtomicCas(&word, 3, 9), 3u);
  EXPECT_EQ(AtomicOr(&word, 6), 9u);
  EXPECT_EQ(AtomicAnd(&word, 3), 15u);
  EXPECT_EQ(word, 3u);
}

struct MessageArgs {
  Span<uint64_t> payload;
  Span<uint32_t> flag;
  Span<uint64_t> received;
};
// Block 0 sends, block 1 receives: they must run in different OS threads.
CARILLON_KERNEL(pass_message, MessageArgs, args, self) {
  if (self.block_index().x == 0) {
    args.payload[0] = 42;
    StoreRelease(&args.flag[0], 1);
    return;
  }
  for (uint32_t round = 0; LoadAcquire(&args.flag[0]) == 0; ++round) {
    SpinPause(round);
  }
  args.received[0] = args.payload[0];
}
CARILLON_KERNEL_INFO(pass_message, MessageArgs, "test", Registers(1),
                     CARILLON_PARAM(MessageArgs, payload, ""),
                     CARILLON_PARAM(MessageArgs, flag, ""),
                     CARILLON_PARAM(MessageArgs, received, ""));

TEST(Atomics, ReleaseAndAcquireCarryPlainWritesBetweenBlocks) {
  for (int i = 0; i < 200; ++i) {
    std::vector<uint64_t> payload(1), received(1);
    std::vector<uint32_t> flag(1);
    RunGrid(pass_message_info, {2, 1, 1}, {},
            MessageArgs{Writable(payload), Writable(flag), Writable(received)},
            {.workers = 2});
    ASSERT_EQ(received[0], 42u);
  }
}

TEST(Span, BoundsHoldForEveryPairOf64BitValues) {
  uint8_t bytes[8];
  const Span<uint8_t> span{bytes, 8};
  EXPECT_TRUE(span.InBounds(0, 8));
  EXPECT_TRUE(span.InBounds(8, 0));
  EXPECT_FALSE(span.InBounds(8, 1));
  EXPECT_FALSE(span.InBounds(9, 0));
  EXPECT_FALSE(span.InBounds(~0ull, 2));
  EXPECT_FALSE(span.InBounds(1, ~0ull));
  EXPECT_EQ(span.sub(2, 3).data, bytes + 2);
  EXPECT_EQ(span.sub(2, 3).size, 3u);
  EXPECT_TRUE(span.sub(2, 7).empty());
}

TEST(KernelInfo, ParametersAreDescribedFromTheStruct) {
  const KernelInfo& info = use_atomics_info;
  ASSERT_EQ(info.params.size(), 4u);
  EXPECT_EQ(info.args_size, 64u);
  EXPECT_EQ(info.params[2].name, "u64");
  EXPECT_EQ(info.params[2].kind, ParamKind::kWriteBuffer);
  EXPECT_EQ(info.params[2].offset, 32u);
  EXPECT_EQ(info.params[2].element_size, 8u);
  EXPECT_EQ(info.params[2].element_align, 8u);
  EXPECT_FALSE(info.uses_barriers);
}

TEST(BitHelpers, CountAsOnAGpu) {
  EXPECT_EQ(PopCount(0xf0u), 4u);
  EXPECT_EQ(CountLeadingZeros(0), 32u);
  EXPECT_EQ(CountLeadingZeros(1), 31u);
  EXPECT_EQ(CountTrailingZeros(0), 32u);
  EXPECT_EQ(CountTrailingZeros(8), 3u);
}

}  // namespace
}  // namespace carillon::simt
