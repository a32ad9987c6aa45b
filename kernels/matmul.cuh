// matmul: c = a * b for square matrices of floats, in tiles of 16x16. It is the
// usual background kernel of EDGE's evaluation.
#ifndef CARILLON_KERNELS_MATMUL_CUH_
#define CARILLON_KERNELS_MATMUL_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct MatmulArgs {
  simt::Span<const float> a;
  simt::Span<const float> b;
  simt::Span<float> c;
  uint32_t n;
};

inline constexpr uint32_t kMatmulTile = 16;

CARILLON_BARRIER_KERNEL(matmul, MatmulArgs, args, self) {
  const uint64_t n = args.n;
  if (self.block_dim() != simt::Dim3{kMatmulTile, kMatmulTile, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (args.a.size < n * n || args.b.size < n * n || args.c.size < n * n) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint64_t row = self.global_y();
  const uint64_t column = self.global_x();
  float* tile_a = self.shared<float>(0, kMatmulTile * kMatmulTile);
  float* tile_b = self.shared<float>(kMatmulTile * kMatmulTile * sizeof(float),
                                     kMatmulTile * kMatmulTile);

  float sum = 0.0f;
  for (uint64_t k = 0; k < n; k += kMatmulTile) {
    // Outside of the matrices the tiles hold zeros, which add nothing.
    tile_a[y * kMatmulTile + x] =
        row < n && k + x < n ? args.a[row * n + k + x] : 0.0f;
    tile_b[y * kMatmulTile + x] =
        k + y < n && column < n ? args.b[(k + y) * n + column] : 0.0f;
    CARILLON_SYNC_THREADS(self);
    for (uint32_t i = 0; i < kMatmulTile; ++i) {
      sum += tile_a[y * kMatmulTile + i] * tile_b[i * kMatmulTile + x];
    }
    CARILLON_SYNC_THREADS(self);
  }
  if (row < n && column < n) args.c[row * n + column] = sum;
}

inline const char* CheckMatmulShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kMatmulTile, kMatmulTile, 1}
             ? nullptr
             : "matmul works in blocks of 16x16x1 threads, one an element of c";
}

inline const char* CheckMatmul(const simt::LaunchShape& shape,
                               const MatmulArgs& args) {
  const uint64_t elements = static_cast<uint64_t>(args.n) * args.n;
  if (args.a.size < elements || args.b.size < elements ||
      args.c.size < elements) {
    return "a, b and c must have n * n elements";
  }
  if (static_cast<uint64_t>(shape.grid.x) * kMatmulTile < args.n ||
      static_cast<uint64_t>(shape.grid.y) * kMatmulTile < args.n) {
    return "the grid must cover c: ceil(n / 16) x ceil(n / 16) blocks";
  }
  return CheckMatmulShape(shape);
}

CARILLON_KERNEL_INFO(
    matmul, MatmulArgs, "product of two square matrices of floats",
    simt::Registers(32)
        .From("CUDA samples matrixMul (EDGE: MM)")
        .Oracle("NumPy, SciPy")
        .Shared(2 * kMatmulTile * kMatmulTile * sizeof(float))
        .LeavesTogether()
        .Shape<&CheckMatmulShape>()
        .Validate<&CheckMatmul>(),
    CARILLON_PARAM(MatmulArgs, a, "n * n elements, row by row"),
    CARILLON_PARAM(MatmulArgs, b, "n * n elements, row by row"),
    CARILLON_PARAM(MatmulArgs, c, "receives a * b"),
    CARILLON_PARAM(MatmulArgs, n, "rows and columns of each matrix"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_MATMUL_CUH_
