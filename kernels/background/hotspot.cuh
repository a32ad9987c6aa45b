// hotspot: the temperature of a chip as in Rodinia's hotspot, one or two time
// steps per launch. A block of 16x16 threads loads a tile and works on it
// alone, so each step makes one more ring of the tile invalid; the block writes
// the 12x12 cells in its middle. A background kernel of EDGE's figures.
#ifndef CARILLON_KERNELS_BACKGROUND_HOTSPOT_CUH_
#define CARILLON_KERNELS_BACKGROUND_HOTSPOT_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr int32_t kHotspotBlock = 16;
inline constexpr int32_t kHotspotSteps = 2;  // at most, a launch
inline constexpr int32_t kHotspotUseful = kHotspotBlock - 2 * kHotspotSteps;
inline constexpr uint32_t kHotspotTile = kHotspotBlock * kHotspotBlock;
inline constexpr float kHotspotAmbient = 80.0f;

struct HotspotArgs {
  simt::Span<const float> power;
  simt::Span<const float> from;
  simt::Span<float> to;
  uint32_t rows;
  uint32_t columns;
  uint32_t steps;
  float step_by_capacity;
  float by_rx;  // 1 / thermal resistance, in each direction
  float by_ry;
  float by_rz;
};

CARILLON_HOST_DEVICE bool HotspotFits(const HotspotArgs& args) {
  const uint64_t cells = static_cast<uint64_t>(args.rows) * args.columns;
  return args.rows <= 1u << 24 && args.columns <= 1u << 24 && args.steps >= 1 &&
         args.steps <= kHotspotSteps && args.power.size >= cells &&
         args.from.size >= cells && args.to.size >= cells;
}

CARILLON_BARRIER_KERNEL(hotspot, HotspotArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kHotspotBlock, kHotspotBlock, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!HotspotFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t first_row =
      static_cast<uint64_t>(self.block_index().y) * kHotspotUseful;
  const uint64_t first_column =
      static_cast<uint64_t>(self.block_index().x) * kHotspotUseful;
  if (first_row >= args.rows || first_column >= args.columns) CARILLON_EXIT;
  // The first blocks' tiles start outside of the chip.
  const int32_t top = static_cast<int32_t>(first_row) - kHotspotSteps;
  const int32_t left = static_cast<int32_t>(first_column) - kHotspotSteps;
  const int32_t rows = static_cast<int32_t>(args.rows);
  const int32_t columns = static_cast<int32_t>(args.columns);
  const int32_t x = static_cast<int32_t>(self.thread_index().x);
  const int32_t y = static_cast<int32_t>(self.thread_index().y);
  const int32_t row = top + y;
  const int32_t column = left + x;
  const uint32_t bytes = kHotspotTile * sizeof(float);
  float* now = self.shared<float>(0, kHotspotTile);
  float* power = self.shared<float>(bytes, kHotspotTile);
  float* next = self.shared<float>(2 * bytes, kHotspotTile);

  const uint32_t at = self.linear();
  const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
  const uint64_t cell = inside ? static_cast<uint64_t>(row) * args.columns +
                                     static_cast<uint64_t>(column)
                               : 0;
  if (inside) {
    now[at] = args.from[cell];
    power[at] = args.power[cell];
  }
  CARILLON_SYNC_THREADS(self);

  // A cell at the chip's edge is its own neighbour.
  const uint32_t north = row > 0 ? at - kHotspotBlock : at;
  const uint32_t south = row < rows - 1 ? at + kHotspotBlock : at;
  const uint32_t west = column > 0 ? at - 1 : at;
  const uint32_t east = column < columns - 1 ? at + 1 : at;
  const int32_t steps = static_cast<int32_t>(args.steps);
  for (int32_t step = 0; step < steps; ++step) {
    const bool computed = inside && x > step && x < kHotspotBlock - 1 - step &&
                          y > step && y < kHotspotBlock - 1 - step;
    if (computed) {
      const float here = now[at];
      next[at] =
          here + args.step_by_capacity *
                     (power[at] +
                      (now[south] + now[north] - 2.0f * here) * args.by_ry +
                      (now[east] + now[west] - 2.0f * here) * args.by_rx +
                      (kHotspotAmbient - here) * args.by_rz);
    }
    CARILLON_SYNC_THREADS(self);
    if (step == steps - 1) break;
    if (computed) now[at] = next[at];
    CARILLON_SYNC_THREADS(self);
  }
  if (inside && x >= kHotspotSteps && x < kHotspotSteps + kHotspotUseful &&
      y >= kHotspotSteps && y < kHotspotSteps + kHotspotUseful) {
    args.to[cell] = next[at];
  }
}

inline const char* CheckHotspotShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kHotspotBlock, kHotspotBlock, 1}
             ? nullptr
             : "blocks have 16x16x1 threads, of which 12x12 write a cell";
}

inline const char* CheckHotspot(const simt::LaunchShape& shape,
                                const HotspotArgs& args) {
  if (!HotspotFits(args)) {
    return "power, from and to must have rows * columns elements, both at most "
           "2^24; steps must be 1 or 2";
  }
  if (static_cast<uint64_t>(shape.grid.x) * kHotspotUseful < args.columns ||
      static_cast<uint64_t>(shape.grid.y) * kHotspotUseful < args.rows) {
    return "the grid must cover the chip: ceil(columns / 12) x ceil(rows / 12) "
           "blocks";
  }
  return CheckHotspotShape(shape);
}

CARILLON_KERNEL_INFO(
    hotspot, HotspotArgs, "one or two steps of a chip's temperature",
    simt::Registers(23)
        .From("Rodinia hotspot (EDGE: HOTSP)")
        .Oracle("NumPy, SciPy")
        .Shared(3 * kHotspotTile * sizeof(float))
        .LeavesTogether()
        .Shape<&CheckHotspotShape>()
        .Validate<&CheckHotspot>(),
    CARILLON_PARAM(HotspotArgs, power, "rows * columns elements"),
    CARILLON_PARAM(HotspotArgs, from, "the temperature of each cell"),
    CARILLON_PARAM(HotspotArgs, to, "receives it, after the steps"),
    CARILLON_PARAM(HotspotArgs, rows, "of the chip"),
    CARILLON_PARAM(HotspotArgs, columns, "of the chip"),
    CARILLON_PARAM(HotspotArgs, steps, "1 or 2"),
    CARILLON_PARAM(HotspotArgs, step_by_capacity,
                   "a step's length by a cell's capacity"),
    CARILLON_PARAM(HotspotArgs, by_rx, "1 / resistance to left and right"),
    CARILLON_PARAM(HotspotArgs, by_ry, "1 / resistance to above and below"),
    CARILLON_PARAM(HotspotArgs, by_rz, "1 / resistance to the outside"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_HOTSPOT_CUH_
