// mandelbrot: how fast z -> z^2 + c leaves the circle of radius 2, for each pixel
// of an image (Pagoda's MB, Quinn 2004). How long a thread takes depends on its
// pixels. The grid may have any size: threads go on in steps of the grid's size.
#ifndef CARILLON_KERNELS_NARROW_MANDELBROT_CUH_
#define CARILLON_KERNELS_NARROW_MANDELBROT_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct MandelbrotArgs {
  simt::Span<uint32_t> counts;
  uint32_t width;
  uint32_t height;
  uint32_t most;  // iterations
  float first_real;
  float first_imaginary;
  float step;
};

// Bounds how long a pixel takes.
inline constexpr uint32_t kMandelbrotMost = 1 << 16;

CARILLON_HOST_DEVICE bool MandelbrotFits(const MandelbrotArgs& args) {
  const uint64_t pixels = static_cast<uint64_t>(args.width) * args.height;
  return pixels != 0 && pixels <= args.counts.size && args.most != 0 &&
         args.most <= kMandelbrotMost;
}

// Rounded by itself: a compiler that fused it with an addition would let other
// pixels leave.
CARILLON_DEVICE float RoundedProduct(float a, float b) {
#if defined(__CUDACC__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

// counts = the least n with |z(n)| > 2, where z(0) = 0; `most` if there is none
// below that.
CARILLON_KERNEL(mandelbrot, MandelbrotArgs, args, self) {
  if (!MandelbrotFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t pixels = static_cast<uint64_t>(args.width) * args.height;
  for (uint64_t i = self.global_linear(); i < pixels;
       i += self.grid_threads()) {
    const float real =
        args.first_real +
        RoundedProduct(static_cast<float>(i % args.width), args.step);
    const float imaginary =
        args.first_imaginary +
        RoundedProduct(static_cast<float>(i / args.width), args.step);
    float x = 0.0f;
    float y = 0.0f;
    uint32_t n = 0;
    for (; n < args.most; ++n) {
      const float xx = RoundedProduct(x, x);
      const float yy = RoundedProduct(y, y);
      if (xx + yy > 4.0f) break;
      y = 2.0f * RoundedProduct(x, y) + imaginary;
      x = xx - yy + real;
    }
    args.counts[i] = n;
  }
}

inline const char* CheckMandelbrot(const simt::LaunchShape&,
                                   const MandelbrotArgs& args) {
  return MandelbrotFits(args) ? nullptr
                              : "width and height must not be 0, counts must "
                                "have width * height "
                                "numbers, most must be 1..65536";
}

CARILLON_KERNEL_INFO(
    mandelbrot, MandelbrotArgs, "the Mandelbrot set: a narrow task",
    simt::Registers(20)
        .From("Quinn 2004 (Pagoda: MB)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Validate<&CheckMandelbrot>(),
    CARILLON_PARAM(MandelbrotArgs, counts,
                   "receives width * height numbers of iterations, row by row"),
    CARILLON_PARAM(MandelbrotArgs, width, "of the image, pixels"),
    CARILLON_PARAM(MandelbrotArgs, height, "of the image, pixels"),
    CARILLON_PARAM(MandelbrotArgs, most, "iterations a pixel, 1..65536"),
    CARILLON_PARAM(MandelbrotArgs, first_real, "the first pixel's real part"),
    CARILLON_PARAM(MandelbrotArgs, first_imaginary,
                   "the first pixel's imaginary part"),
    CARILLON_PARAM(MandelbrotArgs, step, "from one pixel to the next"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_MANDELBROT_CUH_
