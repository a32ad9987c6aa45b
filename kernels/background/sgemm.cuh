// sgemm: c = alpha * a * b + beta * c for float matrices of any shape, in tiles
// of 32x32 that pass through shared memory.
#ifndef CARILLON_KERNELS_BACKGROUND_SGEMM_CUH_
#define CARILLON_KERNELS_BACKGROUND_SGEMM_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kSgemmTile = 32;
inline constexpr uint32_t kSgemmElements = kSgemmTile * kSgemmTile;

struct SgemmArgs {
  simt::Span<const float> a;  // rows * depth, row by row
  simt::Span<const float> b;  // depth * columns
  simt::Span<float> c;        // rows * columns
  uint32_t rows;
  uint32_t columns;
  uint32_t depth;
  float alpha;
  float beta;
};

CARILLON_HOST_DEVICE bool SgemmFits(const SgemmArgs& args) {
  return args.a.size >= static_cast<uint64_t>(args.rows) * args.depth &&
         args.b.size >= static_cast<uint64_t>(args.depth) * args.columns &&
         args.c.size >= static_cast<uint64_t>(args.rows) * args.columns;
}

CARILLON_BARRIER_KERNEL(sgemm, SgemmArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kSgemmTile, kSgemmTile, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!SgemmFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint64_t row = self.global_y();
  const uint64_t column = self.global_x();
  float* tile_a = self.shared<float>(0, kSgemmElements);
  float* tile_b =
      self.shared<float>(kSgemmElements * sizeof(float), kSgemmElements);

  float sum = 0.0f;
  for (uint64_t k = 0; k < args.depth; k += kSgemmTile) {
    // Outside of the matrices the tiles hold zeros, which add nothing.
    tile_a[y * kSgemmTile + x] = row < args.rows && k + x < args.depth
                                     ? args.a[row * args.depth + k + x]
                                     : 0.0f;
    tile_b[y * kSgemmTile + x] = k + y < args.depth && column < args.columns
                                     ? args.b[(k + y) * args.columns + column]
                                     : 0.0f;
    CARILLON_SYNC_THREADS(self);
    for (uint32_t i = 0; i < kSgemmTile; ++i) {
      sum += tile_a[y * kSgemmTile + i] * tile_b[i * kSgemmTile + x];
    }
    CARILLON_SYNC_THREADS(self);
  }
  if (row < args.rows && column < args.columns) {
    float& c = args.c[row * args.columns + column];
    c = args.alpha * sum + args.beta * c;
  }
}

inline const char* CheckSgemmShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kSgemmTile, kSgemmTile, 1}
             ? nullptr
             : "blocks have 32x32x1 threads, one an element of c";
}

inline const char* CheckSgemm(const simt::LaunchShape& shape,
                              const SgemmArgs& args) {
  if (!SgemmFits(args)) {
    return "a must have rows * depth elements, b depth * columns, c rows * "
           "columns";
  }
  if (static_cast<uint64_t>(shape.grid.x) * kSgemmTile < args.columns ||
      static_cast<uint64_t>(shape.grid.y) * kSgemmTile < args.rows) {
    return "the grid must cover c: ceil(columns / 32) x ceil(rows / 32) blocks";
  }
  return CheckSgemmShape(shape);
}

CARILLON_KERNEL_INFO(
    sgemm, SgemmArgs, "alpha * a * b + beta * c of float matrices",
    simt::Registers(32)
        .From("Parboil sgemm (PEP: GM)")
        .Oracle("NumPy, SciPy")
        .Shared(2 * kSgemmElements * sizeof(float))
        .LeavesTogether()
        .Shape<&CheckSgemmShape>()
        .Validate<&CheckSgemm>(),
    CARILLON_PARAM(SgemmArgs, a, "rows * depth elements, row by row"),
    CARILLON_PARAM(SgemmArgs, b, "depth * columns elements, row by row"),
    CARILLON_PARAM(SgemmArgs, c, "rows * columns elements, to be changed"),
    CARILLON_PARAM(SgemmArgs, rows, "of a and c"),
    CARILLON_PARAM(SgemmArgs, columns, "of b and c"),
    CARILLON_PARAM(SgemmArgs, depth, "columns of a, rows of b"),
    CARILLON_PARAM(SgemmArgs, alpha, "the product's factor"),
    CARILLON_PARAM(SgemmArgs, beta, "the factor of c as it was"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_SGEMM_CUH_
