// Reference results of the narrow tasks' kernels: their definitions, in double
// precision. For the kernels' tests and for other programs that run them.
#ifndef CARILLON_KERNELS_NARROW_REFERENCES_H_
#define CARILLON_KERNELS_NARROW_REFERENCES_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace carillon::kernels::reference {

// The least n < most with |z(n)| > 2, where z(0) = 0 and z(n + 1) = z(n)^2 + c;
// `most` if there is none.
uint32_t MandelbrotCount(std::complex<double> c, uint32_t most);

using Samples = std::vector<std::complex<double>>;

// The first signal.size() samples of the convolution of a signal and a filter.
Samples Convolution(const Samples& signal, const Samples& filter);
// Each factor-th sample, from the first one.
Samples Decimated(const Samples& signal, uint32_t factor);
// `length` samples: the signal's, each with factor - 1 zeros behind it.
Samples Expanded(const Samples& signal, uint32_t factor, size_t length);
// The sum of the channels, each times its weight. All have the same length.
Samples WeightedSum(std::span<const Samples> channels, const Samples& weights);

// Coefficient (u, v) of a block of 8x8 samples at (left, top), ITU T.81 A.3.3;
// outside of the image the nearest sample counts.
double DctCoefficient(std::span<const uint8_t> image, uint32_t width,
                      uint32_t height, uint32_t left, uint32_t top, int u,
                      int v);

// One pixel of the convolution of an image with the filter
// by_column[y] * by_row[x], whose middle lies on the pixel; outside of the image
// the nearest pixel counts. The two sets of taps have the same, odd size.
double ConvolvedPixel(std::span<const float> image, uint32_t width,
                      uint32_t height, std::span<const float> by_row,
                      std::span<const float> by_column, uint32_t x, uint32_t y);

// The product of n x n matrices of whole numbers.
std::vector<float> Product(std::span<const float> a, std::span<const float> b,
                           size_t n);

// LU decomposition of an n x n matrix in place, without pivoting. L has ones on
// its diagonal, which are not stored.
void Decompose(std::vector<double>* matrix, size_t n);

}  // namespace carillon::kernels::reference

#endif  // CARILLON_KERNELS_NARROW_REFERENCES_H_
