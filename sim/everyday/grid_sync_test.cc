// grid.sync() of cooperative launches.
#include <gmock/gmock.h>

#include "sim/everyday/cuda_test.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;

constexpr bool kCooperative = true;

class GridSyncTest : public CudaTest {
 protected:
  void SetUp() override { Load("grid_sync"); }
};
CUDA_TEST(GridSyncTest);

TEST_P(GridSyncTest, AGridSumsInTwoSteps) {
  constexpr int kBlocks = 100;
  constexpr int kThreads = kBlocks * 96;
  std::vector<int> in(kThreads);
  int sum = 0;
  for (int i = 0; i < kThreads; ++i) sum += in[i] = i % 1000 - 300;
  const DeviceAddress sums = Zeroes(kBlocks);
  const DeviceAddress out = Zeroes(kThreads + 1);
  ASSERT_EQ(Run("grid_sum", kBlocks, 96, {Copy(in), sums, out}, kCooperative),
            absl::OkStatus());
  const auto got = Values(out, kThreads + 1);
  ASSERT_EQ(got[0], sum);
  for (int i = 0; i < kThreads; ++i) {
    ASSERT_EQ(got[1 + i], in[i] * 2 - sum) << i;
  }
}

TEST_P(GridSyncTest, EachStepSeesTheOneBefore) {
  constexpr uint32_t kThreads = 20 * 64;
  std::vector<uint32_t> a(kThreads), b(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) a[i] = i * i;
  const DeviceAddress at_a = Copy(a);
  const DeviceAddress at_b = Copy(b);
  ASSERT_EQ(Run("steps", 20, 64, {at_a, at_b, 7}, kCooperative),
            absl::OkStatus());
  for (int k = 0; k < 7; ++k) {
    for (uint32_t i = 0; i < kThreads; ++i) {
      b[i] = a[(i + 37) % kThreads] + a[(i + kThreads - 64) % kThreads];
    }
    std::swap(a, b);
  }
  EXPECT_EQ(Values<uint32_t>(at_b, kThreads), a);
}

TEST_P(GridSyncTest, OnlyACooperativeLaunchHasIt) {
  const DeviceAddress out = Zeroes(200);
  ASSERT_EQ(Run("valid", 1, 1, {out}), absl::OkStatus());
  EXPECT_EQ(Values(out, 1)[0], 2);
  ASSERT_EQ(Run("valid", 1, 1, {out}, kCooperative), absl::OkStatus());
  EXPECT_EQ(Values(out, 1)[0], 1);
  EXPECT_THAT(std::string(Run("grid_sum", 2, 32, {out, out, out}).message()),
              HasSubstr("trapped; the kernel may need a cooperative launch, as "
                        "grid.sync() does, and this is none"));
}

TEST_P(GridSyncTest, BlocksThatHaveNoRoomAtOnceAreRefused) {
  const DeviceAddress out = Zeroes(1);
  const absl::Status status = Run("valid", 100'000, 256, {out}, kCooperative);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(GetParam().timed
                    ? "valid: a cooperative launch of 100000 blocks: 16 SMs "
                      "have room for 8 each, 128 at once (limited by warps)"
                    : "valid: a cooperative launch of 100000 blocks with "
                      "25600000 threads, in whole warps: 4224 and 270336 can "
                      "be resident at once"));
}

TEST_P(GridSyncTest, ABlockThatDoesNotComeIsNoProgress) {
  const absl::Status status =
      Run("one_is_missing", 5, 64, {Zeroes(1)}, kCooperative);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("one_is_missing: no progress for "));
}

}  // namespace
}  // namespace carillon::sim
