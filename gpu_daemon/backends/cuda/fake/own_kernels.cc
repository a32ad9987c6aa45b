// gpud's kernels without a CPU form.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "gpu_daemon/launch/event_frame.h"
#include "gpu_daemon/launch/kernel_metadata.h"
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

// Behind a user's kernel, in its stream: the memory that it wrote is there.
const FakeKernelRegistration kComplete("carillon_complete",
                                       {sizeof(EventFrame)},
                                       [](KernelCall& call) {
                                         auto frame = call.param<EventFrame>(0);
                                         CompleteEvent(frame);
                                         return CUDA_SUCCESS;
                                       });

// The function's address is a KernelInfo's, as cuModuleGetGlobal has it.
const FakeKernelRegistration kRunInline(
    "carillon_run_inline",
    {sizeof(uint64_t), sizeof(std::byte*), sizeof(simt::Dim3),
     sizeof(uint32_t*)},
    [](KernelCall& call) {
      KernelMetadata kmd;
      kmd.kernel =
          reinterpret_cast<const simt::KernelInfo*>(call.param<uint64_t>(0));
      kmd.block = call.param<simt::Dim3>(2);
      RunBlock(kmd, 0, call.param<const std::byte*>(1),
               call.param<uint32_t*>(3));
      return CUDA_SUCCESS;
    });

}  // namespace
}  // namespace carillon::gpud::cuda
