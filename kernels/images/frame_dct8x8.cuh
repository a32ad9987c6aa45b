// frame_dct8x8: dct8x8 of a frame that another kernel has processed, with the tag
// that travelled behind the frame's own samples: the second event of an imaging
// pipeline, whose device knows by the tag which frame it has.
#ifndef CARILLON_KERNELS_IMAGES_FRAME_DCT8X8_CUH_
#define CARILLON_KERNELS_IMAGES_FRAME_DCT8X8_CUH_

#include "kernels/images/dct8x8.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct FrameDct8x8Args {
  simt::Span<const uint8_t> frame;
  simt::Span<const uint8_t> image;
  simt::Span<uint8_t> tag;
  simt::Span<float> coefficients;
  uint32_t width;
  uint32_t height;
};

CARILLON_KERNEL(frame_dct8x8, FrameDct8x8Args, args, self) {
  const uint64_t width = args.width;
  const uint64_t height = args.height;
  const uint64_t pixels = width * height;
  const uint64_t blocks = (width + 7) / 8 * ((height + 7) / 8);
  if (args.frame.size < pixels || args.frame.size - pixels < args.tag.size ||
      args.image.size < pixels || args.coefficients.size / 64 < blocks) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  for (uint64_t i = self.global_linear(); i < args.tag.size;
       i += self.grid_threads()) {
    args.tag[i] = args.frame[pixels + i];
  }
  for (uint64_t block = self.global_linear(); block < blocks;
       block += self.grid_threads()) {
    DctBlock(args.image.data, width, height, block,
             args.coefficients.data + block * 64);
  }
}

inline const char* CheckFrameDct8x8(const simt::LaunchShape& shape,
                                    const FrameDct8x8Args& args) {
  const uint64_t pixels = static_cast<uint64_t>(args.width) * args.height;
  if (args.frame.size < pixels || args.frame.size - pixels < args.tag.size) {
    return "frame must have width * height bytes, and behind them as many as "
           "tag";
  }
  return CheckDct8x8(shape,
                     {args.image, args.coefficients, args.width, args.height});
}

CARILLON_KERNEL_INFO(
    frame_dct8x8, FrameDct8x8Args,
    "8x8 DCT-II of a processed frame, and the frame's tag",
    simt::Registers(96)
        .From("JPEG, ITU-T T.81")
        .Oracle("NumPy, SciPy")
        .Validate<&CheckFrameDct8x8>(),
    CARILLON_PARAM(FrameDct8x8Args, frame,
                   "width * height samples, which are not read, and the tag"),
    CARILLON_PARAM(FrameDct8x8Args, image,
                   "width * height processed samples, row by row"),
    CARILLON_PARAM(FrameDct8x8Args, tag, "receives the tag, all of its bytes"),
    CARILLON_PARAM(FrameDct8x8Args, coefficients, "as of dct8x8"),
    CARILLON_PARAM(FrameDct8x8Args, width, "of the frame, pixels"),
    CARILLON_PARAM(FrameDct8x8Args, height, "of the frame, pixels"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_IMAGES_FRAME_DCT8X8_CUH_
