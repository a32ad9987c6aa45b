// conv1: a first convolutional layer, of images with one colour
// (filterActs_YxX_color of cuda-convnet): tiles of 4 pixels, two barriers each.
// A background kernel of EDGE's figures; see conv_layer.cuh.
#ifndef CARILLON_KERNELS_BACKGROUND_CONV1_CUH_
#define CARILLON_KERNELS_BACKGROUND_CONV1_CUH_

#include "kernels/background/conv_layer.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kConvLayer1Pixels = 4;  // per tile

CARILLON_BARRIER_KERNEL(conv1, ConvLayerArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kConvLayerX, kConvLayerY, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!ConvLayerFits(args) || args.colours != 1) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t first_image =
      static_cast<uint64_t>(self.block_index().x) * kConvLayerImages;
  if (first_image >= args.image_count) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint32_t side = ConvLayerModules(args);
  const uint32_t pixels = args.filter_size * args.filter_size;
  const uint32_t groups = args.filter_count / kConvLayerFilters;
  const uint64_t work = static_cast<uint64_t>(side) * side * groups;
  float* filter_tile =
      self.shared<float>(0, kConvLayer1Pixels * kConvLayerFilters);
  float* image_tile =
      self.shared<float>(kConvLayer1Pixels * kConvLayerFilters * sizeof(float),
                         kConvLayer1Pixels * kConvLayerImages);

  for (uint64_t w = self.block_index().y; w < work; w += self.grid_dim().y) {
    const uint32_t module = static_cast<uint32_t>(w / groups);
    const uint32_t first_filter =
        static_cast<uint32_t>(w % groups) * kConvLayerFilters;
    const uint32_t top = module / side * args.stride;
    const uint32_t left = module % side * args.stride;
    float sums[kConvLayerPerThread * kConvLayerPerThread];
    CARILLON_UNROLL
    for (uint32_t f = 0; f < kConvLayerPerThread; ++f) {
      CARILLON_UNROLL
      for (uint32_t i = 0; i < kConvLayerPerThread; ++i) {
        sums[f * kConvLayerPerThread + i] = 0.0f;
      }
    }
    for (uint32_t first = 0; first < pixels; first += kConvLayer1Pixels) {
      // Behind the last pixel the tiles hold zeros, which add nothing.
      if (self.linear() < kConvLayer1Pixels * kConvLayerFilters) {
        const uint32_t pixel = first + self.linear() / kConvLayerFilters;
        const uint32_t filter =
            first_filter + self.linear() % kConvLayerFilters;
        filter_tile[self.linear()] =
            pixel < pixels ? args.filters[static_cast<uint64_t>(pixel) *
                                              args.filter_count +
                                          filter]
                           : 0.0f;
      }
      const uint32_t pixel = first + y;
      const uint64_t at =
          static_cast<uint64_t>(top + pixel / args.filter_size) *
              args.image_size +
          left + pixel % args.filter_size;
      const float* row = args.images.data + at * args.image_count;
      CARILLON_UNROLL
      for (uint32_t i = 0; i < kConvLayerPerThread; ++i) {
        image_tile[y * kConvLayerImages + x + i * kConvLayerX] =
            pixel < pixels ? row[first_image + x + i * kConvLayerX] : 0.0f;
      }
      CARILLON_SYNC_THREADS(self);
      CARILLON_UNROLL
      for (uint32_t p = 0; p < kConvLayer1Pixels; ++p) {
        CARILLON_UNROLL
        for (uint32_t f = 0; f < kConvLayerPerThread; ++f) {
          CARILLON_UNROLL
          for (uint32_t i = 0; i < kConvLayerPerThread; ++i) {
            sums[f * kConvLayerPerThread + i] +=
                image_tile[p * kConvLayerImages + x + i * kConvLayerX] *
                filter_tile[p * kConvLayerFilters + y + f * kConvLayerY];
          }
        }
      }
      CARILLON_SYNC_THREADS(self);
    }
    CARILLON_UNROLL
    for (uint32_t f = 0; f < kConvLayerPerThread; ++f) {
      const uint64_t filter = first_filter + y + f * kConvLayerY;
      float* out = args.targets.data +
                   (filter * side * side + module) * args.image_count;
      CARILLON_UNROLL
      for (uint32_t i = 0; i < kConvLayerPerThread; ++i) {
        out[first_image + x + i * kConvLayerX] =
            sums[f * kConvLayerPerThread + i];
      }
    }
  }
}

inline const char* CheckConvLayer1(const simt::LaunchShape& shape,
                                   const ConvLayerArgs& args) {
  return args.colours == 1 ? CheckConvLayer(shape, args) : "colours must be 1";
}

CARILLON_KERNEL_INFO(conv1, ConvLayerArgs, "filters many images of one colour",
                     simt::Registers(46)
                         .From("cuda-convnet, LeNet (EDGE: CONV1)")
                         .Oracle("NumPy, SciPy")
                         .Shared(kConvLayer1Pixels*(kConvLayerFilters +
                                                    kConvLayerImages) *
                                 sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckConvLayerShape>()
                         .Validate<&CheckConvLayer1>(),
                     CARILLON_CONV_LAYER_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_CONV1_CUH_
