// A kernel that no other gpud has: with it gpud has another catalogue.
#include "kernels/simt/simt.h"

namespace carillon {
namespace {

struct AnotherArgs {
  uint32_t unused;
};
CARILLON_KERNEL(another_kernel, AnotherArgs, args, self) {}
CARILLON_KERNEL_INFO(another_kernel, AnotherArgs, "of a test",
                     simt::Registers(1).From("this file").Oracle("none"),
                     CARILLON_PARAM(AnotherArgs, unused, "unused"));

}  // namespace
}  // namespace carillon
