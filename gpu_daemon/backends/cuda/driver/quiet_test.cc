// Gpu::PauseResidents: what stays on the GPU stands still, and goes on.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"

namespace carillon::gpud::cuda {
namespace {

// Guarded by the quiet itself.
struct Guest : Gpu::PersistentWork {
  void Pause() override { ++pauses; }
  void Unpause() override { ++ends; }

  int pauses = 0;
  int ends = 0;
};

class QuietTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto gpu = Gpu::Open(fake_.driver(), {.image = FakeGpu::Image()});
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = *std::move(gpu);
    gpu_->Add(&guest_);
  }

  FakeGpu fake_;
  Guest guest_;
  std::unique_ptr<Gpu> gpu_;
};

TEST_F(QuietTest, LastsUntilTheOutermostOneEnds) {
  {
    const Gpu::PauseResidents outer(gpu_.get());
    EXPECT_EQ(guest_.pauses, 1);
    { const Gpu::PauseResidents inner(gpu_.get()); }
    EXPECT_EQ(guest_.pauses, 1) << "it stands still already";
    EXPECT_EQ(guest_.ends, 0) << "the outer one goes on";
  }
  EXPECT_EQ(guest_.ends, 1);
}

TEST_F(QuietTest, EveryGuestStandsStillUntilItIsRemoved) {
  Guest other;
  gpu_->Add(&other);
  { const Gpu::PauseResidents quiet(gpu_.get()); }
  gpu_->Remove(&other);
  { const Gpu::PauseResidents quiet(gpu_.get()); }
  EXPECT_EQ(guest_.pauses, 2);
  EXPECT_EQ(other.pauses, 1);
  EXPECT_EQ(other.ends, 1);
}

TEST_F(QuietTest, ThreadsTakeTurns) {
  constexpr int kTurns = 500;
  std::vector<std::thread> threads;
  int mixed = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const Gpu::PauseResidents quiet(gpu_.get());
        const int pauses = guest_.pauses;
        std::this_thread::yield();
        if (guest_.pauses != pauses || guest_.ends != pauses - 1) ++mixed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mixed, 0);
  EXPECT_EQ(guest_.pauses, 3 * kTurns);
  EXPECT_EQ(guest_.ends, 3 * kTurns);
}

}  // namespace
}  // namespace carillon::gpud::cuda
