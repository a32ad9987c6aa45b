// Reference results of EDGE's background kernels. They are computed one
// number at a time, in double precision where the kernels have their own order
// of additions. For the kernels' tests and for other programs that run them.
#ifndef CARILLON_KERNELS_BACKGROUND_EDGE_REFERENCES_H_
#define CARILLON_KERNELS_BACKGROUND_EDGE_REFERENCES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/background/types.h"

namespace carillon::kernels::reference {

// The number of edges from the source to each node; kUnreached if no path
// exists.
inline constexpr uint32_t kUnreached = 0xffffffff;
std::vector<uint32_t> BfsDistances(std::span<const BfsNode> nodes,
                                   std::span<const uint32_t> edges,
                                   uint32_t source);

// bp_forward's partial sums, added in the inputs' order.
std::vector<float> BpPartialSums(std::span<const float> input,
                                 std::span<const float> weights);
struct BpLayer {
  std::vector<double> weights, changes;
};
BpLayer BpAdjusted(std::span<const float> delta, std::span<const float> input,
                   std::span<const float> weights,
                   std::span<const float> changes);

struct ConvShape {
  uint32_t colours, image_size, filter_size, stride, images, filters;

  uint32_t side() const { return (image_size - filter_size) / stride + 1; }
};
std::vector<float> Convolved(const ConvShape& shape,
                             std::span<const float> images,
                             std::span<const float> filters);

// One step of a whole chip.
std::vector<double> HotspotStep(std::span<const float> power,
                                std::span<const double> from, uint32_t rows,
                                uint32_t columns,
                                const HotspotCoefficients& coefficients);

struct Picture {
  std::span<const float> pixels;
  uint32_t width;
  uint32_t height;

  // A pixel; outside of the picture, the nearest one at its edge.
  float at(int x, int y) const;
};
// The normalised correlation, -1..1, of a square pattern with the picture
// around (x, y); -1 if either is uniform.
double HeartwallScore(const Picture& picture, std::span<const float> pattern,
                      uint32_t size, int x, int y);
struct HeartwallMatch {
  HeartwallPlace place;
  double score;
};
// The best of search * search places around `was`; among equals, the first.
HeartwallMatch HeartwallBest(const Picture& picture,
                             std::span<const float> pattern, uint32_t size,
                             uint32_t search, HeartwallPlace was);

// The nearest centre of every point; among equals, the first.
std::vector<uint32_t> KmnNearest(std::span<const float> by_point,
                                 std::span<const float> centres,
                                 uint32_t features);

// L * U of an in-place decomposition, and one element of it.
double LudProductAt(std::span<const float> matrix, uint32_t n, size_t row,
                    size_t column);
std::vector<double> LudProduct(std::span<const float> matrix, uint32_t n);

// The squared distance between points whose coordinates are stored by
// dimension.
float ScDistance(std::span<const float> coordinates, uint32_t dimensions,
                 uint32_t a, uint32_t b);
struct ScResult {
  std::vector<float> gains;
  std::vector<uint8_t> switches;
};
// `gains` are the values before.
ScResult ScGains(std::span<const ScPoint> points,
                 std::span<const float> coordinates,
                 std::span<const uint32_t> centre_table,
                 std::span<const float> gains, uint32_t dimensions,
                 uint32_t centres, uint32_t candidate);

// The coefficients of the diffusion, and one iteration of it.
std::vector<double> SradCoefficients(std::span<const double> image,
                                     uint32_t rows, uint32_t columns,
                                     double q0_squared);
std::vector<double> SradDiffused(std::span<const double> image, uint32_t rows,
                                 uint32_t columns, double q0_squared,
                                 double lambda);

}  // namespace carillon::kernels::reference

#endif  // CARILLON_KERNELS_BACKGROUND_EDGE_REFERENCES_H_
