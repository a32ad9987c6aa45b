// malloc(), free(), new, delete and alloca() of kernels.
#include <gmock/gmock.h>

#include <functional>

#include "fmt/format.h"
#include "sim/everyday/cuda_test.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;

class HeapTest : public CudaTest {
 protected:
  void SetUp() override { Load("heap"); }
};
CUDA_TEST(HeapTest);

TEST_P(HeapTest, ListsAreBuiltAndFreed) {
  const DeviceAddress out = Zeroes(192);
  ASSERT_EQ(Run("lists", 3, 64, {out, 0}), absl::OkStatus());
  const auto got = Values(out, 192);
  uint64_t nodes = 0;
  for (int i = 0; i < 192; ++i) {
    int sum = 0;
    for (int k = 0; k < i % 7; ++k) sum = sum * 3 + i * 10 + k;
    EXPECT_EQ(got[i], sum) << i;
    nodes += i % 7;
  }
  EXPECT_EQ(memory_.heap().used(), 0u);
  ASSERT_EQ(Run("lists", 3, 64, {out, 1}), absl::OkStatus());
  EXPECT_EQ(memory_.heap().used(), nodes * 16);
}

TEST_P(HeapTest, ATreeOfObjectsIsDeletedByItsDestructors) {
  const DeviceAddress out = Zeroes(64);
  const DeviceAddress ends = Zeroes(1);
  ASSERT_EQ(Run("trees", 1, 64, {out, ends}), absl::OkStatus());
  const auto got = Values(out, 64);
  int sums = 0;
  for (int i = 0; i < 64; ++i) {
    std::function<int(int, int)> tree = [&](int depth, int seed) {
      if (depth == 0) return seed;
      ++sums;
      return tree(depth - 1, seed * 2) + tree(depth - 1, seed * 2 + 1);
    };
    EXPECT_EQ(got[i], tree(i % 5, i)) << i;
  }
  EXPECT_EQ(Values(ends, 1)[0], sums);
  EXPECT_EQ(memory_.heap().used(), 0u);
}

TEST_P(HeapTest, WhatIsAllocatedStaysOverLaunches) {
  const DeviceAddress where = Zeroes(2 * 48);
  const DeviceAddress out = Zeroes(48);
  ASSERT_EQ(Run("give", 1, 48, {where}), absl::OkStatus());
  ASSERT_EQ(Run("read", 1, 48, {where, out}), absl::OkStatus());
  const auto got = Values(out, 48);
  for (int i = 0; i < 48; ++i) {
    EXPECT_EQ(got[i], i * (i + 1) * (2 * i + 1) / 6) << i;
  }
  ASSERT_EQ(Run("take", 1, 48, {where}), absl::OkStatus());
  EXPECT_EQ(memory_.heap().used(), 0u);
  EXPECT_THAT(std::string(Run("read", 1, 48, {where, out}).message()),
              HasSubstr("memory that free() was called for; lane "));
}

TEST_P(HeapTest, AFullHeapGivesNull) {
  const DeviceAddress out = Zeroes(1);
  const DeviceAddress last = Zeroes(2);
  ASSERT_EQ(Run("fill", 1, 1, {100'000, out, last}), absl::OkStatus());
  EXPECT_EQ(Values(out, 1)[0], (8 << 20) / 100'000);  // CUDA's default
  EXPECT_EQ(memory_.heap().failures(), 1u);
  ASSERT_TRUE(memory_.SetHeapBytes(1000).ok());
  ASSERT_EQ(Run("fill", 1, 1, {100, out, last}), absl::OkStatus());
  EXPECT_EQ(Values(out, 1)[0], 8);  // of 112 bytes each
}

TEST_P(HeapTest, AlignmentsAreKept) {
  const DeviceAddress out = Zeroes(2 * 64);
  ASSERT_EQ(Run("aligned", 1, 64, {out}), absl::OkStatus());
  EXPECT_THAT(Values<uint64_t>(out, 64), testing::Each(0u));
}

TEST_P(HeapTest, MistakesNameTheirPlace) {
  const DeviceAddress out = Zeroes(1);
  const auto mistake = [&](uint64_t which) {
    EXPECT_TRUE(memory_.SetHeapBytes(1 << 16).ok());
    const absl::Status status = Run("mistakes", 1, 32, {which, out, out});
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    std::string message(status.message());
    EXPECT_THAT(message, testing::StartsWith("mistakes: sim/everyday/heap"));
    EXPECT_THAT(message, HasSubstr("lane 9 of warp 0, block (0, 0, 0)"));
    return message;
  };
  // Lane 9 has the tenth of the pieces of 48 bytes.
  const uint64_t mine = kHeapBegin + 9 * 48;
  EXPECT_THAT(mistake(0),
              HasSubstr(fmt::format("free({:#x}): it is freed already", mine)));
  EXPECT_THAT(mistake(1),
              HasSubstr(fmt::format("free({:#x}): malloc() has not given it",
                                    mine + 16)));
  EXPECT_THAT(mistake(2), HasSubstr(fmt::format(
                              "free({:#x}): malloc() has not given it", out)));
  EXPECT_THAT(
      mistake(3),
      HasSubstr(fmt::format(
          "1 bytes at {:#x}: memory that free() was called for", mine + 3)));
  EXPECT_THAT(
      mistake(4),
      HasSubstr(fmt::format(
          "1 bytes at {0:#x}: 0 bytes past the end of what malloc() has given "
          "at {1:#x} (40 bytes)",
          mine + 40, mine)));
  EXPECT_THAT(mistake(5),
              HasSubstr("memory of the heap that malloc() has not given"));
  EXPECT_THAT(mistake(6),
              HasSubstr("a null pointer; malloc() has returned null 1 times, "
                        "as the heap has 65536 bytes"));
  // Null may be freed.
  ASSERT_EQ(Run("mistakes", 1, 32, {7, out, out}), absl::OkStatus());
  EXPECT_EQ(Values(out, 1)[0], 77);
}

// --- alloca.

TEST_P(HeapTest, LanesTakeDifferentAmountsOfTheirStacks) {
  std::vector<int> in(100);
  for (int i = 0; i < 100; ++i) in[i] = (i * 2654435761u) >> 18;
  const DeviceAddress out = Zeroes(96);
  ASSERT_EQ(Run("stacks", 1, 96, {Copy(in), out}), absl::OkStatus());
  const auto got = Values<uint32_t>(out, 96);
  for (int i = 0; i < 96; ++i) {
    uint32_t sum = 0;
    for (int round = 0; round < 3; ++round) {
      for (int k = in [i + round] % 20; k >= 0; --k) {
        sum = sum * 5 + static_cast<uint32_t>(k * i + round);
      }
    }
    EXPECT_EQ(got[i], sum) << i;
  }
}

TEST_P(HeapTest, EachCallHasItsOwnPartOfTheStack) {
  const DeviceAddress out = Zeroes(64);
  ASSERT_EQ(Run("stacks_of_calls", 1, 64, {out}), absl::OkStatus());
  const auto got = Values(out, 64);
  for (int i = 0; i < 64; ++i) {
    int sum = 0;
    for (int k = 0; k < 3; ++k) {
      int below = i;
      for (int depth = i % 11 + k; depth > 0; --depth) below += depth;
      sum = sum * 2 + below;
    }
    EXPECT_EQ(got[i], sum) << i;
  }
}

TEST_P(HeapTest, AStackHasAnEnd) {
  const DeviceAddress out = Zeroes(32);
  ASSERT_EQ(Run("large_stack", 1, 32, {12, 500'000, out}), absl::OkStatus());
  EXPECT_THAT(Values(out, 32), testing::Each(5));
  EXPECT_THAT(
      std::string(Run("large_stack", 1, 32, {12, 600'000, out}).message()),
      testing::AllOf(HasSubstr("alloca"),
                     HasSubstr("the stack overflows: 600000 bytes more than "
                               "the 0 that are in use, of 524288; lane 12")));
}

}  // namespace
}  // namespace carillon::sim
