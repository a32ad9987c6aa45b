// A back-end on the fake driver, and background kernels and copies for it.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_BACKGROUND_FIXTURE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_BACKGROUND_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <utility>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"

namespace carillon::gpud::cuda {

using CudaBackendTest = CudaBackendFixture;

class CudaBackgroundTest : public CudaBackendTest {
 protected:
  std::unique_ptr<KernelLaunch> LaunchOf(uint32_t code) {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = simt::FindKernel("fail_if"),
                   .grid = {4, 1, 1},
                   .block = {64, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(sizeof(code));
    std::memcpy(launch->args.get(), &code, sizeof(code));
    launch->memory = device_->memory;
    launch->from_host = true;
    return launch;
  }
  std::future<LaunchResult> Submit(uint32_t code, uint32_t priority = 0) {
    auto launch = LaunchOf(code);
    launch->priority = priority;
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    launch->on_end = [promise](const LaunchResult& result) {
      promise->set_value(result);
    };
    auto result = promise->get_future();
    backend_->Submit(std::move(launch));
    return result;
  }
  std::future<LaunchResult> Copy(CopyDirection direction, std::byte* to,
                                 const std::byte* from, uint64_t bytes) {
    auto copy = std::make_unique<MemoryCopy>();
    copy->direction = direction;
    copy->to = to;
    copy->from = from;
    copy->bytes = bytes;
    copy->memory = device_->memory;
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    copy->on_end = [promise](const LaunchResult& result) {
      promise->set_value(result);
    };
    backend_->Submit(std::move(copy));
    return promise->get_future();
  }
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_BACKGROUND_FIXTURE_H_
