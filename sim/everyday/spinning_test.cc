// Threads that wait for each other by spinning.
#include <gmock/gmock.h>

#include "sim/everyday/cuda_test.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;

class SpinningTest : public CudaTest {
 protected:
  void SetUp() override { Load("spinning"); }
};
CUDA_TEST(SpinningTest);

// Each of the threads waits for some rounds of the others, and no more.
constexpr uint64_t kOfAThread = 64 * 32;

TEST_P(SpinningTest, ALockIsTakenByEachThreadInTurn) {
  const DeviceAddress lock = Zeroes(1);
  const DeviceAddress counter = Zeroes(1);
  ASSERT_EQ(Run("global_lock", 3, 96, {lock, counter, 3}), absl::OkStatus());
  EXPECT_EQ(Values(counter, 1)[0], 3 * 96 * 3);
  EXPECT_LT(executed(), 3 * 96 * 3 * kOfAThread);
  ASSERT_EQ(Run("cxx_lock", 3, 96, {lock, counter}), absl::OkStatus());
  EXPECT_EQ(Values(counter, 1)[0], 3 * 96 * 3 + 3 * 96 * 3);
  EXPECT_LT(executed(), 3 * 96 * kOfAThread);
}

TEST_P(SpinningTest, ALockInSharedMemory) {
  const DeviceAddress out = Zeroes(2 * 64);
  ASSERT_EQ(Run("shared_lock", 2, 64, {out}), absl::OkStatus());
  EXPECT_THAT(Values(out, 2 * 64), testing::Each(63 * 64 / 2));
  EXPECT_LT(executed(), 2 * 64 * kOfAThread);
}

TEST_P(SpinningTest, TicketsAreServedInTheirOrder) {
  const DeviceAddress tickets = Zeroes(2);
  const DeviceAddress counter = Zeroes(1);
  const DeviceAddress order = Zeroes(128);
  ASSERT_EQ(Run("ticket_lock", 2, 64, {tickets, counter, order}),
            absl::OkStatus());
  const auto got = Values(order, 128);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(got[i], i);
  EXPECT_LT(executed(), 128 * kOfAThread);
}

TEST_P(SpinningTest, ALockThatIsLookedAtBeforeItIsTaken) {
  const DeviceAddress lock = Zeroes(1);
  const DeviceAddress counter = Zeroes(1);
  const DeviceAddress attempts = Zeroes(1);
  ASSERT_EQ(Run("try_lock", 2, 64, {lock, counter, attempts}),
            absl::OkStatus());
  EXPECT_EQ(Values(counter, 1)[0], 128);
  EXPECT_GE(Values(attempts, 1)[0], 128);
  EXPECT_LT(executed(), 128 * kOfAThread);
}

TEST_P(SpinningTest, LocksWithinLocks) {
  const DeviceAddress locks = Zeroes(5);
  const DeviceAddress counters = Zeroes(5);
  ASSERT_EQ(Run("nested_locks", 2, 96, {locks, counters}), absl::OkStatus());
  EXPECT_THAT(Values(counters, 5), testing::ElementsAre(64, 64, 64, 96, 96));
  EXPECT_LT(executed(), 2 * 96 * kOfAThread);
}

TEST_P(SpinningTest, AProducerAndAConsumer) {
  std::vector<int> in(50);
  std::vector<int> doubled(50);
  for (int i = 0; i < 50; ++i) doubled[i] = 2 * (in[i] = i * i - 7);
  const DeviceAddress out = Zeroes(50);
  ASSERT_EQ(Run("producer_consumer", 1, 64, {Copy(in), out, 50}),
            absl::OkStatus());
  EXPECT_EQ(Values(out, 50), doubled);
}

TEST_P(SpinningTest, LanesOfAWarpWaitForEachOther) {
  for (const char* kernel : {"relay", "relay_back"}) {
    const DeviceAddress places = Zeroes(96);
    ASSERT_EQ(Run(kernel, 1, 96, {places}), absl::OkStatus());
    const auto got = Values(places, 96);
    const bool back = kernel == std::string("relay_back");
    int value = 1;
    for (int k = 0; k < 96; ++k) {
      const int i = back ? 95 - k : k;
      if (k != 0) value += i;
      EXPECT_EQ(got[i], value) << kernel << " " << i;
    }
    EXPECT_LT(executed(), 96 * kOfAThread) << kernel;
  }
}

TEST_P(SpinningTest, ALockIsHeldForAWarp) {
  const DeviceAddress lock = Zeroes(1);
  const DeviceAddress counter = Zeroes(1);
  const DeviceAddress sums = Zeroes(4);
  ASSERT_EQ(Run("warp_lock", 1, 128, {lock, counter, sums}), absl::OkStatus());
  EXPECT_EQ(Values(counter, 1)[0], 128);
  EXPECT_THAT(Values(sums, 4), testing::Each(32));
}

TEST_P(SpinningTest, ABlockWaitsForLaterOnes) {
  const DeviceAddress done = Zeroes(1);
  const DeviceAddress out = Zeroes(1);
  ASSERT_EQ(Run("last_blocks", 300, 32, {done, out}), absl::OkStatus());
  EXPECT_EQ(Values(out, 1)[0], 299 * 3);
}

TEST_P(SpinningTest, WhoWaitsForEverIsNoProgress) {
  for (const char* kernel : {"lost_lock", "same_again"}) {
    const absl::Status status = Run(kernel, 2, 64, {Zeroes(1)});
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(fmt::format("{}: no progress for ", kernel)));
  }
  EXPECT_EQ(Run("lost_flag", 2, 64, {Zeroes(1), Zeroes(1)}).code(),
            absl::StatusCode::kDeadlineExceeded);
}

// A clock goes on although nobody stores anything.
TEST_P(SpinningTest, ATimeoutIsNotTakenForASpin) {
  limit_ = uint64_t{1} << 22;
  const DeviceAddress out = Zeroes(1);
  ASSERT_EQ(Run("with_a_timeout", 1, 32, {Zeroes(1), 300'000, out}),
            absl::OkStatus());
  EXPECT_EQ(Values(out, 1)[0], 5);
}

}  // namespace
}  // namespace carillon::sim
