// vector_add: c = a + b, one element a thread.
#ifndef CARILLON_KERNELS_VECTOR_ADD_CUH_
#define CARILLON_KERNELS_VECTOR_ADD_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct VectorAddArgs {
  simt::Span<const float> a;
  simt::Span<const float> b;
  simt::Span<float> c;
};

// If the grid is too small for c, the rest of c stays unchanged and the event
// fails.
CARILLON_KERNEL(vector_add, VectorAddArgs, args, self) {
  const uint64_t i = self.global_x();
  if (i == 0 && (args.a.size < args.c.size || args.b.size < args.c.size)) {
    self.Fail(simt::kFailBadArguments);
  }
  if (i == 0 && static_cast<uint64_t>(self.grid_dim().x) * self.block_dim().x <
                    args.c.size) {
    self.Fail(simt::kFailBadShape);
  }
  if (i < args.a.size && i < args.b.size && i < args.c.size) {
    args.c[i] = args.a[i] + args.b[i];
  }
}

inline const char* CheckVectorAdd(const simt::LaunchShape& shape,
                                  const VectorAddArgs& args) {
  if (args.a.size < args.c.size || args.b.size < args.c.size) {
    return "a and b must have at least as many elements as c";
  }
  if (static_cast<uint64_t>(shape.grid.x) * shape.block.x < args.c.size) {
    return "grid.x * block.x must be at least the number of elements of c";
  }
  return nullptr;
}

CARILLON_KERNEL_INFO(vector_add, VectorAddArgs,
                     "adds two vectors of floats, one element a thread",
                     simt::Registers(13)
                         .From("of the testbed")
                         .Oracle("NumPy, SciPy")
                         .Validate<&CheckVectorAdd>(),
                     CARILLON_PARAM(VectorAddArgs, a, "first summand"),
                     CARILLON_PARAM(VectorAddArgs, b, "second summand"),
                     CARILLON_PARAM(VectorAddArgs, c,
                                    "receives a + b; its size is the count"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_VECTOR_ADD_CUH_
