// busy: keeps every thread at work for a known number of steps, for scheduling
// experiments and tests.
#ifndef CARILLON_KERNELS_BUSY_CUH_
#define CARILLON_KERNELS_BUSY_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct BusyArgs {
  uint64_t iterations;
};

// xorshift64, a chain of dependent steps. From any state other than 0 it never
// reaches 0.
CARILLON_DEVICE uint64_t BusySteps(uint64_t state, uint64_t steps) {
  for (uint64_t i = 0; i < steps; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  return state;
}

CARILLON_KERNEL(busy, BusyArgs, args, self) {
  // The condition never holds, but no compiler knows it, so the steps are
  // executed.
  if (BusySteps(self.global_linear() + 1, args.iterations) == 0) {
    self.Fail(simt::kMaxKernelStatus);
  }
}

CARILLON_KERNEL_INFO(busy, BusyArgs,
                     "computes for a given number of steps a thread",
                     simt::Registers(12)
                         .From("of the testbed")
                         .Oracle("it computes nothing")
                         .Unbounded(),
                     CARILLON_PARAM(BusyArgs, iterations,
                                    "steps of each thread, some ns each"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BUSY_CUH_
