// A launch path that stands still for a registration waits for what the GPU has
// taken, and the Gpu's watching thread does not wait for it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/driver/cuda_memory.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/paths/edge_path.h"
#include "gpu_daemon/backends/cuda/paths/pagoda/pagoda_ring_path.h"
#include "gpu_daemon/backends/cuda/paths/persistent_path.h"
#include "gpu_daemon/backends/cuda/paths/stream_wait_path.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;

// Something that the GPU has taken, which has the time of one kernel, to its end.
class OneLongKernel : public Gpu::ContextUser {
 public:
  void Begin() { taken_.store(NowNs()); }
  bool has_ended() const { return taken_.load() == 0; }

  void Abandon() override {}
  void TakeUnfinished(LostWork&) override {}
  absl::Status Settle() override { return absl::OkStatus(); }
  std::optional<Nanoseconds> OldestTaken(Nanoseconds since) override {
    const Nanoseconds taken = taken_.load();
    if (taken == 0 || taken >= since) return std::nullopt;
    return taken;
  }
  // It has ended just now.
  bool MarkOverdue(Nanoseconds) override {
    taken_.store(0);
    return false;
  }
  void EndOverdue(bool) override {}

 private:
  std::atomic<Nanoseconds> taken_{0};
};

// A path alone on its Gpu.
class AwaitTest : public CudaBackendFixture {
 protected:
  void Open(const std::string& name, std::chrono::milliseconds longest_kernel) {
    Gpu::Options options = GpuOptions();
    options.longest_kernel = longest_kernel;
    auto gpu = Gpu::Open(fake_.driver(), options);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = *std::move(gpu);
    memory_.emplace(gpu_.get());
    device_.emplace(*memory_, "test0");
    auto path = Make(name, {.on_violation = [this](auto...) { ++evicted_; },
                            .longest_kernel = longest_kernel});
    ASSERT_TRUE(path.ok()) << path.status();
    owned_ = *std::move(path);
    path_ = owned_.get();
  }
  absl::StatusOr<std::unique_ptr<LaunchPath>> Make(
      const std::string& name, const ResidentOptions& options) {
    if (name == "edge") return MakeEdgePath(gpu_.get(), options);
    if (name == "persistent") return MakePersistentPath(gpu_.get(), options);
    if (name == "pagoda_ring") return MakePagodaRingPath(gpu_.get(), options);
    return MakeStreamWaitPath(gpu_.get(), options);
  }
  ~AwaitTest() override {
    may_end_.store(true);
    if (path_ != nullptr) path_->RemoveDevice(device_->memory.get());
    owned_.reset();
    device_.reset();
    if (gpu_ != nullptr) gpu_->AwaitRetired();
    memory_.reset();
    gpu_.reset();
  }
  // Beside others that wait.
  std::future<bool> RegisterAnother() {
    other_ = device_->Register({.kernel = simt::FindKernel("fail_if"),
                                .bindings = {{.writable = true}}});
    return std::async(std::launch::async,
                      [this] { return path_->Add(other_.kernel).ok(); });
  }
  static void Ring(const TestDevice::Event& event) {
    Commit(event, 0);
    event.ring->RingDoorbell();
  }

  // Kernels look at these until the driver has gone.
  std::atomic<bool> stands_{false};
  std::atomic<bool> may_end_{false};
  std::atomic<int> evicted_{0};
  std::unique_ptr<Gpu> gpu_;
  std::optional<CudaMemory> memory_;
  std::unique_ptr<LaunchPath> owned_;
  TestDevice::Event other_;
};

class AwaitPathTest : public AwaitTest,
                      public ::testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, AwaitPathTest,
                         ::testing::Values("edge", "stream_wait", "persistent",
                                           "pagoda_ring"),
                         [](const auto& info) { return info.param; });

// The event kernel may have waited for the room that the other one had.
TEST_P(AwaitPathTest, ARegistrationWaitsAsLongAsWhatIsOlderMayTake) {
  ASSERT_NO_FATAL_FAILURE(Open(GetParam(), std::chrono::seconds(2)));
  auto event = AddFailIf(*device_);
  ASSERT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  OneLongKernel older;
  gpu_->Add(&older);
  fake_.HangOn("fail_if", [this](const KernelCall& call) {
    if (call.args().empty()) return false;
    stands_.store(true);
    Until([&] { return may_end_.load(); });
    return false;
  });
  older.Begin();
  Ring(event);
  EXPECT_TRUE(Until([&] { return stands_.load(); }));
  auto added = RegisterAnother();
  EXPECT_TRUE(Until([&] { return older.has_ended() || gpu_->losses() != 0; }));
  may_end_.store(true);
  EXPECT_TRUE(added.get());
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(RingAndWait(*device_, other_).state, EventState::kDone);
  EXPECT_EQ(gpu_->losses(), 0u);
  EXPECT_EQ(evicted_, 0);
  gpu_->Remove(&older);
}

// Others fill the GPU, one after another, before and after it.
TEST_F(AwaitTest, ARegistrationWaitsForAStageKernelThatHasNoRoom) {
  constexpr std::chrono::milliseconds kLongest(200);
  ASSERT_NO_FATAL_FAILURE(Open("stream_wait", kLongest));
  auto event = AddFailIf(*device_);
  ASSERT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  fake_.HangOn("carillon_stage_entry", [this](const KernelCall&) {
    stands_.store(true);
    Until([&] { return may_end_.load(); });
    return false;
  });
  Ring(event);
  EXPECT_TRUE(Until([&] { return stands_.load(); }));
  auto added = RegisterAnother();
  EXPECT_EQ(added.wait_for(4 * kLongest), std::future_status::timeout);
  EXPECT_EQ(gpu_->losses(), 0u);
  may_end_.store(true);
  EXPECT_TRUE(added.get());
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(RingAndWait(*device_, other_).state, EventState::kDone);
  EXPECT_EQ(evicted_, 0);
}

// Whoever comes first: the one that waits for room is not waited for alone.
TEST_F(AwaitTest, WhatDoesNotEndIsStoppedThoughAnotherRingWaitsForRoom) {
  ASSERT_NO_FATAL_FAILURE(Open("stream_wait", std::chrono::milliseconds(200)));
  auto waiting = AddFailIf(*device_);
  auto endless = AddFailIf(*device_);
  for (auto* event : {&waiting, &endless}) {
    ASSERT_EQ(RingAndWait(*device_, *event).state, EventState::kDone);
  }
  fake_.HangOn("carillon_stage_entry",
               [this, first = FakeGpu::Nth(1)](const KernelCall& call) {
                 if (!first(call)) return false;
                 stands_.store(true);
                 return true;
               });
  fake_.HangOn("carillon_event_fail_if",
               [](const KernelCall& call) { return !call.args().empty(); });
  Ring(waiting);
  EXPECT_TRUE(Until([&] { return stands_.load(); }));
  Ring(endless);
  EXPECT_TRUE(RegisterAnother().get());
  EXPECT_EQ(gpu_->losses(), 1u);
  for (auto* event : {&waiting, &endless}) {
    EXPECT_EQ(device_->Wait(*event->ring).state, EventState::kDone)
        << "alone, it ends";
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda
