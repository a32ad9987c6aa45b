#include "kernels/narrow/references.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace carillon::kernels::reference {
namespace {

// An element of an image; outside of it, the nearest one.
template <class T>
double Nearest(std::span<const T> image, uint32_t width, uint32_t height,
               int64_t x, int64_t y) {
  const int64_t column = std::clamp<int64_t>(x, 0, int64_t{width} - 1);
  const int64_t row = std::clamp<int64_t>(y, 0, int64_t{height} - 1);
  return image[static_cast<size_t>(row * width + column)];
}

}  // namespace

uint32_t MandelbrotCount(std::complex<double> c, uint32_t most) {
  std::complex<double> z = 0;
  for (uint32_t n = 0; n < most; ++n) {
    if (std::norm(z) > 4) return n;
    z = z * z + c;
  }
  return most;
}

Samples Convolution(const Samples& signal, const Samples& filter) {
  Samples out(signal.size());
  for (size_t i = 0; i < signal.size(); ++i) {
    for (size_t k = 0; k < filter.size() && i + k < out.size(); ++k) {
      out[i + k] += signal[i] * filter[k];
    }
  }
  return out;
}

Samples Decimated(const Samples& signal, uint32_t factor) {
  Samples out;
  for (size_t i = 0; i < signal.size(); i += factor) out.push_back(signal[i]);
  return out;
}

Samples Expanded(const Samples& signal, uint32_t factor, size_t length) {
  Samples out(length);
  for (size_t i = 0; i < signal.size() && i * factor < length; ++i) {
    out[i * factor] = signal[i];
  }
  return out;
}

Samples WeightedSum(std::span<const Samples> channels, const Samples& weights) {
  Samples out(channels[0].size());
  for (size_t channel = 0; channel < channels.size(); ++channel) {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] += weights[channel] * channels[channel][i];
    }
  }
  return out;
}

double DctCoefficient(std::span<const uint8_t> image, uint32_t width,
                      uint32_t height, uint32_t left, uint32_t top, int u,
                      int v) {
  double sum = 0;
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      sum +=
          (Nearest(image, width, height, int64_t{left} + x, int64_t{top} + y) -
           128) *
          std::cos((2 * x + 1) * u * std::numbers::pi / 16) *
          std::cos((2 * y + 1) * v * std::numbers::pi / 16);
    }
  }
  const auto scale = [](int k) { return k == 0 ? std::sqrt(0.5) : 1.0; };
  return sum * scale(u) * scale(v) / 4;
}

double ConvolvedPixel(std::span<const float> image, uint32_t width,
                      uint32_t height, std::span<const float> by_row,
                      std::span<const float> by_column, uint32_t x,
                      uint32_t y) {
  const int64_t radius = static_cast<int64_t>(by_row.size() / 2);
  double sum = 0;
  for (int64_t dy = -radius; dy <= radius; ++dy) {
    for (int64_t dx = -radius; dx <= radius; ++dx) {
      sum += static_cast<double>(by_row[static_cast<size_t>(radius + dx)]) *
             by_column[static_cast<size_t>(radius + dy)] *
             Nearest(image, width, height, x - dx, y - dy);
    }
  }
  return sum;
}

std::vector<float> Product(std::span<const float> a, std::span<const float> b,
                           size_t n) {
  std::vector<float> product;
  for (size_t i = 0; i < n * n; ++i) {
    int64_t sum = 0;
    for (size_t k = 0; k < n; ++k) {
      sum += static_cast<int64_t>(a[i / n * n + k]) *
             static_cast<int64_t>(b[k * n + i % n]);
    }
    product.push_back(static_cast<float>(sum));
  }
  return product;
}

void Decompose(std::vector<double>* matrix, size_t n) {
  // Row by row, as Crout and Doolittle have it: a(i, j) = sum of l(i, k) u(k, j).
  std::vector<double>& a = *matrix;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double value = a[i * n + j];
      for (size_t k = 0; k < std::min(i, j); ++k) {
        value -= a[i * n + k] * a[k * n + j];
      }
      a[i * n + j] = j < i ? value / a[j * n + j] : value;
    }
  }
}

}  // namespace carillon::kernels::reference
