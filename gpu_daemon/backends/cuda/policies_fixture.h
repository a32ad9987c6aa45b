// The CUDA back-end on a driver made of CPU threads, by every path on which a CPU
// thread launches, with kernels that say when they are on the GPU, and which blocks.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_POLICIES_FIXTURE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_POLICIES_FIXTURE_H_

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

class CudaPoliciesTest : public CudaBackendFixture,
                         public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr uint32_t kDevices = 3;

  // Kernels look at what this object has, also those of a test that has failed.
  void TearDown() override {
    holds_ = kNothing;
    Close();
  }
  void Open(std::string_view policy) {
    OpenPath(GetParam());
    ASSERT_TRUE(backend_->SetPolicy(policy).ok());
    EXPECT_EQ(backend_->policy(), policy);
  }
  // fail_if's argument says whose launch it is; the kernel notes who else is
  // there.
  void NoteWhoMeets() {
    fake_.DefineKernel("carillon_call_fail_if",
                       {sizeof(simt::EventFrame), sizeof(uint32_t)},
                       [this](KernelCall& call) {
                         const uint32_t device = call.param<uint32_t>(1);
                         ++on_gpu_[device];
                         for (int look = 0; look < 20; ++look) {
                           for (uint32_t other = 0; other < kDevices; ++other) {
                             if (other != device && on_gpu_[other] != 0)
                               ++meetings_;
                           }
                           std::this_thread::yield();
                         }
                         --on_gpu_[device];
                         auto frame = call.param<simt::EventFrame>(0);
                         CompleteEvent(frame);
                         return CUDA_SUCCESS;
                       });
  }
  std::unique_ptr<KernelLaunch> LaunchOf(const MappedDevice& device,
                                         uint32_t code, uint32_t priority,
                                         simt::Dim3 grid) {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = simt::FindKernel("fail_if"),
                   .grid = grid,
                   .block = {64, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(sizeof(code));
    std::memcpy(launch->args.get(), &code, sizeof(code));
    launch->memory = device.memory;
    launch->priority = priority;
    launch->from_host = true;
    return launch;
  }
  std::future<LaunchResult> Submit(std::unique_ptr<KernelLaunch> launch) {
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    launch->on_end = [promise](const LaunchResult& result) {
      promise->set_value(result);
    };
    auto result = promise->get_future();
    backend_->Submit(std::move(launch));
    return result;
  }

  static constexpr int kNothing = -1;
  std::atomic<int> holds_{kNothing};  // the kernel with this code does not end
  std::array<std::atomic<int>, kDevices> on_gpu_{};
  std::atomic<uint64_t> meetings_{0};
};

// What runs of a launch is noted block by block. Its code, fail_if's argument,
// says which it is.
class CudaSlicesTest : public CudaPoliciesTest {
 protected:
  static constexpr uint32_t kCodes = 32;
  void TearDown() override {
    ends_ = kAllEnd;
    CudaPoliciesTest::TearDown();
  }
  // Of a launch with 1024 threads a block.
  uint64_t Wave() const {
    return SmOccupancy(backend_->gpu())
        .Capacity(
            CostOf(1024, simt::FindKernel("fail_if")->registers_per_thread, 0));
  }
  void NoteBlocks() {
    fake_.DefineKernel(
        "carillon_call_fail_if",
        {sizeof(simt::EventFrame), sizeof(uint32_t), sizeof(simt::GridPart)},
        [this](KernelCall& call) {
          const auto code = call.param<uint32_t>(1);
          const auto part = call.param<simt::GridPart>(2);
          size_t before = 0;
          {
            std::lock_guard lock(log_mutex_);
            before = log_.size();
            log_.push_back(code);
            std::vector<int>& times = times_[code];
            times.resize(part.grid.count());
            for (uint64_t i = 0; i < call.grid().count(); ++i) {
              const uint64_t x = part.first.x + i % call.grid().x;
              const uint64_t y =
                  part.first.y + i / call.grid().x % call.grid().y;
              const uint64_t z =
                  part.first.z + i / call.grid().x / call.grid().y;
              ++times.at((z * part.grid.y + y) * part.grid.x + x);
            }
          }
          while ((holds_ == static_cast<int>(code) || before >= ends_) &&
                 !call.stopped()) {
            std::this_thread::yield();
          }
          int faulty = static_cast<int>(code);
          if (faults_.compare_exchange_strong(faulty, kNothing)) {
            std::lock_guard lock(log_mutex_);
            times_[code].clear();
            return CUDA_ERROR_ILLEGAL_ADDRESS;
          }
          CompleteEvent(call.param<simt::EventFrame>(0));
          return CUDA_SUCCESS;
        });
  }
  std::unique_ptr<KernelLaunch> Large(const MappedDevice& device, uint32_t code,
                                      uint32_t priority, simt::Dim3 grid,
                                      uint32_t threads = 1024) {
    auto launch = LaunchOf(device, code, priority, grid);
    launch->kmd.block = {threads, 1, 1};
    return launch;
  }
  TestDevice::Event AddLarge(MappedDevice& device, simt::Dim3 grid,
                             uint32_t priority = 0) {
    return Add(device, {.kernel = simt::FindKernel("fail_if"),
                        .bindings = {{.writable = true}},
                        .grid = grid,
                        .block = {1024, 1, 1},
                        .priority = priority});
  }
  std::vector<uint32_t> log() {
    std::lock_guard lock(log_mutex_);
    return log_;
  }
  std::vector<int> times(uint32_t code) {
    std::lock_guard lock(log_mutex_);
    return times_[code];
  }
  // Calls of the driver that launch.
  uint64_t Launched() {
    auto calls = fake_.calls();
    return calls["cuLaunchKernel"] + calls["cuGraphLaunch"];
  }
  static std::vector<int> Once(const simt::Dim3& grid) {
    return std::vector<int>(grid.count(), 1);
  }

  static constexpr size_t kAllEnd = SIZE_MAX;
  std::atomic<size_t> ends_{kAllEnd};  // so many of log()'s do, and no more
  std::atomic<int> faults_{kNothing};  // the kernel with this code, once
  std::mutex log_mutex_;
  std::vector<uint32_t> log_;  // codes, a launch or slice each
  std::array<std::vector<int>, kCodes> times_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_POLICIES_FIXTURE_H_
