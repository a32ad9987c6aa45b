#include "gpu_daemon/backends/cuda/driver/resident_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace carillon::gpud::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Two SMs, each of two halves.
constexpr GpuModel kGpu{.sms = 2};
constexpr BlockCost kHalf{
    .threads = 1024, .registers = 32768, .shared_bytes = 16 * 1024};
constexpr SmRange kAll{};

TEST(ResidentRoomTest, WhoNeedsFewerGetsWhatIsLeft) {
  ResidentRoom room(kGpu);
  const auto first = room.Take("first", kHalf, 1, 3, kAll);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->blocks(), 3u);
  const auto second = room.Take("second", kHalf, 1, 4, kAll);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->blocks(), 1u);
}

TEST(ResidentRoomTest, ARefusalNamesWhoHoldsWhatAndTakesNothing) {
  ResidentRoom room(kGpu);
  const auto a = room.Take("first", kHalf, 1, 1, kAll);
  const auto b = room.Take("first", kHalf, 1, 1, kAll);
  auto c = room.Take("second", kHalf, 1, 1, kAll);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  const auto refused = room.Take("third", kHalf, 2, 2, kAll);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(refused.status().message()),
      AllOf(HasSubstr("launch path third has no room on the GPU for 2 thread "
                      "blocks of 1024 threads"),
            HasSubstr("1 of them would fit"),
            HasSubstr("first holds 2 blocks with 2048 threads and 32768 bytes"),
            HasSubstr("second holds 1 block with 1024 threads"),
            Not(HasSubstr("third holds"))));
  c->reset();
  EXPECT_TRUE(room.Take("third", kHalf, 2, 2, kAll).ok());
}

TEST(ResidentRoomTest, WhatIsHeldGrowsAsFarAsThereIsRoomAndShrinks) {
  ResidentRoom room(kGpu);
  const auto first = room.Take("first", kHalf, 1, 1, kAll);
  auto second = room.Take("second", kHalf, 1, 1, kAll);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->Resize(4), 3u);
  EXPECT_EQ((*second)->Resize(2), 1u);
  EXPECT_EQ((*first)->Resize(0), 1u) << "one is held as long as it is there";
  EXPECT_EQ((*second)->Resize(4), 3u);
}

TEST(ResidentRoomTest, OneSetOfSmsIsNotTheOthers) {
  ResidentRoom room(kGpu);
  const auto first = room.Take("first", kHalf, 1, 4, {.first = 0, .end = 1});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->blocks(), 2u);
  EXPECT_FALSE(room.Take("second", kHalf, 1, 1, {.first = 0, .end = 1}).ok());
  EXPECT_TRUE(room.Take("second", kHalf, 2, 2, {.first = 1, .end = 2}).ok());
}

}  // namespace
}  // namespace carillon::gpud::cuda
