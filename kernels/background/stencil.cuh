// stencil: one Jacobi step of a heat equation, 7 points in three dimensions:
//
//   out = around * (sum of the six neighbours) - centre * here
//
// Cells on the surface keep their values. A block of 32x4 threads has 64x4
// columns, two a thread, and goes through the planes: the current plane's
// cells lie in shared memory, those below and above in registers.
#ifndef CARILLON_KERNELS_BACKGROUND_STENCIL_CUH_
#define CARILLON_KERNELS_BACKGROUND_STENCIL_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kStencilX = 32;
inline constexpr uint32_t kStencilY = 4;
inline constexpr uint32_t kStencilColumns = 2;  // a thread
inline constexpr uint32_t kStencilRow = kStencilX * kStencilColumns;
inline constexpr uint32_t kStencilTile = kStencilRow * kStencilY;

struct StencilArgs {
  simt::Span<const float> in;  // plane by plane, row by row
  simt::Span<float> out;
  uint32_t width;
  uint32_t height;
  uint32_t depth;
  float centre;
  float around;
};

CARILLON_HOST_DEVICE bool StencilFits(const StencilArgs& args) {
  constexpr uint32_t kMost = 1u << 20;
  if (args.width > kMost || args.height > kMost || args.depth > kMost) {
    return false;
  }
  const uint64_t cells =
      static_cast<uint64_t>(args.width) * args.height * args.depth;
  return args.in.size >= cells && args.out.size >= cells;
}

CARILLON_BARRIER_KERNEL(stencil, StencilArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kStencilX, kStencilY, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!StencilFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t left =
      static_cast<uint64_t>(self.block_index().x) * kStencilRow;
  const uint64_t top = static_cast<uint64_t>(self.block_index().y) * kStencilY;
  if (left >= args.width || top >= args.height || args.depth == 0) {
    CARILLON_EXIT;
  }
  float* tile = self.shared<float>(0, kStencilTile);
  const uint32_t thread_x = self.thread_index().x;
  const uint32_t thread_y = self.thread_index().y;
  const uint64_t width = args.width;
  const uint64_t plane = width * args.height;
  const uint64_t y = top + thread_y;
  const bool row_inside = y < args.height;
  const bool row_within = y > 0 && y + 1 < args.height;

  float below[kStencilColumns];
  float here[kStencilColumns];
  float above[kStencilColumns];
  CARILLON_UNROLL
  for (uint32_t c = 0; c < kStencilColumns; ++c) {
    const uint64_t x = left + thread_x + c * kStencilX;
    below[c] = 0.0f;
    here[c] = row_inside && x < width ? args.in[y * width + x] : 0.0f;
  }
  for (uint32_t z = 0; z < args.depth; ++z) {
    CARILLON_UNROLL
    for (uint32_t c = 0; c < kStencilColumns; ++c) {
      const uint32_t at = thread_x + c * kStencilX;
      const uint64_t x = left + at;
      above[c] = row_inside && x < width && z + 1 < args.depth
                     ? args.in[(z + 1) * plane + y * width + x]
                     : 0.0f;
      tile[thread_y * kStencilRow + at] = here[c];
    }
    CARILLON_SYNC_THREADS(self);
    CARILLON_UNROLL
    for (uint32_t c = 0; c < kStencilColumns; ++c) {
      const uint32_t at = thread_x + c * kStencilX;
      const uint64_t x = left + at;
      const uint64_t cell = z * plane + y * width + x;
      if (row_inside && x < width) {
        if (row_within && x > 0 && x + 1 < width && z > 0 &&
            z + 1 < args.depth) {
          const uint32_t in_tile = thread_y * kStencilRow + at;
          // The neighbours of the tile's edge are another block's.
          const float west = at > 0 ? tile[in_tile - 1] : args.in[cell - 1];
          const float east =
              at + 1 < kStencilRow ? tile[in_tile + 1] : args.in[cell + 1];
          const float north = thread_y > 0 ? tile[in_tile - kStencilRow]
                                           : args.in[cell - width];
          const float south = thread_y + 1 < kStencilY
                                  ? tile[in_tile + kStencilRow]
                                  : args.in[cell + width];
          args.out[cell] = args.around * (below[c] + above[c] + north + south +
                                          west + east) -
                           args.centre * here[c];
        } else {
          args.out[cell] = here[c];
        }
      }
      below[c] = here[c];
      here[c] = above[c];
    }
    CARILLON_SYNC_THREADS(self);
  }
}

inline const char* CheckStencilShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kStencilX, kStencilY, 1}
             ? nullptr
             : "blocks have 32x4x1 threads, each of which has two columns";
}

inline const char* CheckStencil(const simt::LaunchShape& shape,
                                const StencilArgs& args) {
  if (!StencilFits(args)) {
    return "width, height and depth must be at most 2^20, in and out must have "
           "width * height * depth elements";
  }
  if (static_cast<uint64_t>(shape.grid.x) * kStencilRow < args.width ||
      static_cast<uint64_t>(shape.grid.y) * kStencilY < args.height) {
    return "the grid must cover a plane: ceil(width / 64) x ceil(height / 4) "
           "blocks";
  }
  return CheckStencilShape(shape);
}

CARILLON_KERNEL_INFO(
    stencil, StencilArgs, "a step of a heat equation in three dimensions",
    simt::Registers(39)
        .From("Parboil stencil (PEP: ST)")
        .Oracle("NumPy, SciPy")
        .Shared(kStencilTile * sizeof(float))
        .LeavesTogether()
        .Shape<&CheckStencilShape>()
        .Validate<&CheckStencil>(),
    CARILLON_PARAM(StencilArgs, in, "width * height * depth cells, by row"),
    CARILLON_PARAM(StencilArgs, out, "receives the cells after the step"),
    CARILLON_PARAM(StencilArgs, width, "cells in a row"),
    CARILLON_PARAM(StencilArgs, height, "rows in a plane"),
    CARILLON_PARAM(StencilArgs, depth, "planes"),
    CARILLON_PARAM(StencilArgs, centre, "a cell's factor, subtracted"),
    CARILLON_PARAM(StencilArgs, around, "the six neighbours' factor"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_STENCIL_CUH_
