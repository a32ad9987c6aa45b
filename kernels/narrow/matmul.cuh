// matmul_plain and matmul_shared: what matmul computes, by any number of blocks of
// few threads (Pagoda's MM, from the CUDA SDK), without and with shared memory.
#ifndef CARILLON_KERNELS_NARROW_MATMUL_CUH_
#define CARILLON_KERNELS_NARROW_MATMUL_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct NarrowMatmulArgs {
  simt::Span<const float> a;
  simt::Span<const float> b;
  simt::Span<float> c;
  uint32_t n;
};

CARILLON_HOST_DEVICE bool NarrowMatmulFits(const NarrowMatmulArgs& args) {
  const uint64_t elements = static_cast<uint64_t>(args.n) * args.n;
  return elements != 0 && args.a.size >= elements && args.b.size >= elements &&
         args.c.size >= elements;
}

CARILLON_KERNEL(matmul_plain, NarrowMatmulArgs, args, self) {
  if (!NarrowMatmulFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t n = args.n;
  for (uint64_t i = self.global_linear(); i < n * n; i += self.grid_threads()) {
    const float* a = args.a.data + i / args.n * n;
    const float* b = args.b.data + i % args.n;
    float sum = 0.0f;
    for (uint32_t k = args.n; k > 0; --k, ++a, b += n) sum += *a * *b;
    args.c[i] = sum;
  }
}

inline constexpr uint32_t kNarrowTile = 16;
inline constexpr uint32_t kNarrowTileElements = kNarrowTile * kNarrowTile;
inline constexpr uint32_t kNarrowTileBytes =
    kNarrowTileElements * sizeof(float);

// A block does tiles of 16x16 elements of c, one after another. The tile of c lies
// in shared memory, too: a thread of a small block has too many of its elements to
// hold them in registers.
CARILLON_BARRIER_KERNEL(matmul_shared, NarrowMatmulArgs, args, self) {
  if (!NarrowMatmulFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t n = args.n;
  const uint32_t threads = self.block_threads();
  const uint64_t tiles = (n + kNarrowTile - 1) / kNarrowTile;
  float* tile_a = self.shared<float>(0, kNarrowTileElements);
  float* tile_b = self.shared<float>(kNarrowTileBytes, kNarrowTileElements);
  float* tile_c = self.shared<float>(2 * kNarrowTileBytes, kNarrowTileElements);
  for (uint64_t tile = self.global_linear() / threads; tile < tiles * tiles;
       tile += self.grid_dim().count()) {
    const uint64_t top = tile / tiles * kNarrowTile;
    const uint64_t left = tile % tiles * kNarrowTile;
    for (uint64_t k = 0; k < n; k += kNarrowTile) {
      // Outside of the matrices the tiles hold zeros, which add nothing.
      for (uint32_t i = self.linear(); i < kNarrowTileElements; i += threads) {
        const uint32_t x = i % kNarrowTile;
        const uint32_t y = i / kNarrowTile;
        tile_a[i] =
            top + y < n && k + x < n ? args.a[(top + y) * n + k + x] : 0.0f;
        tile_b[i] =
            k + y < n && left + x < n ? args.b[(k + y) * n + left + x] : 0.0f;
      }
      CARILLON_SYNC_THREADS(self);
      for (uint32_t i = self.linear(); i < kNarrowTileElements; i += threads) {
        const float* a = tile_a + i / kNarrowTile * kNarrowTile;
        const float* b = tile_b + i % kNarrowTile;
        float sum = k == 0 ? 0.0f : tile_c[i];
        for (uint32_t m = 0; m < kNarrowTile; ++m) {
          sum += a[m] * b[m * kNarrowTile];
        }
        tile_c[i] = sum;
      }
      CARILLON_SYNC_THREADS(self);
    }
    for (uint32_t i = self.linear(); i < kNarrowTileElements; i += threads) {
      const uint64_t row = top + i / kNarrowTile;
      const uint64_t column = left + i % kNarrowTile;
      if (row < n && column < n) args.c[row * n + column] = tile_c[i];
    }
  }
}

inline const char* CheckNarrowMatmul(const simt::LaunchShape&,
                                     const NarrowMatmulArgs& args) {
  return NarrowMatmulFits(args)
             ? nullptr
             : "n must not be 0; a, b and c must have n * n elements";
}

#define CARILLON_NARROW_MATMUL_PARAMS                                    \
  CARILLON_PARAM(NarrowMatmulArgs, a, "n * n elements, row by row"),     \
      CARILLON_PARAM(NarrowMatmulArgs, b, "n * n elements, row by row"), \
      CARILLON_PARAM(NarrowMatmulArgs, c, "receives a * b"),             \
      CARILLON_PARAM(NarrowMatmulArgs, n, "rows and columns of each matrix")

CARILLON_KERNEL_INFO(matmul_plain, NarrowMatmulArgs,
                     "product of two small matrices: a narrow task",
                     simt::Registers(32)
                         .From("CUDA samples matrixMul (Pagoda: MM)")
                         .Oracle("NumPy, SciPy")
                         .LaunchedOnly()
                         .Validate<&CheckNarrowMatmul>(),
                     CARILLON_NARROW_MATMUL_PARAMS);
CARILLON_KERNEL_INFO(
    matmul_shared, NarrowMatmulArgs,
    "product of two small matrices through shared memory: a narrow task",
    simt::Registers(32)
        .From("CUDA samples matrixMul (Pagoda: MM)")
        .Oracle("NumPy, SciPy")
        .Shared(3 * kNarrowTileBytes)
        .LeavesTogether()
        .Validate<&CheckNarrowMatmul>(),
    CARILLON_NARROW_MATMUL_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_MATMUL_CUH_
