// What conv1 and conv2 have in common: the filterActs convolution of
// cuda-convnet, as a layer like LeNet's needs it.
//
//   images   [colour][row][column][image]
//   filters  [colour][row][column][filter]
//   targets  [filter][module][image]
//
// A module is one place of the filter on the image. A block has 32x4 threads
// and does 128 images (4 a thread, 32 apart) times 16 filters (4 a thread, 4
// apart). Column y of the grid takes the modules, and for each its groups of 16
// filters, in steps of grid.y: with (4, 64) blocks and 512 images all of them
// are resident at once, as in EDGE's CONV.
#ifndef CARILLON_KERNELS_BACKGROUND_CONV_LAYER_CUH_
#define CARILLON_KERNELS_BACKGROUND_CONV_LAYER_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct ConvLayerArgs {
  simt::Span<const float> images;
  simt::Span<const float> filters;
  simt::Span<float> targets;
  uint32_t colours;
  uint32_t image_size;
  uint32_t filter_size;
  uint32_t stride;
  uint32_t image_count;
  uint32_t filter_count;
};

inline constexpr uint32_t kConvLayerX = 32;
inline constexpr uint32_t kConvLayerY = 4;
inline constexpr uint32_t kConvLayerPerThread = 4;  // images, and filters
inline constexpr uint32_t kConvLayerImages = kConvLayerX * kConvLayerPerThread;
inline constexpr uint32_t kConvLayerFilters = kConvLayerY * kConvLayerPerThread;

// The number of modules along one side.
CARILLON_HOST_DEVICE uint32_t ConvLayerModules(const ConvLayerArgs& args) {
  return (args.image_size - args.filter_size) / args.stride + 1;
}

CARILLON_HOST_DEVICE bool ConvLayerFits(const ConvLayerArgs& args) {
  // The limits keep every product below in 64 bits.
  if (args.image_size == 0 || args.image_size > 1024 || args.colours == 0 ||
      args.colours > 4096 || args.filter_size == 0 ||
      args.filter_size > args.image_size || args.stride == 0 ||
      args.image_count == 0 || args.image_count > 1u << 20 ||
      args.image_count % kConvLayerImages != 0 || args.filter_count == 0 ||
      args.filter_count > 1u << 20 ||
      args.filter_count % kConvLayerFilters != 0) {
    return false;
  }
  const uint64_t pixels =
      static_cast<uint64_t>(args.colours) * args.image_size * args.image_size;
  const uint64_t weights =
      static_cast<uint64_t>(args.colours) * args.filter_size * args.filter_size;
  const uint64_t side = ConvLayerModules(args);
  return args.images.size >= pixels * args.image_count &&
         args.filters.size >= weights * args.filter_count &&
         args.targets.size >=
             side * side * args.filter_count * args.image_count;
}

inline const char* CheckConvLayerShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kConvLayerX, kConvLayerY, 1}
             ? nullptr
             : "blocks have 32x4x1 threads, for 128 images and 16 filters";
}

inline const char* CheckConvLayer(const simt::LaunchShape& shape,
                                  const ConvLayerArgs& args) {
  if (!ConvLayerFits(args)) {
    return "colours 1..4096, image_size 1..1024, filter_size 1..image_size, "
           "stride at least 1; image_count a multiple of 128, filter_count of "
           "16, both at most 2^20; images colours * image_size^2 * image_count "
           "elements, filters colours * filter_size^2 * filter_count, targets "
           "filter_count * modules * image_count";
  }
  if (static_cast<uint64_t>(shape.grid.x) * kConvLayerImages <
      args.image_count) {
    return "the grid must cover the images: image_count / 128 blocks in x";
  }
  return CheckConvLayerShape(shape);
}

}  // namespace carillon::kernels

#define CARILLON_CONV_LAYER_PARAMS                                             \
  CARILLON_PARAM(ConvLayerArgs, images, "[colour][row][column][image]"),       \
      CARILLON_PARAM(ConvLayerArgs, filters, "[colour][row][column][filter]"), \
      CARILLON_PARAM(ConvLayerArgs, targets,                                   \
                     "receives [filter][module][image]"),                      \
      CARILLON_PARAM(ConvLayerArgs, colours, "of images and filters"),         \
      CARILLON_PARAM(ConvLayerArgs, image_size, "rows and columns, pixels"),   \
      CARILLON_PARAM(ConvLayerArgs, filter_size, "rows and columns, pixels"),  \
      CARILLON_PARAM(ConvLayerArgs, stride, "pixels between modules"),         \
      CARILLON_PARAM(ConvLayerArgs, image_count, "a multiple of 128"),         \
      CARILLON_PARAM(ConvLayerArgs, filter_count, "a multiple of 16")

#endif  // CARILLON_KERNELS_BACKGROUND_CONV_LAYER_CUH_
