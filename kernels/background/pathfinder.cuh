// pathfinder: some steps of the dynamic programme that finds the cheapest way
// down a grid of costs, on which each step goes to one of the three cells below:
//
//   to[row][x] = cost[row][x] + min(to[row - 1][x - 1 .. x + 1])
//
// A block of 256 threads loads as many cells of the first row and works on them
// alone, so each step makes one more cell at either end invalid; the block
// writes the 256 - 2 * steps cells in its middle.
#ifndef CARILLON_KERNELS_BACKGROUND_PATHFINDER_CUH_
#define CARILLON_KERNELS_BACKGROUND_PATHFINDER_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kPathfinderBlock = 256;
inline constexpr uint32_t kPathfinderSteps = 100;  // at most, a launch

struct PathfinderArgs {
  simt::Span<const int32_t> costs;  // steps * columns, row by row
  simt::Span<const int32_t> from;   // the cheapest way to each cell
  simt::Span<int32_t> to;           // the same, `steps` rows on
  uint32_t columns;
  uint32_t steps;
};

CARILLON_HOST_DEVICE bool PathfinderFits(const PathfinderArgs& args) {
  return args.columns <= 1u << 30 && args.steps <= kPathfinderSteps &&
         args.costs.size >= static_cast<uint64_t>(args.columns) * args.steps &&
         args.from.size >= args.columns && args.to.size >= args.columns;
}
// The cells that a block writes.
CARILLON_HOST_DEVICE uint32_t PathfinderUseful(uint32_t steps) {
  return kPathfinderBlock - 2 * steps;
}

CARILLON_BARRIER_KERNEL(pathfinder, PathfinderArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kPathfinderBlock, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!PathfinderFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const int32_t steps = static_cast<int32_t>(args.steps);
  const uint64_t first = static_cast<uint64_t>(self.block_index().x) *
                         PathfinderUseful(args.steps);
  if (first >= args.columns) CARILLON_EXIT;
  int32_t* now = self.shared<int32_t>(0, kPathfinderBlock);
  int32_t* next = self.shared<int32_t>(kPathfinderBlock * sizeof(int32_t),
                                       kPathfinderBlock);
  const int32_t at = static_cast<int32_t>(self.linear());
  // The first block's cells begin outside of the grid.
  const int32_t x = static_cast<int32_t>(first) - steps + at;
  const int32_t columns = static_cast<int32_t>(args.columns);
  const bool inside = x >= 0 && x < columns;
  if (inside) now[at] = args.from[static_cast<uint32_t>(x)];
  CARILLON_SYNC_THREADS(self);
  // At the grid's edges there are two cells above.
  const int32_t west = x > 0 ? at - 1 : at;
  const int32_t east = x < columns - 1 ? at + 1 : at;
  constexpr int32_t kLast = static_cast<int32_t>(kPathfinderBlock) - 1;
  for (int32_t step = 0; step < steps; ++step) {
    const bool computed = inside && at > step && at < kLast - step;
    if (computed) {
      int32_t least = now[at];
      if (now[west] < least) least = now[west];
      if (now[east] < least) least = now[east];
      next[at] = least + args.costs[static_cast<uint64_t>(step) * args.columns +
                                    static_cast<uint32_t>(x)];
    }
    CARILLON_SYNC_THREADS(self);
    if (computed) now[at] = next[at];
    CARILLON_SYNC_THREADS(self);
  }
  if (inside && at >= steps && at <= kLast - steps) {
    args.to[static_cast<uint32_t>(x)] = now[at];
  }
}

inline const char* CheckPathfinderShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kPathfinderBlock, 1, 1}
             ? nullptr
             : "blocks have 256x1x1 threads, of which 256 - 2 * steps write a "
               "cell";
}

inline const char* CheckPathfinder(const simt::LaunchShape& shape,
                                   const PathfinderArgs& args) {
  if (!PathfinderFits(args)) {
    return "columns must be at most 2^30, steps at most 100; costs must have "
           "columns * steps elements, from and to columns";
  }
  if (static_cast<uint64_t>(shape.grid.x) * PathfinderUseful(args.steps) <
      args.columns) {
    return "the grid must cover the columns: ceil(columns / (256 - 2 * steps)) "
           "blocks";
  }
  return CheckPathfinderShape(shape);
}

CARILLON_KERNEL_INFO(
    pathfinder, PathfinderArgs, "steps of the cheapest way down a grid",
    simt::Registers(16)
        .From("Rodinia pathfinder (PEP: PF)")
        .Oracle("NumPy, SciPy")
        .Shared(2 * kPathfinderBlock * sizeof(int32_t))
        .LeavesTogether()
        .Shape<&CheckPathfinderShape>()
        .Validate<&CheckPathfinder>(),
    CARILLON_PARAM(PathfinderArgs, costs, "columns * steps cells, by row"),
    CARILLON_PARAM(PathfinderArgs, from, "the cost of the way to each column"),
    CARILLON_PARAM(PathfinderArgs, to, "receives it, after the steps"),
    CARILLON_PARAM(PathfinderArgs, columns, "of the grid"),
    CARILLON_PARAM(PathfinderArgs, steps, "rows to go down, at most 100"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_PATHFINDER_CUH_
