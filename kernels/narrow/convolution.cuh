// conv_rows and conv_columns: the two passes of a separable convolution (Pagoda's
// CONV, from the CUDA SDK). The second needs all of what the first one wrote. The
// grid may have any size: threads go on in steps of the grid's size.
#ifndef CARILLON_KERNELS_NARROW_CONVOLUTION_CUH_
#define CARILLON_KERNELS_NARROW_CONVOLUTION_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

// Of both passes.
struct ConvPassArgs {
  simt::Span<const float> image;
  simt::Span<const float> taps;
  simt::Span<float> out;
  uint32_t width;
  uint32_t height;
  uint32_t radius;
};

// Keeps places on the image in 32 bits.
inline constexpr uint32_t kConvMostPixels = 1 << 16;  // of a row or a column
inline constexpr uint32_t kConvMostRadius = 1 << 10;

CARILLON_HOST_DEVICE bool ConvPassFits(const ConvPassArgs& args) {
  const uint64_t pixels = static_cast<uint64_t>(args.width) * args.height;
  return pixels != 0 && args.width <= kConvMostPixels &&
         args.height <= kConvMostPixels && args.radius <= kConvMostRadius &&
         args.taps.size >= 2 * args.radius + 1 && args.image.size >= pixels &&
         args.out.size >= pixels;
}

// The sum of taps[k] * line[(at + radius - k) * stride], where `line` has `count`
// elements and repeats the first and the last one beyond them.
CARILLON_DEVICE float ConvolvedAt(const float* line, uint32_t count,
                                  uint32_t stride, const float* taps,
                                  uint32_t radius, uint32_t at) {
  const int32_t last = static_cast<int32_t>(count) - 1;
  int32_t place = static_cast<int32_t>(at + radius);
  float sum = 0.0f;
  for (uint32_t k = 0; k <= 2 * radius; ++k, --place) {
    const int32_t inside = place < 0 ? 0 : (place < last ? place : last);
    sum += taps[k] * line[static_cast<uint64_t>(inside) * stride];
  }
  return sum;
}

CARILLON_KERNEL(conv_rows, ConvPassArgs, args, self) {
  if (!ConvPassFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t pixels = static_cast<uint64_t>(args.width) * args.height;
  for (uint64_t i = self.global_linear(); i < pixels;
       i += self.grid_threads()) {
    const uint32_t x = static_cast<uint32_t>(i % args.width);
    args.out[i] = ConvolvedAt(args.image.data + (i - x), args.width, 1,
                              args.taps.data, args.radius, x);
  }
}

CARILLON_KERNEL(conv_columns, ConvPassArgs, args, self) {
  if (!ConvPassFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t pixels = static_cast<uint64_t>(args.width) * args.height;
  for (uint64_t i = self.global_linear(); i < pixels;
       i += self.grid_threads()) {
    args.out[i] = ConvolvedAt(args.image.data + i % args.width, args.height,
                              args.width, args.taps.data, args.radius,
                              static_cast<uint32_t>(i / args.width));
  }
}

inline const char* CheckConvPass(const simt::LaunchShape&,
                                 const ConvPassArgs& args) {
  return ConvPassFits(args)
             ? nullptr
             : "width and height must be 1..65536, radius at most 1024; image "
               "and out must have width * height elements, taps 2 * radius + 1";
}

#define CARILLON_CONV_PASS_PARAMS                                             \
  CARILLON_PARAM(ConvPassArgs, image, "width * height elements, row by row"), \
      CARILLON_PARAM(ConvPassArgs, taps, "2 * radius + 1 factors"),           \
      CARILLON_PARAM(ConvPassArgs, out, "receives width * height elements"),  \
      CARILLON_PARAM(ConvPassArgs, width, "of the image, pixels, 1..65536"),  \
      CARILLON_PARAM(ConvPassArgs, height, "of the image, pixels, 1..65536"), \
      CARILLON_PARAM(ConvPassArgs, radius, "of the filter, pixels, 0..1024")

CARILLON_KERNEL_INFO(
    conv_rows, ConvPassArgs, "a convolution along rows: a narrow task",
    simt::Registers(32)
        .From("CUDA samples convolutionSeparable (Pagoda: CONV)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Validate<&CheckConvPass>(),
    CARILLON_CONV_PASS_PARAMS);
CARILLON_KERNEL_INFO(
    conv_columns, ConvPassArgs, "a convolution along columns: a narrow task",
    simt::Registers(32)
        .From("CUDA samples convolutionSeparable (Pagoda: CONV)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Validate<&CheckConvPass>(),
    CARILLON_CONV_PASS_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_CONVOLUTION_CUH_
