// fig_vector_multiply: c = a * b, a grid-stride loop. The background of GNoM's
// Figs. 4.13 and 4.14 (thesis 4.4): 256 blocks of 1024 threads in one launch, or
// fewer in each of several.
#ifndef CARILLON_KERNELS_PAPER_FIG_VECTOR_MULTIPLY_CUH_
#define CARILLON_KERNELS_PAPER_FIG_VECTOR_MULTIPLY_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct FigVectorMultiplyArgs {
  simt::Span<const float> a;
  simt::Span<const float> b;
  simt::Span<float> c;  // its size is the count
};

CARILLON_KERNEL(fig_vector_multiply, FigVectorMultiplyArgs, args, self) {
  if (args.a.size < args.c.size || args.b.size < args.c.size) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  for (uint64_t i = self.global_linear(); i < args.c.size;
       i += self.grid_threads()) {
    args.c[i] = args.a[i] * args.b[i];
  }
}

CARILLON_KERNEL_INFO(
    fig_vector_multiply, FigVectorMultiplyArgs,
    "multiplies two vectors of floats, element by element",
    simt::Registers(16).From("GNoM's background").Oracle("the definition"),
    CARILLON_PARAM(FigVectorMultiplyArgs, a, "first factor"),
    CARILLON_PARAM(FigVectorMultiplyArgs, b, "second factor"),
    CARILLON_PARAM(FigVectorMultiplyArgs, c,
                   "receives a * b; its size is the count"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_VECTOR_MULTIPLY_CUH_
