#include "kernels/background/references.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace carillon::kernels::reference {

OptionPrice BlackScholes(double spot, double strike, double years, double rate,
                         double volatility) {
  const auto below = [](double x) {
    return std::erfc(-x / std::numbers::sqrt2) / 2;
  };
  const double deviation = volatility * std::sqrt(years);
  const double d1 = std::log(spot / strike) / deviation +
                    (rate / volatility + volatility / 2) * std::sqrt(years);
  const double d2 = d1 - deviation;
  const double present = strike * std::exp(-rate * years);
  return {spot * below(d1) - present * below(d2),
          present * below(-d2) - spot * below(-d1)};
}

double CutoffPotential(std::span<const CutcpAtom> atoms, double x, double y,
                       double z, double cutoff) {
  double sum = 0;
  for (const CutcpAtom& atom : atoms) {
    const double dx = atom.x - x;
    const double dy = atom.y - y;
    const double dz = atom.z - z;
    const double r = std::sqrt(dx * dx + dy * dy + dz * dz);
    if (r >= cutoff) continue;
    const double ratio = r / cutoff;
    const double smooth = 1 - ratio * ratio;
    sum += atom.charge / r * smooth * smooth;
  }
  return sum;
}

std::vector<double> LbmStep(std::span<const float> from,
                            std::span<const uint8_t> solid, uint32_t width,
                            uint32_t height, uint32_t depth, double omega) {
  struct Direction {
    int x, y, z;
    double weight;
  };
  std::vector<Direction> directions{{0, 0, 0, 1.0 / 3}};
  const auto add_pair = [&directions](int x, int y, int z) {
    const double weight =
        std::abs(x) + std::abs(y) + std::abs(z) == 1 ? 1.0 / 18 : 1.0 / 36;
    directions.push_back({x, y, z, weight});
    directions.push_back({-x, -y, -z, weight});
  };
  for (const auto& [x, y, z] :
       {std::array{1, 0, 0}, std::array{0, 1, 0}, std::array{0, 0, 1},
        std::array{1, 1, 0}, std::array{1, -1, 0}, std::array{1, 0, 1},
        std::array{1, 0, -1}, std::array{0, 1, 1}, std::array{0, 1, -1}}) {
    add_pair(x, y, z);
  }
  const size_t cells = solid.size();
  const auto number = [&](int x, int y, int z) {
    const auto wrapped = [](int at, uint32_t count) {
      const int n = static_cast<int>(count);
      return static_cast<size_t>((at + n) % n);
    };
    return (wrapped(z, depth) * height + wrapped(y, height)) * width +
           wrapped(x, width);
  };

  // Stream: each cell sends what it has to its neighbours.
  std::vector<double> moved(from.begin(), from.end());
  for (size_t cell = 0; cell < cells; ++cell) {
    if (solid[cell] != 0) continue;
    const int x = static_cast<int>(cell % width);
    const int y = static_cast<int>(cell / width % height);
    const int z = static_cast<int>(cell / width / height);
    for (size_t i = 0; i < directions.size(); ++i) {
      const Direction& c = directions[i];
      const size_t neighbour = number(x + c.x, y + c.y, z + c.z);
      // Off a wall it comes back in the opposite direction.
      size_t to = i;
      size_t there = neighbour;
      if (solid[neighbour] != 0) {
        there = cell;
        for (size_t j = 0; j < directions.size(); ++j) {
          if (directions[j].x == -c.x && directions[j].y == -c.y &&
              directions[j].z == -c.z) {
            to = j;
          }
        }
      }
      moved[to * cells + there] = from[i * cells + cell];
    }
  }

  // Collide.
  for (size_t cell = 0; cell < cells; ++cell) {
    if (solid[cell] != 0) continue;
    double density = 0;
    std::array<double, 3> u{};
    for (size_t i = 0; i < directions.size(); ++i) {
      const double f = moved[i * cells + cell];
      density += f;
      u[0] += f * directions[i].x;
      u[1] += f * directions[i].y;
      u[2] += f * directions[i].z;
    }
    for (double& component : u) component /= density;
    for (size_t i = 0; i < directions.size(); ++i) {
      const Direction& c = directions[i];
      const double along = c.x * u[0] + c.y * u[1] + c.z * u[2];
      const double equilibrium =
          c.weight * density *
          (1 + 3 * along + 9 * along * along / 2 -
           3 * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]) / 2);
      double& f = moved[i * cells + cell];
      f = (1 - omega) * f + omega * equilibrium;
    }
  }
  return moved;
}

std::complex<double> MriQ(std::span<const MriSample> samples, double x,
                          double y, double z) {
  std::complex<double> sum = 0;
  for (const MriSample& k : samples) {
    sum += std::polar<double>(
        k.weight, 2 * std::numbers::pi * (k.x * x + k.y * y + k.z * z));
  }
  return sum;
}

std::vector<int32_t> CheapestWays(std::span<const int32_t> costs,
                                  std::span<const int32_t> from) {
  std::vector<int32_t> ways(from.begin(), from.end());
  for (; !costs.empty(); costs = costs.subspan(from.size())) {
    const std::vector<int32_t> before = ways;
    for (size_t x = 0; x < ways.size(); ++x) {
      const auto first =
          before.begin() + static_cast<int64_t>(x > 0 ? x - 1 : 0);
      const auto last =
          before.begin() + static_cast<int64_t>(std::min(x + 2, ways.size()));
      ways[x] = costs[x] + *std::min_element(first, last);
    }
  }
  return ways;
}

std::vector<double> Gemm(std::span<const float> a, std::span<const float> b,
                         std::span<const float> c, size_t columns, double alpha,
                         double beta) {
  const size_t depth = b.size() / columns;
  std::vector<double> result;
  for (const float before : c) result.push_back(beta * before);
  for (size_t i = 0; i < a.size(); ++i) {
    double* const row = &result[i / depth * columns];
    const std::span<const float> of_b = b.subspan(i % depth * columns, columns);
    for (size_t column = 0; column < columns; ++column) {
      row[column] += alpha * a[i] * of_b[column];
    }
  }
  return result;
}

std::vector<double> StencilStep(std::span<const float> in, uint32_t width,
                                uint32_t height, uint32_t depth, double centre,
                                double around) {
  std::vector<double> out(in.begin(), in.end());
  const size_t plane = size_t{width} * height;
  for (size_t z = 1; z + 1 < depth; ++z) {
    for (size_t y = 1; y + 1 < height; ++y) {
      for (size_t x = 1; x + 1 < width; ++x) {
        const size_t i = z * plane + y * width + x;
        double sum = 0;
        for (const size_t step : {size_t{1}, size_t{width}, plane}) {
          sum += in[i - step];
          sum += in[i + step];
        }
        out[i] = around * sum - centre * in[i];
      }
    }
  }
  return out;
}

}  // namespace carillon::kernels::reference
