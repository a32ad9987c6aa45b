// fail_if: fails with a given status, to test how failures are handled.
#ifndef CARILLON_KERNELS_FAIL_IF_CUH_
#define CARILLON_KERNELS_FAIL_IF_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct FailIfArgs {
  uint32_t code;
};

CARILLON_KERNEL(fail_if, FailIfArgs, args, self) {
  if (args.code != 0 && self.global_linear() == 0) self.Fail(args.code);
}

CARILLON_KERNEL_INFO(
    fail_if, FailIfArgs, "fails with the status that it is given",
    simt::Registers(10).From("of the testbed").Oracle("it computes nothing"),
    CARILLON_PARAM(FailIfArgs, code, "0 succeeds; 1..0x7fffffff fails so"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_FAIL_IF_CUH_
