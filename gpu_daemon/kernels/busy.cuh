// busy: keeps every thread at work for a known number of steps; a load of
// chosen length for scheduling experiments and tests.
#ifndef CARILLON_GPU_DAEMON_KERNELS_BUSY_CUH_
#define CARILLON_GPU_DAEMON_KERNELS_BUSY_CUH_

#include "gpu_daemon/kernels/simt.h"

namespace carillon::kernels {

struct BusyArgs {
  uint64_t iterations;
};

CARILLON_KERNEL(busy, BusyArgs, args, self) {
  // xorshift64: a chain of dependent steps that never reaches 0 from elsewhere,
  // which no compiler knows; so the test keeps the loop from being removed.
  uint64_t state = self.global_linear() + 1;
  for (uint64_t i = 0; i < args.iterations; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  if (state == 0) self.Fail(simt::kMaxKernelStatus);
}

CARILLON_KERNEL_INFO(busy, BusyArgs,
                     "computes for a given number of steps a thread",
                     simt::Registers(14),
                     CARILLON_PARAM(BusyArgs, iterations,
                                    "steps of each thread, some ns each"));

}  // namespace carillon::kernels

#endif  // CARILLON_GPU_DAEMON_KERNELS_BUSY_CUH_
