// What lanes do together from copies of one operation.
#include <gmock/gmock.h>

#include <algorithm>

#include "sim/everyday/cuda_test.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;

class TogetherTest : public CudaTest {
 protected:
  void SetUp() override { Load("together"); }
};
CUDA_TEST(TogetherTest);

TEST_P(TogetherTest, TheSidesOfABranchShuffleVoteAndMatchWithEachOther) {
  std::vector<int> in(64);
  for (int i = 0; i < 64; ++i) in[i] = (i * 2654435761u) >> 17;
  const DeviceAddress out = Zeroes(6 * 64);
  ASSERT_EQ(Run("two_sides", 1, 64, {Copy(in), out}), absl::OkStatus());
  const auto got = Values(out, 6 * 64);
  std::vector<int> mine(64);
  for (int i = 0; i < 64; ++i) mine[i] = in[i] + (i % 3 == 0 ? 1000 : -7);
  for (int i = 0; i < 64; ++i) {
    const int warp = i / 32 * 32;
    const int* const to = got.data() + 6 * i;
    EXPECT_EQ(to[0], mine[i]) << i;
    EXPECT_EQ(to[1], mine[warp + (i + 5) % 32]) << i;
    unsigned ballot = 0;
    unsigned equal = 0;
    unsigned thirds = 0;
    for (int k = 0; k < 32; ++k) {
      ballot |= static_cast<unsigned>(mine[warp + k] > 16000) << k;
      equal |= static_cast<unsigned>(mine[warp + k] % 4 == mine[i] % 4) << k;
      thirds |= static_cast<unsigned>(mine[warp + k] % 3 == mine[i] % 3) << k;
    }
    EXPECT_EQ(static_cast<unsigned>(to[2]), ballot) << i;
    EXPECT_EQ(to[3], 1) << i;
    EXPECT_EQ(static_cast<unsigned>(to[4]), equal) << i;
    EXPECT_EQ(static_cast<unsigned>(to[5]), thirds) << i;
  }
}

TEST_P(TogetherTest, CallsOfDifferentDepthsMeet) {
  for (const char* kernel : {"depths", "depths_in_copies"}) {
    const DeviceAddress out = Zeroes(64);
    ASSERT_EQ(Run(kernel, 1, 64, {out}), absl::OkStatus());
    const auto got = Values(out, 64);
    const auto sum = [](int depth) { return depth * (depth + 1) / 2; };
    for (int i = 0; i < 64; ++i) {
      int value = (i ^ 1) * 100 + sum((i ^ 1) % 4);
      for (int depth = 1; depth <= i % 4; ++depth) value = value * 3 + depth;
      EXPECT_EQ(got[i], value) << kernel << " " << i;
    }
  }
}

TEST_P(TogetherTest, RoundsOfAnUnrolledLoopReduceTogether) {
  const bool has = program_->FindEntry("reduced_in_rounds") != nullptr;
  ASSERT_EQ(has, GetParam().architecture != "75");
  if (!has) return;
  std::vector<int> in(64);
  for (int i = 0; i < 64; ++i) in[i] = (i * 2654435761u) >> 17;
  const DeviceAddress out = Zeroes(4 * 64);
  ASSERT_EQ(Run("reduced_in_rounds", 1, 64, {Copy(in), out}), absl::OkStatus());
  const auto got = Values(out, 4 * 64);
  for (int i = 0; i < 64; ++i) {
    const int warp = i / 32 * 32;
    int sum = 0, most = 0, least = in[warp], parity = 0;
    for (int k = warp; k < warp + 32; ++k) {
      sum += in[k] + in[k] % 4;
      most = std::max(most, in[k]);
      least = std::min(least, in[k]);
      parity ^= in[k];
    }
    EXPECT_EQ(got[4 * i], sum) << i;
    EXPECT_EQ(got[4 * i + 1], most) << i;
    EXPECT_EQ(got[4 * i + 2], least) << i;
    EXPECT_EQ(got[4 * i + 3], parity) << i;
  }
}

TEST_P(TogetherTest, BarriersOnBothSidesOfABranchCountTogether) {
  std::vector<int> in(128);
  for (int i = 0; i < 128; ++i) in[i] = (i * 2654435761u) >> 17;
  const DeviceAddress out = Zeroes(128);
  ASSERT_EQ(Run("counting_barriers", 1, 128, {Copy(in), out}),
            absl::OkStatus());
  int count = 0;
  int any = 0;
  for (int i = 0; i < 128; ++i) {
    count += (in[i] & (in[i] % 3 == 0 ? 1 : 2)) != 0;
    any |= in[i] % 3 != 0 && i == 77;
  }
  const auto got = Values(out, 128);
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(got[i], (count + (in[i] % 3 == 0 ? 0 : 1000)) * 10 + any) << i;
  }
}

TEST_P(TogetherTest, NobodyWaitsForLanesThatHaveExited) {
  const DeviceAddress out = Zeroes(32);
  ASSERT_EQ(Run("exited", 1, 32, {out}), absl::OkStatus());
  const auto got = Values(out, 32);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(static_cast<unsigned>(got[i]), i % 4 == 1 ? 0 : 0x88888888u) << i;
  }
}

TEST_P(TogetherTest, LanesThatDisagreeOrNeverMeetAreNamed) {
  const DeviceAddress out = Zeroes(64);
  EXPECT_THAT(std::string(Run("disagree", 1, 32, {out}).message()),
              testing::AllOf(testing::StartsWith("disagree: "),
                             HasSubstr("member mask 0x000fffff, where lane ")));
  EXPECT_THAT(
      std::string(Run("not_named", 1, 32, {out}).message()),
      testing::AllOf(testing::StartsWith("not_named: "),
                     HasSubstr("member mask 0x0000ffff does not name the lane "
                               "itself; lane 16 of warp 0")));
  EXPECT_THAT(std::string(Run("never_comes", 1, 32, {out}).message()),
              testing::AllOf(testing::StartsWith("never_comes: "),
                             HasSubstr(", which never come")));
  const absl::Status status = Run("barrier_never", 1, 64, {out});
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("waits for warps that never come"));
}

}  // namespace
}  // namespace carillon::sim
