// conv2: a second convolutional layer, of images with many colours
// (filterActs_YxX_sparse of cuda-convnet): tiles of one pixel in 2 colours, two
// barriers each. A background kernel of EDGE's figures; see conv_layer.cuh.
#ifndef CARILLON_KERNELS_BACKGROUND_CONV2_CUH_
#define CARILLON_KERNELS_BACKGROUND_CONV2_CUH_

#include "kernels/background/conv_layer.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kConvLayer2Colours = 2;  // per tile

CARILLON_BARRIER_KERNEL(conv2, ConvLayerArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kConvLayerX, kConvLayerY, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!ConvLayerFits(args) || args.colours % kConvLayer2Colours != 0) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t first_image =
      static_cast<uint64_t>(self.block_index().x) * kConvLayerImages;
  if (first_image >= args.image_count) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint32_t tid = self.linear();
  const uint32_t side = ConvLayerModules(args);
  const uint32_t pixels = args.filter_size * args.filter_size;
  const uint64_t plane =
      static_cast<uint64_t>(args.image_size) * args.image_size;
  const uint32_t groups = args.filter_count / kConvLayerFilters;
  const uint64_t work = static_cast<uint64_t>(side) * side * groups;
  float* filter_tile =
      self.shared<float>(0, kConvLayer2Colours * kConvLayerFilters);
  float* image_tile =
      self.shared<float>(kConvLayer2Colours * kConvLayerFilters * sizeof(float),
                         kConvLayer2Colours * kConvLayerImages);

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
    for (uint32_t colour = 0; colour < args.colours;
         colour += kConvLayer2Colours) {
      for (uint32_t pixel = 0; pixel < pixels; ++pixel) {
        if (tid < kConvLayer2Colours * kConvLayerFilters) {
          const uint64_t weight =
              static_cast<uint64_t>(colour + tid / kConvLayerFilters) * pixels +
              pixel;
          filter_tile[tid] =
              args.filters[weight * args.filter_count + first_filter +
                           tid % kConvLayerFilters];
        }
        const uint64_t at =
            static_cast<uint64_t>(top + pixel / args.filter_size) *
                args.image_size +
            left + pixel % args.filter_size;
        CARILLON_UNROLL
        for (uint32_t c = 0; c < kConvLayer2Colours; ++c) {
          image_tile[c * kConvLayerImages + tid] =
              args.images[((colour + c) * plane + at) * args.image_count +
                          first_image + tid];
        }
        CARILLON_SYNC_THREADS(self);
        CARILLON_UNROLL
        for (uint32_t c = 0; c < kConvLayer2Colours; ++c) {
          CARILLON_UNROLL
          for (uint32_t f = 0; f < kConvLayerPerThread; ++f) {
            CARILLON_UNROLL
            for (uint32_t i = 0; i < kConvLayerPerThread; ++i) {
              sums[f * kConvLayerPerThread + i] +=
                  image_tile[c * kConvLayerImages + x + i * kConvLayerX] *
                  filter_tile[c * kConvLayerFilters + y + f * kConvLayerY];
            }
          }
        }
        CARILLON_SYNC_THREADS(self);
      }
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

inline const char* CheckConvLayer2(const simt::LaunchShape& shape,
                                   const ConvLayerArgs& args) {
  return args.colours % kConvLayer2Colours == 0 ? CheckConvLayer(shape, args)
                                                : "colours must be even";
}

CARILLON_KERNEL_INFO(conv2, ConvLayerArgs,
                     "filters many images of many colours",
                     simt::Registers(40)
                         .From("cuda-convnet, LeNet (EDGE: CONV2)")
                         .Oracle("NumPy, SciPy")
                         .Shared(kConvLayer2Colours*(kConvLayerFilters +
                                                     kConvLayerImages) *
                                 sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckConvLayerShape>()
                         .Validate<&CheckConvLayer2>(),
                     CARILLON_CONV_LAYER_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_CONV2_CUH_
