// gpud's kernels without a CPU form.
#include <atomic>
#include <cstdint>

#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "shm/clock.h"

namespace carillon::gpud::cuda {
namespace {

const FakeKernelRegistration kTrap("carillon_trap", {}, [](KernelCall&) {
  return CUDA_ERROR_LAUNCH_FAILED;
});

const FakeKernelRegistration kClock("carillon_clock", {sizeof(uint64_t*)},
                                    [](KernelCall& call) {
                                      std::atomic_ref(*call.param<uint64_t*>(0))
                                          .store(shm::NowNs(),
                                                 std::memory_order_relaxed);
                                      return CUDA_SUCCESS;
                                    });

}  // namespace
}  // namespace carillon::gpud::cuda
