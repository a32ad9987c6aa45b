// null_event: does nothing. Measures what everything around a kernel costs.
#ifndef CARILLON_KERNELS_NULL_EVENT_CUH_
#define CARILLON_KERNELS_NULL_EVENT_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct NullArgs {
  uint64_t token;
};

CARILLON_KERNEL(null_event, NullArgs, args, self) {}

CARILLON_KERNEL_INFO(
    null_event, NullArgs, "does nothing; measures the launch path itself",
    simt::Registers(4).From("of the testbed").Oracle("it computes nothing"),
    CARILLON_PARAM(NullArgs, token, "ignored by the kernel"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NULL_EVENT_CUH_
