// What the background kernels of the figures compute, by definition: plain, a
// number at a time, in double precision where the kernels' order of additions
// is their own. For the kernels' tests and for whoever runs them elsewhere.
#ifndef CARILLON_KERNELS_PAPER_REFERENCES_H_
#define CARILLON_KERNELS_PAPER_REFERENCES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/paper/fig_bfs.cuh"
#include "kernels/paper/fig_bp.cuh"
#include "kernels/paper/fig_hotsp.cuh"
#include "kernels/paper/fig_hrtwl.cuh"
#include "kernels/paper/fig_sc.cuh"

namespace carillon::kernels::reference {

// Edges from the source to each node; kUnreached where there is no way.
inline constexpr uint32_t kUnreached = 0xffffffff;
std::vector<uint32_t> BfsDistances(std::span<const FigBfsNode> nodes,
                                   std::span<const uint32_t> edges,
                                   uint32_t source);

// fig_bp_forward's partial sums, added in the inputs' order.
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
// [filter][module][image]
std::vector<float> Convolved(const ConvShape& shape,
                             std::span<const float> images,
                             std::span<const float> filters);

// One step of a whole chip; of the arguments only the coefficients count.
std::vector<double> HotspStep(std::span<const float> power,
                              std::span<const double> from, uint32_t rows,
                              uint32_t columns, const FigHotspArgs& args);

struct Picture {
  std::span<const float> pixels;
  uint32_t width;
  uint32_t height;

  // Behind its edges, the outermost.
  float at(int x, int y) const;
};
// The normalised correlation, -1..1, of a square pattern with the picture
// around (x, y); -1 where either has one grey only.
double HrtwlScore(const Picture& picture, std::span<const float> pattern,
                  uint32_t size, int x, int y);
struct HrtwlMatch {
  FigHrtwlPlace place;
  double score;
};
// Of search * search places around `was`, the first of the best.
HrtwlMatch HrtwlBest(const Picture& picture, std::span<const float> pattern,
                     uint32_t size, uint32_t search, FigHrtwlPlace was);

// The nearest centre of every point, the first of equals.
std::vector<uint32_t> KmnNearest(std::span<const float> by_point,
                                 std::span<const float> centres,
                                 uint32_t features);

// L * U of a decomposition in place.
std::vector<double> LudProduct(std::span<const float> matrix, uint32_t n);

// Squared, between points whose coordinates lie dimension by dimension.
float ScDistance(std::span<const float> coordinates, uint32_t dimensions,
                 uint32_t a, uint32_t b);
struct ScResult {
  std::vector<float> gains;
  std::vector<uint8_t> switches;
};
// `gains`: before.
ScResult ScGains(std::span<const FigScPoint> points,
                 std::span<const float> coordinates,
                 std::span<const uint32_t> centre_table,
                 std::span<const float> gains, uint32_t dimensions,
                 uint32_t centres, uint32_t candidate);

// One iteration.
std::vector<double> SradDiffused(std::span<const double> image, uint32_t rows,
                                 uint32_t columns, double q0_squared,
                                 double lambda);

}  // namespace carillon::kernels::reference

#endif  // CARILLON_KERNELS_PAPER_REFERENCES_H_
