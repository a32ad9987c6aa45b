// The image kernels written as their definitions read, for comparison with the
// GPU's results.
#ifndef CARILLON_DEVICES_FPGA_REFERENCES_H_
#define CARILLON_DEVICES_FPGA_REFERENCES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "devices/fpga/image.h"

namespace carillon::fpga {

// Binomial smoothing, the first filter for frames of optical mapping: for
// Conv5x5().
inline constexpr std::array<int32_t, 25> kSmoothingWeights = {
    1,  4, 6, 4,  1,  4,  16, 24, 16, 4, 6, 24, 36,
    24, 6, 4, 16, 24, 16, 4,  1,  4,  6, 4, 1};
inline constexpr uint32_t kSmoothingShift = 8;

// How far a coefficient of the kernels may be from Dct8x8()'s: coefficients reach
// 1024, floats have 24 bits, and each coefficient takes some ten operations.
inline constexpr double kDctTolerance = 0.01;

// How many 8x8 blocks cover an image.
uint64_t DctBlocks(uint32_t width, uint32_t height);

// The orthonormal 8x8 DCT-II of the samples less 128, 64 coefficients per
// block, blocks row by row, [vertical frequency][horizontal frequency]. The
// image is extended by its outermost pixels.
std::vector<double> Dct8x8(const GreyImage& image);

// The image with these coefficients, rounded and clamped to 0..255.
GreyImage InverseDct8x8(uint32_t width, uint32_t height,
                        const float* coefficients);

// out(x, y) = clamp((sum of weights[5 j + i] * pixel(x + i - 2, y + j - 2) +
// half) >> shift), where the image is extended by its outermost pixels.
GreyImage Conv5x5(const GreyImage& image,
                  const std::array<int32_t, 25>& weights, uint32_t shift);

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_REFERENCES_H_
