// srad_v1_extract, srad_v1: two kernels of Rodinia's srad_v1, the other
// form of speckle reducing anisotropic diffusion (srad_v2.cuh has srad_v2's).
// Extract undoes the image's logarithm. The other one takes each pixel's
// differences to its neighbours, whose rows and columns it reads from tables,
// and its diffusion coefficient. Background kernels of PEP's evaluation.
//
// The image is stored column by column. Blocks of 512x1x1 threads, one a pixel.
#ifndef CARILLON_KERNELS_BACKGROUND_SRAD_V1_CUH_
#define CARILLON_KERNELS_BACKGROUND_SRAD_V1_CUH_

#include <cmath>

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kSradV1Block = 512;
inline constexpr uint32_t kSradV1BadNeighbour = 16;

struct SradV1ExtractArgs {
  simt::Span<float> image;
};

struct SradV1Args {
  simt::Span<const float> image;
  simt::Span<float> coefficients;
  simt::Span<float> north;
  simt::Span<float> south;
  simt::Span<float> west;
  simt::Span<float> east;
  simt::Span<const uint32_t> row_above;  // of each row
  simt::Span<const uint32_t> row_below;
  simt::Span<const uint32_t> column_left;  // of each column
  simt::Span<const uint32_t> column_right;
  float q0_squared;  // the speckle's
};

inline const char* CheckSradV1Shape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kSradV1Block, 1, 1}
             ? nullptr
             : "blocks have 512x1x1 threads, one a pixel";
}

CARILLON_KERNEL(srad_v1_extract, SradV1ExtractArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kSradV1Block, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  const uint64_t i = self.global_linear();
  if (i >= args.image.size) return;
  args.image[i] = expf(args.image[i] / 255.0f);
}

inline const char* CheckSradV1Extract(const simt::LaunchShape& shape,
                                      const SradV1ExtractArgs& args) {
  if (shape.grid.count() <
      (args.image.size + kSradV1Block - 1) / kSradV1Block) {
    return "the grid must cover the image: ceil(pixels / 512) blocks";
  }
  return CheckSradV1Shape(shape);
}

CARILLON_KERNEL_INFO(srad_v1_extract, SradV1ExtractArgs,
                     "anisotropic diffusion: undoes the image's logarithm",
                     simt::Registers(14)
                         .From("Rodinia srad_v1 (PEP: SRAD)")
                         .Oracle("NumPy, SciPy")
                         .LaunchedOnly()
                         .Shape<&CheckSradV1Shape>()
                         .Validate<&CheckSradV1Extract>(),
                     CARILLON_PARAM(SradV1ExtractArgs, image,
                                    "samples of 0 to 255, to be changed"));

CARILLON_HOST_DEVICE bool SradV1Fits(const SradV1Args& args) {
  // The numbers of rows and columns have 32 bits, so that pixels have 64.
  const uint64_t rows = args.row_above.size;
  const uint64_t columns = args.column_left.size;
  if (rows > 0xffffffff || columns > 0xffffffff) return false;
  const uint64_t pixels = rows * columns;
  return args.row_below.size == rows && args.column_right.size == columns &&
         args.image.size >= pixels && args.coefficients.size >= pixels &&
         args.north.size >= pixels && args.south.size >= pixels &&
         args.west.size >= pixels && args.east.size >= pixels;
}

CARILLON_KERNEL(srad_v1, SradV1Args, args, self) {
  if (self.block_dim() != simt::Dim3{kSradV1Block, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  if (!SradV1Fits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t rows = args.row_above.size;
  const uint64_t columns = args.column_left.size;
  const uint64_t pixel = self.global_linear();
  if (pixel >= rows * columns) return;
  const uint64_t column = pixel / rows;
  const uint64_t row = pixel - column * rows;
  const uint32_t above = args.row_above[row];
  const uint32_t below = args.row_below[row];
  const uint32_t left = args.column_left[column];
  const uint32_t right = args.column_right[column];
  if (above >= rows || below >= rows || left >= columns || right >= columns) {
    self.Fail(kSradV1BadNeighbour);
    return;
  }
  const float here = args.image[pixel];
  const float n = args.image[column * rows + above] - here;
  const float s = args.image[column * rows + below] - here;
  const float w = args.image[left * rows + row] - here;
  const float e = args.image[right * rows + row] - here;
  const float gradient = (n * n + s * s + w * w + e * e) / (here * here);
  const float laplacian = (n + s + w + e) / here;
  const float numerator =
      0.5f * gradient - (1.0f / 16.0f) * (laplacian * laplacian);
  const float denominator = 1.0f + 0.25f * laplacian;
  const float q_squared = numerator / (denominator * denominator);
  const float apart = (q_squared - args.q0_squared) /
                      (args.q0_squared * (1.0f + args.q0_squared));
  float c = 1.0f / (1.0f + apart);
  if (c < 0.0f) {
    c = 0.0f;
  } else if (c > 1.0f) {
    c = 1.0f;
  }
  args.north[pixel] = n;
  args.south[pixel] = s;
  args.west[pixel] = w;
  args.east[pixel] = e;
  args.coefficients[pixel] = c;
}

inline const char* CheckSradV1(const simt::LaunchShape& shape,
                               const SradV1Args& args) {
  if (!SradV1Fits(args)) {
    return "row_below must have as many elements as row_above, column_right as "
           "column_left, and each other buffer one for each pixel of these "
           "rows and columns";
  }
  if (shape.grid.count() <
      (args.row_above.size * args.column_left.size + kSradV1Block - 1) /
          kSradV1Block) {
    return "the grid must cover the image: ceil(pixels / 512) blocks";
  }
  return CheckSradV1Shape(shape);
}

CARILLON_KERNEL_INFO(
    srad_v1, SradV1Args,
    "anisotropic diffusion: the coefficients, neighbours from tables",
    simt::Registers(26)
        .From("Rodinia srad_v1 (PEP: SRAD)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Shape<&CheckSradV1Shape>()
        .Validate<&CheckSradV1>(),
    CARILLON_PARAM(SradV1Args, image, "samples, column by column, none 0"),
    CARILLON_PARAM(SradV1Args, coefficients, "receives those of diffusion"),
    CARILLON_PARAM(SradV1Args, north, "receives what the pixel above is more"),
    CARILLON_PARAM(SradV1Args, south, "receives what the pixel below is more"),
    CARILLON_PARAM(SradV1Args, west,
                   "receives what the pixel to the left is more"),
    CARILLON_PARAM(SradV1Args, east,
                   "receives what the pixel to the right is more"),
    CARILLON_PARAM(SradV1Args, row_above, "the number of each row's"),
    CARILLON_PARAM(SradV1Args, row_below, "the number of each row's"),
    CARILLON_PARAM(SradV1Args, column_left, "the number of each column's"),
    CARILLON_PARAM(SradV1Args, column_right, "the number of each column's"),
    CARILLON_PARAM(SradV1Args, q0_squared, "the speckle's scale, squared"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_SRAD_V1_CUH_
