// The CPU form of devices/example/saxpy.cu: a user's own kernels, which run where
// an image names them.
#include <algorithm>
#include <cstdint>

#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

struct Floats {
  float* data;
  uint64_t count;
};

uint64_t Threads(const KernelCall& call) {
  return call.grid().count() * call.block().count();
}

// Of threads from `first` on, in one dimension.
CUresult Saxpy(KernelCall& call, uint64_t first) {
  const auto* x = call.param<const float*>(0);
  auto* y = call.param<float*>(1);
  const auto a = call.param<float>(2);
  const uint64_t n =
      std::min<uint64_t>(call.param<uint32_t>(3), first + Threads(call));
  for (uint64_t i = first; i < n; ++i) y[i] += a * x[i];
  return CUDA_SUCCESS;
}

const FakeKernelRegistration kSaxpy(
    "saxpy", {sizeof(float*), sizeof(float*), sizeof(float), sizeof(uint32_t)},
    [](KernelCall& call) { return Saxpy(call, 0); });

// What gpud makes of it (driver/sliced_ptx.h).
const FakeKernelRegistration kSaxpySlice(
    "carillon_slice_saxpy",
    {sizeof(float*), sizeof(float*), sizeof(float), sizeof(uint32_t),
     sizeof(simt::GridPart)},
    [](KernelCall& call) {
      const auto part = call.param<simt::GridPart>(4);
      return Saxpy(call, uint64_t{part.first.x} * call.block().x);
    });

const FakeKernelRegistration kScale("scale", {sizeof(Floats), sizeof(float)},
                                    [](KernelCall& call) {
                                      const auto y = call.param<Floats>(0);
                                      const auto a = call.param<float>(1);
                                      const uint64_t n =
                                          std::min(y.count, Threads(call));
                                      for (uint64_t i = 0; i < n; ++i) {
                                        y.data[i] *= a;
                                      }
                                      return CUDA_SUCCESS;
                                    });

}  // namespace
}  // namespace carillon::gpud::cuda
