// fig_conv2: a second convolutional layer, of images with many colours
// (filterActs_YxX_sparse of cuda-convnet): tiles of one pixel in 2 colours, two
// barriers each. A background kernel of EDGE's figures; see fig_conv.cuh.
#ifndef CARILLON_KERNELS_PAPER_FIG_CONV2_CUH_
#define CARILLON_KERNELS_PAPER_FIG_CONV2_CUH_

#include "kernels/paper/fig_conv.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kFigConv2Colours = 2;  // per tile

CARILLON_BARRIER_KERNEL(fig_conv2, FigConvArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kFigConvX, kFigConvY, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!FigConvFits(args) || args.colours % kFigConv2Colours != 0) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t first_image =
      static_cast<uint64_t>(self.block_index().x) * kFigConvImages;
  if (first_image >= args.image_count) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint32_t tid = self.linear();
  const uint32_t side = FigConvModules(args);
  const uint32_t pixels = args.filter_size * args.filter_size;
  const uint64_t plane =
      static_cast<uint64_t>(args.image_size) * args.image_size;
  const uint32_t groups = args.filter_count / kFigConvFilters;
  const uint64_t work = static_cast<uint64_t>(side) * side * groups;
  float* filter_tile =
      self.shared<float>(0, kFigConv2Colours * kFigConvFilters);
  float* image_tile =
      self.shared<float>(kFigConv2Colours * kFigConvFilters * sizeof(float),
                         kFigConv2Colours * kFigConvImages);

  for (uint64_t w = self.block_index().y; w < work; w += self.grid_dim().y) {
    const uint32_t module = static_cast<uint32_t>(w / groups);
    const uint32_t first_filter =
        static_cast<uint32_t>(w % groups) * kFigConvFilters;
    const uint32_t top = module / side * args.stride;
    const uint32_t left = module % side * args.stride;
    float sums[kFigConvPerThread * kFigConvPerThread];
    CARILLON_UNROLL
    for (uint32_t f = 0; f < kFigConvPerThread; ++f) {
      CARILLON_UNROLL
      for (uint32_t i = 0; i < kFigConvPerThread; ++i) {
        sums[f * kFigConvPerThread + i] = 0.0f;
      }
    }
    for (uint32_t colour = 0; colour < args.colours;
         colour += kFigConv2Colours) {
      for (uint32_t pixel = 0; pixel < pixels; ++pixel) {
        if (tid < kFigConv2Colours * kFigConvFilters) {
          const uint64_t weight =
              static_cast<uint64_t>(colour + tid / kFigConvFilters) * pixels +
              pixel;
          filter_tile[tid] = args.filters[weight * args.filter_count +
                                          first_filter + tid % kFigConvFilters];
        }
        const uint64_t at =
            static_cast<uint64_t>(top + pixel / args.filter_size) *
                args.image_size +
            left + pixel % args.filter_size;
        CARILLON_UNROLL
        for (uint32_t c = 0; c < kFigConv2Colours; ++c) {
          image_tile[c * kFigConvImages + tid] =
              args.images[((colour + c) * plane + at) * args.image_count +
                          first_image + tid];
        }
        CARILLON_SYNC_THREADS(self);
        CARILLON_UNROLL
        for (uint32_t c = 0; c < kFigConv2Colours; ++c) {
          CARILLON_UNROLL
          for (uint32_t f = 0; f < kFigConvPerThread; ++f) {
            CARILLON_UNROLL
            for (uint32_t i = 0; i < kFigConvPerThread; ++i) {
              sums[f * kFigConvPerThread + i] +=
                  image_tile[c * kFigConvImages + x + i * kFigConvX] *
                  filter_tile[c * kFigConvFilters + y + f * kFigConvY];
            }
          }
        }
        CARILLON_SYNC_THREADS(self);
      }
    }
    CARILLON_UNROLL
    for (uint32_t f = 0; f < kFigConvPerThread; ++f) {
      const uint64_t filter = first_filter + y + f * kFigConvY;
      float* out = args.targets.data +
                   (filter * side * side + module) * args.image_count;
      CARILLON_UNROLL
      for (uint32_t i = 0; i < kFigConvPerThread; ++i) {
        out[first_image + x + i * kFigConvX] = sums[f * kFigConvPerThread + i];
      }
    }
  }
}

inline const char* CheckFigConv2(const simt::LaunchShape& shape,
                                 const FigConvArgs& args) {
  return args.colours % kFigConv2Colours == 0 ? CheckFigConv(shape, args)
                                              : "colours must be even";
}

CARILLON_KERNEL_INFO(fig_conv2, FigConvArgs,
                     "filters many images of many colours",
                     simt::Registers(40)
                         .Shared(kFigConv2Colours*(kFigConvFilters +
                                                   kFigConvImages) *
                                 sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckFigConvShape>()
                         .Validate<&CheckFigConv2>(),
                     CARILLON_FIG_CONV_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_CONV2_CUH_
