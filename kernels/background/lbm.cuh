// lbm: one step of a lattice Boltzmann fluid with 19 directions in three
// dimensions (D3Q19), with the collisions of Bhatnagar, Gross and Krook (Qian,
// d'Humieres and Lallemand, 1992). A cell takes from its neighbours what moves
// towards it, and mixes it:
//
//   f(i) += omega * (equilibrium(i) - f(i))
//   equilibrium(i) = weight(i) * density *
//                    (1 + 3 c(i).u + 4.5 (c(i).u)^2 - 1.5 u.u)
//
// Space is periodic. What moves towards a solid cell comes back, so mass is
// conserved. Threads of a block are cells of a row.
#ifndef CARILLON_KERNELS_BACKGROUND_LBM_CUH_
#define CARILLON_KERNELS_BACKGROUND_LBM_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kLbmDirections = 19;

// Directions follow each other as (0, 0, 0), then pairs of opposite ones:
//
//    1,  2  +-x       7,  8  +-(x + y)    13, 14  +-(x - z)
//    3,  4  +-y       9, 10  +-(x - y)    15, 16  +-(y + z)
//    5,  6  +-z      11, 12  +-(x + z)    17, 18  +-(y - z)
struct LbmArgs {
  simt::Span<const float> from;  // 19 * cells, direction by direction
  simt::Span<float> to;
  simt::Span<const uint8_t> solid;  // whether a cell is
  uint32_t width;
  uint32_t height;
  uint32_t depth;
  float omega;
};

CARILLON_HOST_DEVICE bool LbmFits(const LbmArgs& args) {
  constexpr uint32_t kMost = 1u << 16;
  if (args.width > kMost || args.height > kMost || args.depth > kMost) {
    return false;
  }
  // The kernel counts in 32 bits.
  const uint64_t cells =
      static_cast<uint64_t>(args.width) * args.height * args.depth;
  return cells <= 0xffffffff / kLbmDirections && args.solid.size >= cells &&
         args.from.size >= cells * kLbmDirections &&
         args.to.size >= cells * kLbmDirections;
}

CARILLON_KERNEL(lbm, LbmArgs, args, self) {
  if (self.block_dim().y != 1 || self.block_dim().z != 1) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  if (!LbmFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t column = self.global_x();
  const uint32_t y = self.block_index().y;
  const uint32_t z = self.block_index().z;
  if (column >= args.width || y >= args.height || z >= args.depth) return;
  const uint32_t x = static_cast<uint32_t>(column);
  const uint32_t cells = args.width * args.height * args.depth;
  const uint32_t cell = (z * args.height + y) * args.width + x;
  if (args.solid[cell] != 0) {
    for (uint32_t i = 0; i < kLbmDirections; ++i) {
      args.to[i * cells + cell] = args.from[i * cells + cell];
    }
    return;
  }
  const uint32_t xs[3] = {x == 0 ? args.width - 1 : x - 1, x,
                          x + 1 == args.width ? 0 : x + 1};
  const uint32_t ys[3] = {y == 0 ? args.height - 1 : y - 1, y,
                          y + 1 == args.height ? 0 : y + 1};
  const uint32_t zs[3] = {z == 0 ? args.depth - 1 : z - 1, z,
                          z + 1 == args.depth ? 0 : z + 1};
  // Of the first of each pair.
  constexpr int32_t kX[9] = {1, 0, 0, 1, 1, 1, 1, 0, 0};
  constexpr int32_t kY[9] = {0, 1, 0, 1, -1, 0, 0, 1, 1};
  constexpr int32_t kZ[9] = {0, 0, 1, 0, 0, 1, -1, 1, -1};

  float f[kLbmDirections];
  f[0] = args.from[cell];
  float density = f[0];
  float momentum_x = 0.0f;
  float momentum_y = 0.0f;
  float momentum_z = 0.0f;
  CARILLON_UNROLL
  for (int32_t pair = 0; pair < 9; ++pair) {
    const uint32_t forth = 1 + 2 * static_cast<uint32_t>(pair);
    const uint32_t back = forth + 1;
    const uint32_t before =
        (zs[1 - kZ[pair]] * args.height + ys[1 - kY[pair]]) * args.width +
        xs[1 - kX[pair]];
    const uint32_t behind =
        (zs[1 + kZ[pair]] * args.height + ys[1 + kY[pair]]) * args.width +
        xs[1 + kX[pair]];
    f[forth] = args.solid[before] != 0 ? args.from[back * cells + cell]
                                       : args.from[forth * cells + before];
    f[back] = args.solid[behind] != 0 ? args.from[forth * cells + cell]
                                      : args.from[back * cells + behind];
    density += f[forth] + f[back];
    const float flow = f[forth] - f[back];
    momentum_x += static_cast<float>(kX[pair]) * flow;
    momentum_y += static_cast<float>(kY[pair]) * flow;
    momentum_z += static_cast<float>(kZ[pair]) * flow;
  }
  const float by_density = 1.0f / density;
  const float ux = momentum_x * by_density;
  const float uy = momentum_y * by_density;
  const float uz = momentum_z * by_density;
  const float still = 1.0f - 1.5f * (ux * ux + uy * uy + uz * uz);
  args.to[cell] = f[0] + args.omega * (density * (1.0f / 3.0f) * still - f[0]);
  CARILLON_UNROLL
  for (int32_t pair = 0; pair < 9; ++pair) {
    const uint32_t forth = 1 + 2 * static_cast<uint32_t>(pair);
    const uint32_t back = forth + 1;
    const float along = static_cast<float>(kX[pair]) * ux +
                        static_cast<float>(kY[pair]) * uy +
                        static_cast<float>(kZ[pair]) * uz;
    const float part = density * (pair < 3 ? 1.0f / 18.0f : 1.0f / 36.0f);
    const float even = still + 4.5f * along * along;
    args.to[forth * cells + cell] =
        f[forth] + args.omega * (part * (even + 3.0f * along) - f[forth]);
    args.to[back * cells + cell] =
        f[back] + args.omega * (part * (even - 3.0f * along) - f[back]);
  }
}

inline const char* CheckLbmShape(const simt::LaunchShape& shape) {
  return shape.block.y == 1 && shape.block.z == 1
             ? nullptr
             : "blocks have n x 1 x 1 threads, cells of a row";
}

inline const char* CheckLbm(const simt::LaunchShape& shape,
                            const LbmArgs& args) {
  if (!LbmFits(args)) {
    return "width, height and depth must be at most 65536, cells (their "
           "product) at most 2^32 / 19; solid must have an element a cell, "
           "from and to 19";
  }
  if (static_cast<uint64_t>(shape.grid.x) * shape.block.x < args.width ||
      shape.grid.y < args.height || shape.grid.z < args.depth) {
    return "the grid must cover the cells: ceil(width / block) x height x "
           "depth blocks";
  }
  return CheckLbmShape(shape);
}

CARILLON_KERNEL_INFO(
    lbm, LbmArgs, "a step of a lattice Boltzmann fluid, D3Q19",
    simt::Registers(44)
        .From("Qian et al. 1992, Parboil lbm (PEP: LBM)")
        .Oracle("NumPy, SciPy")
        .Shape<&CheckLbmShape>()
        .Validate<&CheckLbm>(),
    CARILLON_PARAM(LbmArgs, from,
                   "19 * cells elements, direction by direction"),
    CARILLON_PARAM(LbmArgs, to, "receives them, after the step"),
    CARILLON_PARAM(LbmArgs, solid, "not 0 for a cell that is a wall"),
    CARILLON_PARAM(LbmArgs, width, "cells in a row"),
    CARILLON_PARAM(LbmArgs, height, "rows in a plane"),
    CARILLON_PARAM(LbmArgs, depth, "planes"),
    CARILLON_PARAM(LbmArgs, omega, "1 / the relaxation time, 0 to 2"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_LBM_CUH_
