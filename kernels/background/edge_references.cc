#include "kernels/background/edge_references.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <queue>

namespace carillon::kernels::reference {
namespace {

constexpr size_t kBpRow = 17;  // of 16 hidden units; the first is not used

// A cell of a matrix; outside of it, the nearest one at its edge.
template <class T>
double Clamped(std::span<const T> matrix, int rows, int columns, int row,
               int column) {
  return matrix[static_cast<size_t>(std::clamp(row, 0, rows - 1)) *
                    static_cast<size_t>(columns) +
                static_cast<size_t>(std::clamp(column, 0, columns - 1))];
}

}  // namespace

std::vector<uint32_t> BfsDistances(std::span<const BfsNode> nodes,
                                   std::span<const uint32_t> edges,
                                   uint32_t source) {
  std::vector<uint32_t> distance(nodes.size(), kUnreached);
  std::queue<uint32_t> queue({source});
  distance[source] = 0;
  for (; !queue.empty(); queue.pop()) {
    const BfsNode& node = nodes[queue.front()];
    for (const uint32_t target :
         edges.subspan(node.first_edge, node.edge_count)) {
      if (distance[target] != kUnreached) continue;
      distance[target] = distance[queue.front()] + 1;
      queue.push(target);
    }
  }
  return distance;
}

std::vector<float> BpPartialSums(std::span<const float> input,
                                 std::span<const float> weights) {
  std::vector<float> sums(input.size() - 1);
  for (size_t block = 0; block < sums.size() / 16; ++block) {
    for (size_t hidden = 1; hidden <= 16; ++hidden) {
      float sum = 0;
      for (size_t unit = block * 16 + 1; unit <= block * 16 + 16; ++unit) {
        sum += input[unit] * weights[unit * kBpRow + hidden];
      }
      sums[block * 16 + hidden - 1] = sum;
    }
  }
  return sums;
}

BpLayer BpAdjusted(std::span<const float> delta, std::span<const float> input,
                   std::span<const float> weights,
                   std::span<const float> changes) {
  BpLayer layer{{weights.begin(), weights.end()},
                {changes.begin(), changes.end()}};
  for (size_t unit = 0; unit < input.size(); ++unit) {
    for (size_t hidden = 1; hidden <= 16; ++hidden) {
      const size_t i = unit * kBpRow + hidden;
      const double signal = unit == 0 ? 1.0 : input[unit];
      const double change = 0.3 * delta[hidden] * signal + 0.3 * changes[i];
      layer.weights[i] += change;
      layer.changes[i] = change;
    }
  }
  return layer;
}

std::vector<float> Convolved(const ConvShape& shape,
                             std::span<const float> images,
                             std::span<const float> filters) {
  const size_t side = shape.side();
  const size_t size = shape.image_size;
  const size_t width = shape.filter_size;
  std::vector<float> targets;
  targets.reserve(shape.filters * side * side * shape.images);
  std::vector<float> sums(shape.images);
  for (size_t filter = 0; filter < shape.filters; ++filter) {
    for (size_t module = 0; module < side * side; ++module) {
      std::ranges::fill(sums, 0.0f);
      for (size_t c = 0; c < shape.colours; ++c) {
        for (size_t tap = 0; tap < width * width; ++tap) {
          const size_t y = module / side * shape.stride + tap / width;
          const size_t x = module % side * shape.stride + tap % width;
          const float weight =
              filters[(c * width * width + tap) * shape.filters + filter];
          const auto pixels = images.subspan(
              ((c * size + y) * size + x) * shape.images, shape.images);
          for (size_t i = 0; i < sums.size(); ++i) {
            sums[i] += pixels[i] * weight;
          }
        }
      }
      targets.insert(targets.end(), sums.begin(), sums.end());
    }
  }
  return targets;
}

std::vector<double> HotspotStep(std::span<const float> power,
                                std::span<const double> from, uint32_t rows,
                                uint32_t columns,
                                const HotspotCoefficients& coefficients) {
  const int height = static_cast<int>(rows);
  const int width = static_cast<int>(columns);
  const auto at = [&](int row, int column) {
    return Clamped(from, height, width, row, column);
  };
  std::vector<double> to;
  to.reserve(from.size());
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const double t = at(row, column);
      const double vertical = at(row - 1, column) + at(row + 1, column) - 2 * t;
      const double horizontal =
          at(row, column - 1) + at(row, column + 1) - 2 * t;
      to.push_back(t + coefficients.step_by_capacity *
                           (power[to.size()] + vertical * coefficients.by_ry +
                            horizontal * coefficients.by_rx +
                            (80.0 - t) * coefficients.by_rz));
    }
  }
  return to;
}

float Picture::at(int x, int y) const {
  const int column = std::clamp(x, 0, static_cast<int>(width) - 1);
  const int row = std::clamp(y, 0, static_cast<int>(height) - 1);
  return pixels[static_cast<size_t>(row) * width + static_cast<size_t>(column)];
}

double HeartwallScore(const Picture& picture, std::span<const float> pattern,
                      uint32_t size, int x, int y) {
  const double n = size * size;
  const int half = static_cast<int>(size / 2);
  const auto under = [&](uint32_t i) {
    return picture.at(x + static_cast<int>(i % size) - half,
                      y + static_cast<int>(i / size) - half);
  };
  double mean_a = 0;
  double mean_b = 0;
  for (uint32_t i = 0; i < size * size; ++i) {
    mean_a += pattern[i] / n;
    mean_b += under(i) / n;
  }
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (uint32_t i = 0; i < size * size; ++i) {
    const double a = pattern[i] - mean_a;
    const double b = under(i) - mean_b;
    aa += a * a;
    bb += b * b;
    ab += a * b;
  }
  return aa * bb > 1e-6 ? ab / std::sqrt(aa * bb) : -1.0;
}

HeartwallMatch HeartwallBest(const Picture& picture,
                             std::span<const float> pattern, uint32_t size,
                             uint32_t search, HeartwallPlace was) {
  HeartwallMatch best{{}, -2.0};
  const int half = static_cast<int>(search / 2);
  for (int dy = -half; dy <= half; ++dy) {
    for (int dx = -half; dx <= half; ++dx) {
      const int x = static_cast<int>(was.x) + dx;
      const int y = static_cast<int>(was.y) + dy;
      const double score = HeartwallScore(picture, pattern, size, x, y);
      if (score <= best.score) continue;
      best = {{static_cast<uint32_t>(
                   std::clamp(x, 0, static_cast<int>(picture.width) - 1)),
               static_cast<uint32_t>(
                   std::clamp(y, 0, static_cast<int>(picture.height) - 1))},
              score};
    }
  }
  return best;
}

std::vector<uint32_t> KmnNearest(std::span<const float> by_point,
                                 std::span<const float> centres,
                                 uint32_t features) {
  std::vector<uint32_t> nearest;
  for (size_t point = 0; point < by_point.size(); point += features) {
    double least = HUGE_VAL;
    uint32_t member = 0;
    for (size_t centre = 0; centre < centres.size(); centre += features) {
      double sum = 0;
      for (size_t f = 0; f < features; ++f) {
        const double apart = by_point[point + f] - centres[centre + f];
        sum += apart * apart;
      }
      if (sum < least) {
        least = sum;
        member = static_cast<uint32_t>(centre / features);
      }
    }
    nearest.push_back(member);
  }
  return nearest;
}

double LudProductAt(std::span<const float> matrix, uint32_t n, size_t row,
                    size_t column) {
  double sum = 0;
  for (size_t i = 0; i <= std::min(row, column); ++i) {
    const double l = i == row ? 1.0 : matrix[row * n + i];
    sum += l * matrix[i * n + column];
  }
  return sum;
}

std::vector<double> LudProduct(std::span<const float> matrix, uint32_t n) {
  std::vector<double> product;
  product.reserve(matrix.size());
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      product.push_back(LudProductAt(matrix, n, row, column));
    }
  }
  return product;
}

float ScDistance(std::span<const float> coordinates, uint32_t dimensions,
                 uint32_t a, uint32_t b) {
  const size_t points = coordinates.size() / dimensions;
  float sum = 0;
  for (size_t d = 0; d < dimensions; ++d) {
    const float apart =
        coordinates[d * points + a] - coordinates[d * points + b];
    sum += apart * apart;
  }
  return sum;
}

ScResult ScGains(std::span<const ScPoint> points,
                 std::span<const float> coordinates,
                 std::span<const uint32_t> centre_table,
                 std::span<const float> gains, uint32_t dimensions,
                 uint32_t centres, uint32_t candidate) {
  ScResult result{{gains.begin(), gains.end()},
                  std::vector<uint8_t>(points.size())};
  for (uint32_t i = 0; i < points.size(); ++i) {
    const ScPoint& point = points[i];
    const float cost =
        ScDistance(coordinates, dimensions, i, candidate) * point.weight;
    float* const row = &result.gains[i * (size_t{centres} + 1)];
    if (cost < point.cost) {
      result.switches[i] = 1;
      row[centres] += cost - point.cost;
    } else {
      row[centre_table[point.centre]] += point.cost - cost;
    }
  }
  return result;
}

std::vector<double> SradCoefficients(std::span<const double> image,
                                     uint32_t rows, uint32_t columns,
                                     double q0_squared) {
  const int height = static_cast<int>(rows);
  const int width = static_cast<int>(columns);
  const auto at = [&](int row, int column) {
    return Clamped(image, height, width, row, column);
  };
  std::vector<double> c;
  c.reserve(image.size());
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const double here = at(row, column);
      double squares = 0;
      double sum = 0;
      for (const double there : {at(row - 1, column), at(row + 1, column),
                                 at(row, column - 1), at(row, column + 1)}) {
        squares += (there - here) * (there - here);
        sum += there - here;
      }
      const double gradient = squares / (here * here);
      const double laplacian = sum / here;
      const double scale = 1 + laplacian / 4;
      const double q =
          (gradient / 2 - laplacian * laplacian / 16) / (scale * scale);
      c.push_back(std::clamp(
          1 / (1 + (q - q0_squared) / (q0_squared * (1 + q0_squared))), 0.0,
          1.0));
    }
  }
  return c;
}

std::vector<double> SradDiffused(std::span<const double> image, uint32_t rows,
                                 uint32_t columns, double q0_squared,
                                 double lambda) {
  const int height = static_cast<int>(rows);
  const int width = static_cast<int>(columns);
  const auto at = [&](int row, int column) {
    return Clamped(image, height, width, row, column);
  };
  const std::vector<double> c =
      SradCoefficients(image, rows, columns, q0_squared);
  const auto c_at = [&](int row, int column) {
    return Clamped(std::span<const double>(c), height, width, row, column);
  };
  std::vector<double> moved;
  moved.reserve(image.size());
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const double here = at(row, column);
      const double own = c_at(row, column);
      moved.push_back(
          here + 0.25 * lambda *
                     (own * (at(row - 1, column) - here) +
                      c_at(row + 1, column) * (at(row + 1, column) - here) +
                      own * (at(row, column - 1) - here) +
                      c_at(row, column + 1) * (at(row, column + 1) - here)));
    }
  }
  return moved;
}

}  // namespace carillon::kernels::reference
