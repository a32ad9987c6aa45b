#include "devices/fpga/references.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace carillon::fpga {
namespace {

// The scaled cosine of each frequency at each sample. It is stored in both
// orders, because inner loops are faster on adjacent values.
struct Basis {
  double by_frequency[8][8];  // [frequency][sample]
  double by_sample[8][8];     // [sample][frequency]
};

const Basis& DctBasis() {
  static const Basis basis = [] {
    Basis b;
    for (int k = 0; k < 8; ++k) {
      const double scale = k == 0 ? std::sqrt(1.0 / 8) : std::sqrt(2.0 / 8);
      for (int n = 0; n < 8; ++n) {
        b.by_frequency[k][n] = b.by_sample[n][k] =
            scale * std::cos(std::numbers::pi * (2 * n + 1) * k / 16);
      }
    }
    return b;
  }();
  return basis;
}

// The image with at least `margin` more pixels on every side, and at least
// `margin` + `round_up` - 1 on the right and below. All of these repeat the
// outermost pixels.
struct Padded {
  Padded(const GreyImage& image, uint32_t margin, uint32_t round_up)
      : stride(image.width + 2 * margin + round_up - 1) {
    const uint64_t rows = uint64_t{image.height} + 2 * margin + round_up - 1;
    pixels.reserve(rows * stride);
    for (uint64_t y = 0; y < rows; ++y) {
      const uint64_t from_y =
          std::clamp<uint64_t>(y, margin, margin + image.height - 1) - margin;
      for (uint64_t x = 0; x < stride; ++x) {
        const uint64_t from_x =
            std::clamp<uint64_t>(x, margin, margin + image.width - 1) - margin;
        pixels.push_back(image.pixels[from_y * image.width + from_x]);
      }
    }
  }
  const uint8_t* at(uint64_t x, uint64_t y) const {
    return &pixels[y * stride + x];
  }

  const uint64_t stride;
  std::vector<uint8_t> pixels;
};

uint8_t ToSample(double value) {
  // The first case also catches a NaN.
  return !(value > 0)   ? 0
         : value >= 255 ? 255
                        : static_cast<uint8_t>(std::lround(value));
}

}  // namespace

uint64_t DctBlocks(uint32_t width, uint32_t height) {
  return (uint64_t{width} + 7) / 8 * ((uint64_t{height} + 7) / 8);
}

std::vector<double> Dct8x8(const GreyImage& image) {
  const Basis& basis = DctBasis();
  const Padded padded(image, 0, 8);
  std::vector<double> coefficients;
  coefficients.reserve(DctBlocks(image.width, image.height) * 64);
  for (uint64_t top = 0; top < image.height; top += 8) {
    for (uint64_t left = 0; left < image.width; left += 8) {
      double rows[8][8] = {};  // [sample][horizontal frequency]
      for (int y = 0; y < 8; ++y) {
        const uint8_t* pixels = padded.at(left, top + y);
        for (int x = 0; x < 8; ++x) {
          for (int u = 0; u < 8; ++u) {
            rows[y][u] += basis.by_sample[x][u] * (pixels[x] - 128.0);
          }
        }
      }
      double block[8][8] = {};
      for (int v = 0; v < 8; ++v) {
        for (int y = 0; y < 8; ++y) {
          for (int u = 0; u < 8; ++u) {
            block[v][u] += basis.by_frequency[v][y] * rows[y][u];
          }
        }
      }
      coefficients.insert(coefficients.end(), &block[0][0], &block[0][0] + 64);
    }
  }
  return coefficients;
}

GreyImage InverseDct8x8(uint32_t width, uint32_t height,
                        const float* coefficients) {
  const Basis& basis = DctBasis();
  GreyImage image{.width = width, .height = height, .pixels = {}};
  image.pixels.resize(uint64_t{width} * height);
  const uint64_t blocks_x = (uint64_t{width} + 7) / 8;
  for (uint64_t block = 0; block < DctBlocks(width, height); ++block) {
    const uint64_t left = block % blocks_x * 8;
    const uint64_t top = block / blocks_x * 8;
    const float* in = coefficients + block * 64;
    double columns[8][8] = {};  // [sample][horizontal frequency]
    for (int y = 0; y < 8; ++y) {
      for (int v = 0; v < 8; ++v) {
        for (int u = 0; u < 8; ++u) {
          columns[y][u] += basis.by_sample[y][v] * in[v * 8 + u];
        }
      }
    }
    for (uint64_t y = 0; y < 8 && top + y < height; ++y) {
      double row[8] = {};
      for (int u = 0; u < 8; ++u) {
        for (int x = 0; x < 8; ++x) {
          row[x] += basis.by_frequency[u][x] * columns[y][u];
        }
      }
      for (uint64_t x = 0; x < 8 && left + x < width; ++x) {
        image.pixels[(top + y) * width + left + x] = ToSample(row[x] + 128);
      }
    }
  }
  return image;
}

GreyImage Conv5x5(const GreyImage& image,
                  const std::array<int32_t, 25>& weights, uint32_t shift) {
  const Padded padded(image, 2, 1);
  GreyImage out{.width = image.width, .height = image.height, .pixels = {}};
  out.pixels.reserve(image.pixels.size());
  const int64_t half = shift == 0 ? 0 : int64_t{1} << (shift - 1);
  for (uint64_t y = 0; y < image.height; ++y) {
    for (uint64_t x = 0; x < image.width; ++x) {
      int64_t sum = half;
      for (int j = 0; j < 5; ++j) {
        const uint8_t* row = padded.at(x, y + j);
        for (int i = 0; i < 5; ++i) sum += int64_t{weights[5 * j + i]} * row[i];
      }
      out.pixels.push_back(
          static_cast<uint8_t>(std::clamp<int64_t>(sum >> shift, 0, 255)));
    }
  }
  return out;
}

}  // namespace carillon::fpga
