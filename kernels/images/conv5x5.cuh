// conv5x5: filters a grey image with a 5x5 kernel of integers. Blocks of 16x16
// threads share a tile of 20x20 pixels; borders repeat the outermost pixels.
#ifndef CARILLON_KERNELS_IMAGES_CONV5X5_CUH_
#define CARILLON_KERNELS_IMAGES_CONV5X5_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct ConvArgs {
  simt::Span<const uint8_t> image;
  simt::Span<const int32_t> weights;
  simt::Span<uint8_t> out;
  uint32_t width;
  uint32_t height;
  uint32_t shift;
};

inline constexpr uint32_t kConvBlock = 16;
inline constexpr uint32_t kConvTile = kConvBlock + 4;

// out = clamp((sum of pixel * weight + half) >> shift, 0, 255), where half
// makes the shift round to nearest. The sum is taken modulo 2^32: weights of up
// to 2^18 in magnitude cannot overflow. The weights are not flipped: weights[0]
// is multiplied with the upper left pixel.
CARILLON_BARRIER_KERNEL(conv5x5, ConvArgs, args, self) {
  const uint32_t width = args.width;
  const uint32_t height = args.height;
  const uint64_t pixels = static_cast<uint64_t>(width) * height;
  if (self.block_dim() != simt::Dim3{kConvBlock, kConvBlock, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (args.image.size < pixels || args.out.size < pixels ||
      args.weights.size < 25 || args.shift > 31) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t left =
      static_cast<uint64_t>(self.block_index().x) * kConvBlock;
  const uint64_t top = static_cast<uint64_t>(self.block_index().y) * kConvBlock;
  if (left >= width || top >= height) CARILLON_EXIT;

  uint8_t* tile = self.shared<uint8_t>(0, kConvTile * kConvTile);
  for (uint32_t i = self.linear(); i < kConvTile * kConvTile;
       i += kConvBlock * kConvBlock) {
    // The tile begins two pixels to the left of and above the block, clamped to
    // the image.
    uint64_t x = left + i % kConvTile;
    uint64_t y = top + i / kConvTile;
    x = x < 2 ? 0 : (x - 2 < width ? x - 2 : width - 1);
    y = y < 2 ? 0 : (y - 2 < height ? y - 2 : height - 1);
    tile[i] = args.image[y * width + x];
  }
  CARILLON_SYNC_THREADS(self);

  const uint64_t x = left + self.thread_index().x;
  const uint64_t y = top + self.thread_index().y;
  if (x >= width || y >= height) CARILLON_EXIT;
  uint32_t sum = 0;
  for (uint32_t dy = 0; dy < 5; ++dy) {
    const uint8_t* row =
        tile + (self.thread_index().y + dy) * kConvTile + self.thread_index().x;
    for (uint32_t dx = 0; dx < 5; ++dx) {
      sum += row[dx] * static_cast<uint32_t>(args.weights[dy * 5 + dx]);
    }
  }
  if (args.shift > 0) sum += 1u << (args.shift - 1);
  const int32_t scaled = static_cast<int32_t>(sum) >> args.shift;
  args.out[y * width + x] =
      static_cast<uint8_t>(scaled < 0 ? 0 : (scaled > 255 ? 255 : scaled));
}

inline const char* CheckConvShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kConvBlock, kConvBlock, 1}
             ? nullptr
             : "conv5x5 works in blocks of 16x16x1 threads, one a pixel";
}

inline const char* CheckConv(const simt::LaunchShape& shape,
                             const ConvArgs& args) {
  const uint64_t pixels = static_cast<uint64_t>(args.width) * args.height;
  if (args.image.size < pixels || args.out.size < pixels) {
    return "image and out must have width * height bytes";
  }
  if (args.weights.size < 25) return "weights must have 25 numbers";
  if (args.shift > 31) return "shift must be 0..31";
  if (static_cast<uint64_t>(shape.grid.x) * kConvBlock < args.width ||
      static_cast<uint64_t>(shape.grid.y) * kConvBlock < args.height) {
    return "the grid must cover the image: ceil(width / 16) x "
           "ceil(height / 16) blocks";
  }
  return CheckConvShape(shape);
}

CARILLON_KERNEL_INFO(
    conv5x5, ConvArgs, "5x5 integer filter of a grey image",
    simt::Registers(31)
        .From("integer image filter")
        .Oracle("NumPy, SciPy")
        .Shared(kConvTile* kConvTile)
        .LeavesTogether()
        .Shape<&CheckConvShape>()
        .Validate<&CheckConv>(),
    CARILLON_PARAM(ConvArgs, image, "width * height samples, row by row"),
    CARILLON_PARAM(ConvArgs, weights, "25 numbers, row by row"),
    CARILLON_PARAM(ConvArgs, out, "receives width * height samples"),
    CARILLON_PARAM(ConvArgs, width, "of the image, pixels"),
    CARILLON_PARAM(ConvArgs, height, "of the image, pixels"),
    CARILLON_PARAM(ConvArgs, shift,
                   "the sum is divided by 2^shift, 0..31, and rounded"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_IMAGES_CONV5X5_CUH_
