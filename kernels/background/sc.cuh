// sc: streamcluster's search for a better centre, as in Rodinia: how much
// would every point gain if `candidate` became a centre, and how much would
// each open centre lose? A background kernel of EDGE's figures.
#ifndef CARILLON_KERNELS_BACKGROUND_SC_CUH_
#define CARILLON_KERNELS_BACKGROUND_SC_CUH_

#include "kernels/background/types.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kScBlock = 512;

// A point or a table that names what is not there fails the event with this.
inline constexpr uint32_t kScBadPoint = 16;

struct ScArgs {
  simt::Span<const ScPoint> points;
  simt::Span<const float> coordinates;  // dimension by dimension
  simt::Span<const uint32_t>
      centre_table;         // number of a point that is a centre
  simt::Span<float> gains;  // a row of centres + 1 a point
  simt::Span<uint8_t> switches;
  uint32_t dimensions;
  uint32_t centres;
  uint32_t candidate;
};

CARILLON_HOST_DEVICE bool ScFits(const ScArgs& args) {
  // More points could not be numbered; the limit also keeps the products below
  // in 64 bits.
  const uint64_t points = args.points.size;
  if (points > 0xffffffff) return false;
  return args.candidate < points &&
         args.coordinates.size >= points * args.dimensions &&
         args.centre_table.size >= points && args.switches.size >= points &&
         args.gains.size / (static_cast<uint64_t>(args.centres) + 1) >= points;
}

// If a point gains from the candidate, switches[point] becomes 1 and the last
// number of its row falls by the gain. Otherwise its loss is added to the
// number of its centre.
CARILLON_KERNEL(sc, ScArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kScBlock, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  if (!ScFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t count = args.points.size;
  const uint64_t i = self.global_linear();
  if (i >= count) return;
  float distance = 0.0f;
  for (uint32_t d = 0; d < args.dimensions; ++d) {
    const float* row = args.coordinates.data + d * count;
    const float apart = row[i] - row[args.candidate];
    distance += apart * apart;
  }
  const ScPoint point = args.points[i];
  const float cost = distance * point.weight;
  float* gains =
      args.gains.data + i * (static_cast<uint64_t>(args.centres) + 1);
  if (cost < point.cost) {
    args.switches[i] = 1;
    gains[args.centres] += cost - point.cost;
    return;
  }
  if (point.centre >= count ||
      args.centre_table[point.centre] >= args.centres) {
    self.Fail(kScBadPoint);
    return;
  }
  gains[args.centre_table[point.centre]] += point.cost - cost;
}

inline const char* CheckScShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kScBlock, 1, 1}
             ? nullptr
             : "blocks have 512x1x1 threads, one a point";
}

inline const char* CheckSc(const simt::LaunchShape& shape, const ScArgs& args) {
  if (!ScFits(args)) {
    return "candidate must be a point; coordinates points * dimensions "
           "elements, centre_table and switches points, gains points * "
           "(centres + 1)";
  }
  if (shape.grid.count() < (args.points.size + kScBlock - 1) / kScBlock) {
    return "the grid must cover the points: ceil(points / 512) blocks";
  }
  return CheckScShape(shape);
}

CARILLON_KERNEL_INFO(
    sc, ScArgs, "what a candidate centre would give to each point",
    simt::Registers(32)
        .From("Rodinia streamcluster (EDGE: SC)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Shape<&CheckScShape>()
        .Validate<&CheckSc>(),
    CARILLON_PARAM(ScArgs, points, "weight, cost and centre of each"),
    CARILLON_PARAM(ScArgs, coordinates,
                   "points * dimensions elements, dimension by dimension"),
    CARILLON_PARAM(ScArgs, centre_table,
                   "the number of each point that is a centre"),
    CARILLON_PARAM(ScArgs, gains,
                   "centres + 1 numbers a point, to be added to"),
    CARILLON_PARAM(ScArgs, switches,
                   "becomes 1 for points that the candidate is better for"),
    CARILLON_PARAM(ScArgs, dimensions, "of the points"),
    CARILLON_PARAM(ScArgs, centres, "that are open"),
    CARILLON_PARAM(ScArgs, candidate, "the point that may become one"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_SC_CUH_
