// fig_srad1, fig_srad2: one iteration of speckle reducing anisotropic diffusion
// as Rodinia's srad_v2 has it: the first kernel takes each pixel's differences
// to its four neighbours and its diffusion coefficient, the second moves the
// pixels. Background kernels of EDGE's figures.
//
// Blocks of 16x16 threads, one a pixel. A block keeps its own tile in shared
// memory and, for each side, a tile of which one row or column is the
// neighbours' and used. At the image's borders a pixel is its own neighbour.
#ifndef CARILLON_KERNELS_PAPER_FIG_SRAD_CUH_
#define CARILLON_KERNELS_PAPER_FIG_SRAD_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kFigSrad = 16;
inline constexpr uint32_t kFigSradTile = kFigSrad * kFigSrad;

struct FigSrad1Args {
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

struct FigSrad2Args {
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
CARILLON_HOST_DEVICE bool FigSradFits(const Args& args) {
  const uint64_t pixels = static_cast<uint64_t>(args.rows) * args.columns;
  return args.rows % kFigSrad == 0 && args.columns % kFigSrad == 0 &&
         args.image.size >= pixels && args.coefficients.size >= pixels &&
         args.north.size >= pixels && args.south.size >= pixels &&
         args.west.size >= pixels && args.east.size >= pixels;
}

inline const char* CheckFigSradShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kFigSrad, kFigSrad, 1}
             ? nullptr
             : "blocks have 16x16x1 threads, one a pixel";
}

template <class Args>
const char* CheckFigSrad(const simt::LaunchShape& shape, const Args& args) {
  if (!FigSradFits(args)) {
    return "rows and columns must be multiples of 16, each buffer must have "
           "rows * columns elements";
  }
  if (static_cast<uint64_t>(shape.grid.x) * kFigSrad < args.columns ||
      static_cast<uint64_t>(shape.grid.y) * kFigSrad < args.rows) {
    return "the grid must cover the image: columns / 16 x rows / 16 blocks";
  }
  return CheckFigSradShape(shape);
}

CARILLON_BARRIER_KERNEL(fig_srad1, FigSrad1Args, args, self) {
  if (self.block_dim() != simt::Dim3{kFigSrad, kFigSrad, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!FigSradFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t columns = args.columns;
  const uint64_t top = static_cast<uint64_t>(self.block_index().y) * kFigSrad;
  const uint64_t left = static_cast<uint64_t>(self.block_index().x) * kFigSrad;
  if (top >= args.rows || left >= columns) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint32_t at = y * kFigSrad + x;
  const uint32_t bytes = kFigSradTile * sizeof(float);
  float* tile = self.shared<float>(0, kFigSradTile);
  float* result = self.shared<float>(bytes, kFigSradTile);
  float* north = self.shared<float>(2 * bytes, kFigSradTile);
  float* south = self.shared<float>(3 * bytes, kFigSradTile);
  float* west = self.shared<float>(4 * bytes, kFigSradTile);
  float* east = self.shared<float>(5 * bytes, kFigSradTile);

  const uint64_t above = top == 0 ? 0 : top - 1;
  const uint64_t below =
      top + kFigSrad == args.rows ? args.rows - 1 : top + kFigSrad;
  north[at] = args.image[above * columns + left + x];
  south[at] = args.image[below * columns + left + x];
  CARILLON_SYNC_THREADS(self);
  const uint64_t before = left == 0 ? 0 : left - 1;
  const uint64_t behind =
      left + kFigSrad == columns ? columns - 1 : left + kFigSrad;
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
    n = tile[at - kFigSrad] - here;
  }
  if (y == kFigSrad - 1) {
    s = south[at] - here;
  } else {
    s = tile[at + kFigSrad] - here;
  }
  if (x == 0) {
    w = west[at] - here;
  } else {
    w = tile[at - 1] - here;
  }
  if (x == kFigSrad - 1) {
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
    fig_srad1, FigSrad1Args, "anisotropic diffusion: the coefficients",
    simt::Registers(24)
        .Shared(6 * kFigSradTile * sizeof(float))
        .LeavesTogether()
        .Shape<&CheckFigSradShape>()
        .Validate<&CheckFigSrad<FigSrad1Args>>(),
    CARILLON_PARAM(FigSrad1Args, image, "rows * columns samples, none 0"),
    CARILLON_PARAM(FigSrad1Args, coefficients, "receives those of diffusion"),
    CARILLON_PARAM(FigSrad1Args, north,
                   "receives what the pixel above is more"),
    CARILLON_PARAM(FigSrad1Args, south,
                   "receives what the pixel below is more"),
    CARILLON_PARAM(FigSrad1Args, west,
                   "receives what the pixel to the left is more"),
    CARILLON_PARAM(FigSrad1Args, east,
                   "receives what the pixel to the right is more"),
    CARILLON_PARAM(FigSrad1Args, rows, "a multiple of 16"),
    CARILLON_PARAM(FigSrad1Args, columns, "a multiple of 16"),
    CARILLON_PARAM(FigSrad1Args, q0_squared, "the speckle's scale, squared"));

CARILLON_BARRIER_KERNEL(fig_srad2, FigSrad2Args, args, self) {
  if (self.block_dim() != simt::Dim3{kFigSrad, kFigSrad, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!FigSradFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t columns = args.columns;
  const uint64_t top = static_cast<uint64_t>(self.block_index().y) * kFigSrad;
  const uint64_t left = static_cast<uint64_t>(self.block_index().x) * kFigSrad;
  if (top >= args.rows || left >= columns) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint32_t at = y * kFigSrad + x;
  const uint32_t bytes = kFigSradTile * sizeof(float);
  float* south = self.shared<float>(0, kFigSradTile);
  float* east = self.shared<float>(bytes, kFigSradTile);
  float* coefficients = self.shared<float>(2 * bytes, kFigSradTile);
  float* result = self.shared<float>(3 * bytes, kFigSradTile);
  float* tile = self.shared<float>(4 * bytes, kFigSradTile);

  const uint64_t pixel = (top + y) * columns + left + x;
  tile[at] = args.image[pixel];
  CARILLON_SYNC_THREADS(self);
  const uint64_t below =
      top + kFigSrad == args.rows ? args.rows - 1 : top + kFigSrad;
  south[at] = args.coefficients[below * columns + left + x];
  CARILLON_SYNC_THREADS(self);
  const uint64_t behind =
      left + kFigSrad == columns ? columns - 1 : left + kFigSrad;
  east[at] = args.coefficients[(top + y) * columns + behind];
  CARILLON_SYNC_THREADS(self);
  coefficients[at] = args.coefficients[pixel];
  CARILLON_SYNC_THREADS(self);

  const float here = coefficients[at];
  float to_south;
  float to_east;
  if (y == kFigSrad - 1) {
    to_south = south[at];
  } else {
    to_south = coefficients[at + kFigSrad];
  }
  if (x == kFigSrad - 1) {
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

CARILLON_KERNEL_INFO(fig_srad2, FigSrad2Args,
                     "anisotropic diffusion: moves the pixels",
                     simt::Registers(23)
                         .Shared(5 * kFigSradTile * sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckFigSradShape>()
                         .Validate<&CheckFigSrad<FigSrad2Args>>(),
                     CARILLON_PARAM(FigSrad2Args, image,
                                    "rows * columns samples, to be changed"),
                     CARILLON_PARAM(FigSrad2Args, coefficients,
                                    "those of fig_srad1"),
                     CARILLON_PARAM(FigSrad2Args, north, "that of fig_srad1"),
                     CARILLON_PARAM(FigSrad2Args, south, "that of fig_srad1"),
                     CARILLON_PARAM(FigSrad2Args, west, "that of fig_srad1"),
                     CARILLON_PARAM(FigSrad2Args, east, "that of fig_srad1"),
                     CARILLON_PARAM(FigSrad2Args, rows, "a multiple of 16"),
                     CARILLON_PARAM(FigSrad2Args, columns, "a multiple of 16"),
                     CARILLON_PARAM(FigSrad2Args, lambda, "the step's length"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_SRAD_CUH_
