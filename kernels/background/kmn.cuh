// kmn_invert, kmn_point: k-means as Rodinia has it: one kernel turns
// the points' features so that neighbouring threads read neighbouring words,
// the other gives each point its nearest centre. Background kernels of EDGE's
// figures.
#ifndef CARILLON_KERNELS_BACKGROUND_KMN_CUH_
#define CARILLON_KERNELS_BACKGROUND_KMN_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kKmnBlock = 256;

struct KmnInvertArgs {
  simt::Span<const float> by_point;
  simt::Span<float> by_feature;
  uint32_t points;
  uint32_t features;
};

struct KmnPointArgs {
  simt::Span<const float> by_feature;
  simt::Span<const float> centres;  // a centre after the other
  simt::Span<uint32_t> membership;
  uint32_t points;
  uint32_t features;
  uint32_t clusters;
};

inline const char* CheckKmnShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kKmnBlock, 1, 1}
             ? nullptr
             : "blocks have 256x1x1 threads, one a point";
}

CARILLON_KERNEL(kmn_invert, KmnInvertArgs, args, self) {
  const uint64_t points = args.points;
  if (self.block_dim() != simt::Dim3{kKmnBlock, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  if (args.by_point.size < points * args.features ||
      args.by_feature.size < points * args.features) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t point = self.global_linear();
  if (point >= points) return;
  for (uint32_t f = 0; f < args.features; ++f) {
    args.by_feature[f * points + point] =
        args.by_point[point * args.features + f];
  }
}

inline const char* CheckKmnInvert(const simt::LaunchShape& shape,
                                  const KmnInvertArgs& args) {
  const uint64_t elements = static_cast<uint64_t>(args.points) * args.features;
  if (args.by_point.size < elements || args.by_feature.size < elements) {
    return "by_point and by_feature must have points * features elements";
  }
  if (shape.grid.count() <
      (args.points + uint64_t{kKmnBlock} - 1) / kKmnBlock) {
    return "the grid must cover the points: ceil(points / 256) blocks";
  }
  return CheckKmnShape(shape);
}

CARILLON_KERNEL_INFO(
    kmn_invert, KmnInvertArgs, "transposes the features of points",
    simt::Registers(32)
        .From("Rodinia kmeans (EDGE: KMN)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Shape<&CheckKmnShape>()
        .Validate<&CheckKmnInvert>(),
    CARILLON_PARAM(KmnInvertArgs, by_point,
                   "points * features elements, point by point"),
    CARILLON_PARAM(KmnInvertArgs, by_feature,
                   "receives them feature by feature"),
    CARILLON_PARAM(KmnInvertArgs, points, "how many"),
    CARILLON_PARAM(KmnInvertArgs, features, "of a point"));

CARILLON_KERNEL(kmn_point, KmnPointArgs, args, self) {
  const uint64_t points = args.points;
  if (self.block_dim() != simt::Dim3{kKmnBlock, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  if (args.by_feature.size < points * args.features ||
      args.centres.size <
          static_cast<uint64_t>(args.clusters) * args.features ||
      args.membership.size < points) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t point = self.global_linear();
  if (point >= points) return;
  float nearest = 3.4e38f;
  uint32_t member = 0;
  for (uint32_t cluster = 0; cluster < args.clusters; ++cluster) {
    const float* centre =
        args.centres.data + static_cast<uint64_t>(cluster) * args.features;
    float distance = 0.0f;
    for (uint32_t f = 0; f < args.features; ++f) {
      const float apart = args.by_feature[f * points + point] - centre[f];
      distance += apart * apart;
    }
    if (distance < nearest) {
      nearest = distance;
      member = cluster;
    }
  }
  args.membership[point] = member;
}

inline const char* CheckKmnPoint(const simt::LaunchShape& shape,
                                 const KmnPointArgs& args) {
  if (args.by_feature.size <
          static_cast<uint64_t>(args.points) * args.features ||
      args.centres.size <
          static_cast<uint64_t>(args.clusters) * args.features ||
      args.membership.size < args.points) {
    return "by_feature must have points * features elements, centres clusters "
           "* features, membership points";
  }
  if (shape.grid.count() <
      (args.points + uint64_t{kKmnBlock} - 1) / kKmnBlock) {
    return "the grid must cover the points: ceil(points / 256) blocks";
  }
  return CheckKmnShape(shape);
}

CARILLON_KERNEL_INFO(
    kmn_point, KmnPointArgs, "the nearest centre of every point",
    simt::Registers(32)
        .From("Rodinia kmeans (EDGE: KMN)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Shape<&CheckKmnShape>()
        .Validate<&CheckKmnPoint>(),
    CARILLON_PARAM(KmnPointArgs, by_feature,
                   "points * features elements, feature by feature"),
    CARILLON_PARAM(KmnPointArgs, centres,
                   "clusters * features elements, centre by centre"),
    CARILLON_PARAM(KmnPointArgs, membership,
                   "receives the number of each point's centre"),
    CARILLON_PARAM(KmnPointArgs, points, "how many"),
    CARILLON_PARAM(KmnPointArgs, features, "of a point"),
    CARILLON_PARAM(KmnPointArgs, clusters, "how many centres"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_KMN_CUH_
