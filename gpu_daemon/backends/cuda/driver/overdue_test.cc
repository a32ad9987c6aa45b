// What counts as a kernel's time, where it may have waited for the room of others.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"

namespace carillon::gpud::cuda {
namespace {

constexpr std::chrono::milliseconds kLongest{300};
constexpr std::chrono::seconds kSoon{20};

// What the GPU has taken, by when; the test ends it.
class Tenant : public Gpu::ContextUser {
 public:
  Nanoseconds Take() {
    std::lock_guard lock(mutex_);
    taken_.push_back(NowNs());
    return taken_.back();
  }
  void End(Nanoseconds taken) {
    std::lock_guard lock(mutex_);
    std::erase(taken_, taken);
  }
  void EndsBeforeItIsMarked(Nanoseconds taken) {
    std::lock_guard lock(mutex_);
    ends_by_itself_ = taken;
  }
  // The one that is stopped, and when.
  struct Stopped {
    Nanoseconds taken = 0;
    Nanoseconds at = 0;
  };
  std::future<Stopped> stopped() { return stopped_.get_future(); }
  // Until it has looked so often from now on.
  void AwaitLooks(int looks) {
    std::promise<void> seen;
    {
      std::lock_guard lock(mutex_);
      looks_ = looks;
      seen_ = &seen;
    }
    seen.get_future().wait();
  }

  void Abandon() override {}
  void TakeUnfinished(LostWork&) override {}
  absl::Status Settle() override { return absl::OkStatus(); }
  std::optional<Nanoseconds> OldestTaken(Nanoseconds since) override {
    std::lock_guard lock(mutex_);
    if (seen_ != nullptr && --looks_ == 0) {
      seen_->set_value();
      seen_ = nullptr;
    }
    const auto oldest = std::min_element(taken_.begin(), taken_.end());
    if (oldest == taken_.end() || *oldest >= since) return std::nullopt;
    return *oldest;
  }
  bool MarkOverdue(Nanoseconds) override {
    std::lock_guard lock(mutex_);
    const auto oldest = std::min_element(taken_.begin(), taken_.end());
    const bool marked = *oldest != ends_by_itself_;
    if (marked) stopped_.set_value({*oldest, NowNs()});
    taken_.erase(oldest);
    return marked;
  }
  void EndOverdue(bool) override {}

 private:
  std::mutex mutex_;
  std::vector<Nanoseconds> taken_;
  Nanoseconds ends_by_itself_ = 0;
  std::promise<Stopped> stopped_;
  int looks_ = 0;
  std::promise<void>* seen_ = nullptr;
};

class OverdueTest : public ::testing::Test {
 protected:
  OverdueTest() {
    fake_.ChangeSettings([](FakeSettings& s) { s.faults_stay = false; });
    gpu_ =
        Gpu::Open(fake_.driver(), {.image = FakeGpu::Image(),
                                   .recovers = true,
                                   .longest_kernel = kLongest,
                                   .look_every = std::chrono::milliseconds(1)})
            .value();
    gpu_->Add(&tenant_);
  }
  ~OverdueTest() override { gpu_->Remove(&tenant_); }

  static Nanoseconds Limit() {
    return static_cast<Nanoseconds>(std::chrono::nanoseconds(kLongest).count());
  }
  Tenant::Stopped Stopped() {
    auto stopped = tenant_.stopped();
    EXPECT_EQ(stopped.wait_for(kSoon), std::future_status::ready);
    return stopped.get();
  }

  FakeGpu fake_;
  Tenant tenant_;
  std::unique_ptr<Gpu> gpu_;
};

TEST_F(OverdueTest, OneThatIsAloneIsStoppedAfterTheLimit) {
  const Nanoseconds taken = tenant_.Take();
  const auto stopped = Stopped();
  EXPECT_EQ(stopped.taken, taken);
  EXPECT_GE(stopped.at - taken, Limit());
}

TEST_F(OverdueTest, AnotherOnesTimeBeginsWhenWhatWasOlderHasEnded) {
  const Nanoseconds older = tenant_.Take();
  tenant_.EndsBeforeItIsMarked(older);
  const Nanoseconds later = tenant_.Take();
  const auto stopped = Stopped();
  EXPECT_EQ(stopped.taken, later);
  EXPECT_GE(stopped.at - older, 2 * Limit());
}

// Else a device could have one that does not end, and many short ones beside it.
TEST_F(OverdueTest, WhatIsLaterPutsNothingOff) {
  const Nanoseconds endless = tenant_.Take();
  auto stopped = tenant_.stopped();
  while (stopped.wait_for(std::chrono::seconds(0)) !=
             std::future_status::ready &&
         NowNs() - endless < 50 * Limit()) {
    const Nanoseconds brief = tenant_.Take();
    tenant_.AwaitLooks(2);
    tenant_.End(brief);
  }
  ASSERT_EQ(stopped.wait_for(std::chrono::seconds(0)),
            std::future_status::ready);
  EXPECT_EQ(stopped.get().taken, endless);
}

}  // namespace
}  // namespace carillon::gpud::cuda
