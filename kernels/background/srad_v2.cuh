// srad_v2_1, srad_v2_2: one iteration of speckle reducing anisotropic diffusion
// as Rodinia's srad_v2 has it: the first kernel takes each pixel's differences
// to its four neighbours and its diffusion coefficient, the second moves the
// pixels. Background kernels of EDGE's figures.
//
// Blocks of 16x16 threads, one a pixel. A block keeps its own tile in shared
// memory and, for each side, a tile of which one row or column is the
// neighbours' and used. At the image's borders a pixel is its own neighbour.
#ifndef CARILLON_KERNELS_BACKGROUND_SRAD_V2_CUH_
#define CARILLON_KERNELS_BACKGROUND_SRAD_V2_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kSradV2Block = 16;
inline constexpr uint32_t kSradV2Tile = kSradV2Block * kSradV2Block;

struct SradV2FirstArgs {
  simt::Span<const float> image;
  simt::Span<float> coefficients;
  simt::Span<float> north;
  simt::Span<float> south;
  simt::Span<float> west;
  simt::Span<float> east;
  uint32_t rows;
  uint32_t columns;
  float q0_squared;  // the speckle's
};

struct SradV2SecondArgs {
  simt::Span<float> image;
  simt::Span<const float> coefficients;
  simt::Span<const float> north;
  simt::Span<const float> south;
  simt::Span<const float> west;
  simt::Span<const float> east;
  uint32_t rows;
  uint32_t columns;
  float lambda;  // the step's
};

template <class Args>
CARILLON_HOST_DEVICE bool SradV2Fits(const Args& args) {
  const uint64_t pixels = static_cast<uint64_t>(args.rows) * args.columns;
  return args.rows % kSradV2Block == 0 && args.columns % kSradV2Block == 0 &&
         args.image.size >= pixels && args.coefficients.size >= pixels &&
         args.north.size >= pixels && args.south.size >= pixels &&
         args.west.size >= pixels && args.east.size >= pixels;
}

inline const char* CheckSradV2Shape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kSradV2Block, kSradV2Block, 1}
             ? nullptr
             : "blocks have 16x16x1 threads, one a pixel";
}

template <class Args>
const char* CheckSradV2Block(const simt::LaunchShape& shape, const Args& args) {
  if (!SradV2Fits(args)) {
    return "rows and columns must be multiples of 16, each buffer must have "
           "rows * columns elements";
  }
  if (static_cast<uint64_t>(shape.grid.x) * kSradV2Block < args.columns ||
      static_cast<uint64_t>(shape.grid.y) * kSradV2Block < args.rows) {
    return "the grid must cover the image: columns / 16 x rows / 16 blocks";
  }
  return CheckSradV2Shape(shape);
}

CARILLON_BARRIER_KERNEL(srad_v2_1, SradV2FirstArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kSradV2Block, kSradV2Block, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!SradV2Fits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t columns = args.columns;
  const uint64_t top =
      static_cast<uint64_t>(self.block_index().y) * kSradV2Block;
  const uint64_t left =
      static_cast<uint64_t>(self.block_index().x) * kSradV2Block;
  if (top >= args.rows || left >= columns) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint32_t at = y * kSradV2Block + x;
  const uint32_t bytes = kSradV2Tile * sizeof(float);
  float* tile = self.shared<float>(0, kSradV2Tile);
  float* result = self.shared<float>(bytes, kSradV2Tile);
  float* north = self.shared<float>(2 * bytes, kSradV2Tile);
  float* south = self.shared<float>(3 * bytes, kSradV2Tile);
  float* west = self.shared<float>(4 * bytes, kSradV2Tile);
  float* east = self.shared<float>(5 * bytes, kSradV2Tile);

  const uint64_t above = top == 0 ? 0 : top - 1;
  const uint64_t below =
      top + kSradV2Block == args.rows ? args.rows - 1 : top + kSradV2Block;
  north[at] = args.image[above * columns + left + x];
  south[at] = args.image[below * columns + left + x];
  CARILLON_SYNC_THREADS(self);
  const uint64_t before = left == 0 ? 0 : left - 1;
  const uint64_t behind =
      left + kSradV2Block == columns ? columns - 1 : left + kSradV2Block;
  west[at] = args.image[(top + y) * columns + before];
  east[at] = args.image[(top + y) * columns + behind];
  CARILLON_SYNC_THREADS(self);
  const uint64_t pixel = (top + y) * columns + left + x;
  tile[at] = args.image[pixel];
  CARILLON_SYNC_THREADS(self);

  const float here = tile[at];
  float n;
  float s;
  float w;
  float e;
  if (y == 0) {
    n = north[at] - here;
  } else {
    n = tile[at - kSradV2Block] - here;
  }
  if (y == kSradV2Block - 1) {
    s = south[at] - here;
  } else {
    s = tile[at + kSradV2Block] - here;
  }
  if (x == 0) {
    w = west[at] - here;
  } else {
    w = tile[at - 1] - here;
  }
  if (x == kSradV2Block - 1) {
    e = east[at] - here;
  } else {
    e = tile[at + 1] - here;
  }
  const float gradient = (n * n + s * s + w * w + e * e) / (here * here);
  const float laplacian = (n + s + w + e) / here;
  const float above_line =
      0.5f * gradient - (1.0f / 16.0f) * laplacian * laplacian;
  const float below_line = 1.0f + 0.25f * laplacian;
  const float q_squared = above_line / (below_line * below_line);
  const float apart = (q_squared - args.q0_squared) /
                      (args.q0_squared * (1.0f + args.q0_squared));
  const float c = 1.0f / (1.0f + apart);
  if (c < 0.0f) {
    result[at] = 0.0f;
  } else if (c > 1.0f) {
    result[at] = 1.0f;
  } else {
    result[at] = c;
  }
  CARILLON_SYNC_THREADS(self);
  args.coefficients[pixel] = result[at];
  args.north[pixel] = n;
  args.south[pixel] = s;
  args.west[pixel] = w;
  args.east[pixel] = e;
}

CARILLON_KERNEL_INFO(
    srad_v2_1, SradV2FirstArgs, "anisotropic diffusion: the coefficients",
    simt::Registers(24)
        .From("Rodinia srad_v2 (EDGE: SRAD)")
        .Oracle("NumPy, SciPy")
        .Shared(6 * kSradV2Tile * sizeof(float))
        .LeavesTogether()
        .Shape<&CheckSradV2Shape>()
        .Validate<&CheckSradV2Block<SradV2FirstArgs>>(),
    CARILLON_PARAM(SradV2FirstArgs, image, "rows * columns samples, none 0"),
    CARILLON_PARAM(SradV2FirstArgs, coefficients,
                   "receives those of diffusion"),
    CARILLON_PARAM(SradV2FirstArgs, north,
                   "receives what the pixel above is more"),
    CARILLON_PARAM(SradV2FirstArgs, south,
                   "receives what the pixel below is more"),
    CARILLON_PARAM(SradV2FirstArgs, west,
                   "receives what the pixel to the left is more"),
    CARILLON_PARAM(SradV2FirstArgs, east,
                   "receives what the pixel to the right is more"),
    CARILLON_PARAM(SradV2FirstArgs, rows, "a multiple of 16"),
    CARILLON_PARAM(SradV2FirstArgs, columns, "a multiple of 16"),
    CARILLON_PARAM(SradV2FirstArgs, q0_squared,
                   "the speckle's scale, squared"));

CARILLON_BARRIER_KERNEL(srad_v2_2, SradV2SecondArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kSradV2Block, kSradV2Block, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!SradV2Fits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t columns = args.columns;
  const uint64_t top =
      static_cast<uint64_t>(self.block_index().y) * kSradV2Block;
  const uint64_t left =
      static_cast<uint64_t>(self.block_index().x) * kSradV2Block;
  if (top >= args.rows || left >= columns) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint32_t at = y * kSradV2Block + x;
  const uint32_t bytes = kSradV2Tile * sizeof(float);
  float* south = self.shared<float>(0, kSradV2Tile);
  float* east = self.shared<float>(bytes, kSradV2Tile);
  float* coefficients = self.shared<float>(2 * bytes, kSradV2Tile);
  float* result = self.shared<float>(3 * bytes, kSradV2Tile);
  float* tile = self.shared<float>(4 * bytes, kSradV2Tile);

  const uint64_t pixel = (top + y) * columns + left + x;
  tile[at] = args.image[pixel];
  CARILLON_SYNC_THREADS(self);
  const uint64_t below =
      top + kSradV2Block == args.rows ? args.rows - 1 : top + kSradV2Block;
  south[at] = args.coefficients[below * columns + left + x];
  CARILLON_SYNC_THREADS(self);
  const uint64_t behind =
      left + kSradV2Block == columns ? columns - 1 : left + kSradV2Block;
  east[at] = args.coefficients[(top + y) * columns + behind];
  CARILLON_SYNC_THREADS(self);
  coefficients[at] = args.coefficients[pixel];
  CARILLON_SYNC_THREADS(self);

  const float here = coefficients[at];
  float to_south;
  float to_east;
  if (y == kSradV2Block - 1) {
    to_south = south[at];
  } else {
    to_south = coefficients[at + kSradV2Block];
  }
  if (x == kSradV2Block - 1) {
    to_east = east[at];
  } else {
    to_east = coefficients[at + 1];
  }
  const float divergence = here * args.north[pixel] +
                           to_south * args.south[pixel] +
                           here * args.west[pixel] + to_east * args.east[pixel];
  result[at] = tile[at] + 0.25f * args.lambda * divergence;
  CARILLON_SYNC_THREADS(self);
  args.image[pixel] = result[at];
}

CARILLON_KERNEL_INFO(
    srad_v2_2, SradV2SecondArgs, "anisotropic diffusion: moves the pixels",
    simt::Registers(23)
        .From("Rodinia srad_v2 (EDGE: SRAD)")
        .Oracle("NumPy, SciPy")
        .Shared(5 * kSradV2Tile * sizeof(float))
        .LeavesTogether()
        .Shape<&CheckSradV2Shape>()
        .Validate<&CheckSradV2Block<SradV2SecondArgs>>(),
    CARILLON_PARAM(SradV2SecondArgs, image,
                   "rows * columns samples, to be changed"),
    CARILLON_PARAM(SradV2SecondArgs, coefficients, "those of srad_v2_1"),
    CARILLON_PARAM(SradV2SecondArgs, north, "that of srad_v2_1"),
    CARILLON_PARAM(SradV2SecondArgs, south, "that of srad_v2_1"),
    CARILLON_PARAM(SradV2SecondArgs, west, "that of srad_v2_1"),
    CARILLON_PARAM(SradV2SecondArgs, east, "that of srad_v2_1"),
    CARILLON_PARAM(SradV2SecondArgs, rows, "a multiple of 16"),
    CARILLON_PARAM(SradV2SecondArgs, columns, "a multiple of 16"),
    CARILLON_PARAM(SradV2SecondArgs, lambda, "the step's length"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_SRAD_V2_CUH_
