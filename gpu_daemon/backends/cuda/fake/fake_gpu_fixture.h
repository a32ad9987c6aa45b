// A fake GPU with its context, for tests of what it is.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_GPU_FIXTURE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_GPU_FIXTURE_H_

#include <gtest/gtest.h>

#include "base/testing/eventually.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"

namespace carillon::gpud::cuda {

// A GPU with its primary context current in this thread.
class FakeGpuTest : public testing::Test {
 protected:
  explicit FakeGpuTest(FakeSettings settings = {}) : gpu_(settings) {
    EXPECT_EQ(driver_.cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }
  ~FakeGpuTest() override { driver_.cuCtxSetCurrent(nullptr); }

  CUfunction FunctionOf(const char* name) {
    if (!module_) {
      absl::StatusOr<Module> module = LoadModule(driver_, FakeGpu::Image());
      EXPECT_TRUE(module.ok()) << module.status();
      module_ = *std::move(module);
    }
    absl::StatusOr<CUfunction> function =
        FindFunction(driver_, module_.get(), name);
    EXPECT_TRUE(function.ok()) << function.status();
    return function.value_or(nullptr);
  }
  // A kernel with one 64-bit parameter.
  CUfunction Define(const char* name,
                    std::function<CUresult(KernelCall&, uint64_t)> run) {
    gpu_.DefineKernel(name, {8}, [run](KernelCall& call) {
      return run(call, call.param<uint64_t>(0));
    });
    return FunctionOf(name);
  }
  CUresult LaunchIn(CUstream stream, CUfunction function, uint64_t param) {
    void* params[] = {&param};
    return driver_.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream,
                                  params, nullptr);
  }
  Stream NewStream() { return *MakeStream(driver_); }
  // A device graph of one kernel with one 64-bit parameter, uploaded.
  GraphExec NewExec(CUfunction function, uint64_t param) {
    const Graph graph = *MakeGraph(driver_);
    void* params[] = {&param};
    CUDA_KERNEL_NODE_PARAMS node = {};
    node.func = function;
    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
    node.blockDimX = 32;
    node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = params;
    CUgraphNode handle = nullptr;
    EXPECT_EQ(
        driver_.cuGraphAddKernelNode(&handle, graph.get(), nullptr, 0, &node),
        CUDA_SUCCESS);
    absl::StatusOr<GraphExec> exec =
        Instantiate(driver_, graph.get(),
                    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                        CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
    EXPECT_TRUE(exec.ok()) << exec.status();
    EXPECT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    return *std::move(exec);
  }
  // Destroys the context, faulted or not, and makes a new one current. Faults must
  // not stay.
  void Rebuild() {
    module_.Abandon();
    EXPECT_EQ(driver_.cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }

  FakeGpu gpu_;
  const Driver driver_ = gpu_.driver();
  CUcontext context_ = nullptr;
  Module module_;
};
}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_FAKE_FAKE_GPU_FIXTURE_H_
