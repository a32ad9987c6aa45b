// A CUDA back-end on a driver made of CPU threads, and devices on it, for tests.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_CUDA_BACKEND_FIXTURE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_CUDA_BACKEND_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud::cuda {

// What fail_if ends with when it is given `code`.
inline uint32_t KernelCode(uint32_t code) {
  return static_cast<uint32_t>(shm::EventStatus::kKernelStatusBase) + code;
}

// A kernel that leaves no room for another one on a GPU of two SMs.
inline constexpr simt::Dim3 kFillsTwoSms = {64, 1, 1};  // of 64 threads
inline void TwoSms(FakeSettings& settings) { settings.sms = 2; }

// A device whose apertures the GPU reaches.
struct MappedDevice : TestDevice {
  explicit MappedDevice(Backend& backend, std::string name = "test0")
      : MappedDevice(backend.memory(), std::move(name)) {}
  explicit MappedDevice(KernelMemory& kernel_memory, std::string name)
      : TestDevice(std::move(name)) {
    for (const shm::Aperture* aperture :
         {&memory->submission(), &memory->completion()}) {
      auto mapping = kernel_memory.MapHost({aperture->At(0), aperture->size()});
      EXPECT_TRUE(mapping.ok()) << mapping.status();
      mappings.push_back(*std::move(mapping));
    }
  }
  std::atomic_ref<uint32_t> doorbell(const Event& event) {
    return std::atomic_ref(
        memory->submission().doorbells()[event.kernel->event_id()]);
  }
  std::vector<std::unique_ptr<HostMapping>> mappings;
};

// The fake driver is as gpud's own: it makes a context anew after a fault.
class CudaBackendFixture : public ::testing::Test {
 protected:
  CudaBackendFixture() {
    fake_.ChangeSettings([](FakeSettings& s) { s.faults_stay = false; });
  }
  static Gpu::Options GpuOptions(
      std::span<const std::byte> image = FakeGpu::Image()) {
    return {.image = image,
            .recovers = true,
            .look_every = std::chrono::milliseconds(5),
            // A machine may be slow, a sanitizer is.
            .longest_step = std::chrono::minutes(5)};
  }
  // With a device on it.
  void Open(const Gpu::Options& gpu = GpuOptions()) {
    BackendOptions options;
    options.tracing = tracing_;
    options.preempt_us = preempt_us_;
    options.on_violation = [this](const std::shared_ptr<DeviceMemory>& memory,
                                  std::string reason) {
      std::lock_guard lock(mutex_);
      violations_.emplace_back(memory, std::move(reason));
    };
    auto backend = CudaBackend::CreateOn(driver_ ? *driver_ : fake_.driver(),
                                         options, gpu);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    device_.emplace(*backend_);
  }
  // path_ is it from now on.
  void Use(std::string_view path) {
    const auto found = backend_->paths().Find(path);
    ASSERT_TRUE(found.ok()) << found.status();
    path_ = found->path;
  }
  // Open(), and Use().
  void OpenPath(std::string_view path,
                std::chrono::milliseconds longest_kernel =
                    Gpu::Options().longest_kernel) {
    Gpu::Options gpu = GpuOptions();
    gpu.longest_kernel = longest_kernel;
    ASSERT_NO_FATAL_FAILURE(CudaBackendFixture::Open(gpu));
    Use(path);
  }
  // Afterwards nothing may be left on the GPU.
  void Close() {
    if (backend_ == nullptr) return;
    backend_->Stop();
    device_.reset();
    others_.clear();
    backend_.reset();
    EXPECT_EQ(fake_.live_objects(), LiveObjects{});
    EXPECT_EQ(fake_.stale_uses(), 0u);
  }
  ~CudaBackendFixture() override { Close(); }

  MappedDevice& OtherDevice() {
    others_.push_back(std::make_unique<MappedDevice>(
        *backend_, "other" + std::to_string(others_.size())));
    return *others_.back();
  }

  TestDevice::Event Add(TestDevice& device, const TestDevice::Spec& spec) {
    auto event = device.Register(spec);
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  // Three blocks.
  TestDevice::Event AddFailIf(TestDevice& device, uint32_t entries = 4) {
    return Add(device, {.kernel = simt::FindKernel("fail_if"),
                        .bindings = {{.writable = true}},
                        .grid = {3, 1, 1},
                        .entries = entries});
  }
  // As the control plane unregisters. Returns how many events were aborted.
  uint64_t TakeAway(const TestDevice::Event& event) {
    path_->Remove(event.kernel);
    backend_->Cancel(LaunchFilter::Of(*event.kernel),
                     shm::EventStatus::kUnregistered);
    event.kernel->AbortUnfinished(shm::EventStatus::kUnregistered);
    return event.kernel->counts().aborted;
  }

  // Of fail_if. Commit: without ringing.
  static void Commit(const TestDevice::Event& event, uint32_t code) {
    std::memcpy(event.ring->parameters(), &code, sizeof(code));
    event.ring->Commit();
  }
  static shm::Completion RingAndWait(TestDevice& device,
                                     const TestDevice::Event& event,
                                     uint32_t code = 0) {
    Commit(event, code);
    event.ring->RingDoorbell();
    return device.Wait(*event.ring);
  }

  size_t violations() {
    std::lock_guard lock(mutex_);
    return violations_.size();
  }
  template <class Condition>
  static bool Until(Condition condition,
                    std::chrono::seconds at_most = std::chrono::minutes(1)) {
    const auto limit = std::chrono::steady_clock::now() + at_most;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::yield();
    }
    return true;
  }

  bool tracing_ = false;  // from the start
  uint32_t preempt_us_ = 0;
  std::optional<Driver> driver_;  // in place of fake_'s own
  FakeGpu fake_;
  std::mutex mutex_;
  std::vector<std::pair<std::shared_ptr<DeviceMemory>, std::string>>
      violations_;
  std::unique_ptr<Backend> backend_;
  LaunchPath* path_ = nullptr;
  std::optional<MappedDevice> device_;
  std::vector<std::unique_ptr<MappedDevice>> others_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_CUDA_BACKEND_FIXTURE_H_
