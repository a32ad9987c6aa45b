// Kernels of a user's own on the fake GPU, and a device that registers them.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_USER_KERNELS_FIXTURE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_USER_KERNELS_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "gpu_daemon/event/test_device.h"

namespace carillon::gpud::cuda {

using ::testing::AllOf;
using ::testing::HasSubstr;

inline constexpr char kPtx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(
	.param .u64 .ptr .align 1 saxpy_param_0,
	.param .u64 .ptr .align 1 saxpy_param_1,
	.param .f32 saxpy_param_2,
	.param .u32 saxpy_param_3
)
{ ret; }
.visible .entry scale(
	.param .align 8 .b8 scale_param_0[16],
	.param .f32 scale_param_1
)
{ ret; }
.visible .entry tick()
{ ret; }
)";

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline KernelDeclaration Saxpy(const std::string& name = "saxpy") {
  return {.symbol = "saxpy",
          .name = name,
          .summary = "",
          .parameters = {{"x", simt::ParamKind::kReadBuffer, 4},
                         {"y", simt::ParamKind::kWriteBuffer, 4},
                         {"a", simt::ParamKind::kF32},
                         {"n", simt::ParamKind::kU32}}};
}
inline KernelDeclaration Scale() {
  return {.symbol = "scale",
          .name = "scale",
          .summary = "",
          .parameters = {{"y", simt::ParamKind::kWriteBuffer, 4},
                         {"a", simt::ParamKind::kF32}}};
}

inline constexpr uint32_t kFloats = 16;

// A device whose apertures the GPU reaches, with x to read and y to write.
struct SaxpyDevice : TestDevice {
  explicit SaxpyDevice(Backend& backend) {
    for (const shm::Aperture* aperture :
         {&memory->submission(), &memory->completion()}) {
      mappings.push_back(backend.memory()
                             .MapHost({aperture->At(0), aperture->size()})
                             .value());
    }
    x = reinterpret_cast<float*>(memory->submission().At(
        *submission_heap->Allocate(kFloats * sizeof(float))));
    y = reinterpret_cast<float*>(memory->completion().At(
        *completion_heap->Allocate(kFloats * sizeof(float))));
    for (uint32_t i = 0; i < kFloats; ++i) {
      x[i] = static_cast<float>(i);
      y[i] = 1;
    }
  }
  static BufferRange Range(float* data) {
    return {reinterpret_cast<std::byte*>(data), kFloats * sizeof(float)};
  }

  std::vector<std::unique_ptr<HostMapping>> mappings;
  float* x = nullptr;
  float* y = nullptr;
};

inline ParameterBinding Buffer(BufferRange range) { return {.buffer = range}; }
inline ParameterBinding Constant(uint64_t bits) {
  return {.constant_bits = bits};
}
inline ParameterBinding Writable() { return {.writable = true}; }

class UserKernelsTest : public ::testing::Test {
 protected:
  explicit UserKernelsTest(FakeSettings settings = {}) : fake_(settings) {}

  void Open() { OpenOn(fake_.driver()); }
  void OpenOn(const Driver& driver) {
    // As gpud's own driver: a context is made anew after a fault.
    fake_.ChangeSettings([](FakeSettings& s) { s.faults_stay = false; });
    auto backend =
        CudaBackend::CreateOn(driver, {},
                              {.image = FakeGpu::Image(),
                               .recovers = true,
                               .longest_kernel = std::chrono::milliseconds(500),
                               .look_every = std::chrono::milliseconds(5)});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    device_.emplace(*backend_);
    modules_ = fake_.live_objects().modules;
  }
  // After it, nothing may be left on the GPU.
  ~UserKernelsTest() override {
    if (backend_ == nullptr) return;
    backend_->Stop();
    device_.reset();
    backend_.reset();
    EXPECT_EQ(fake_.live_objects(), LiveObjects{});
    EXPECT_EQ(fake_.stale_uses(), 0u);
  }

  absl::StatusOr<std::vector<const simt::KernelInfo*>> Load(
      const std::string& image, std::vector<KernelDeclaration> kernels) {
    return catalog_.Load({.image = std::as_bytes(std::span(image)),
                          .file = "user.ptx",
                          .kernels = std::move(kernels)},
                         *backend_);
  }
  const simt::KernelInfo* MustLoad(KernelDeclaration kernel) {
    auto loaded = Load(kPtx, {std::move(kernel)});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->front() : nullptr;
  }
  // Refused so, and nothing of it is left.
  void ExpectRefused(const std::string& image, KernelDeclaration kernel,
                     absl::StatusCode code, const std::string& sentence) {
    const auto loaded = Load(image, {std::move(kernel)});
    EXPECT_EQ(loaded.status().code(), code) << loaded.status();
    EXPECT_THAT(std::string(loaded.status().message()),
                ::testing::HasSubstr(sentence));
    EXPECT_EQ(fake_.live_objects().modules, modules_);
  }

  FakeGpu fake_;
  std::unique_ptr<Backend> backend_;
  KernelCatalog catalog_;
  std::optional<SaxpyDevice> device_;
  uint64_t modules_ = 0;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_USER_KERNELS_FIXTURE_H_
