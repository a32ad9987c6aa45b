// fig_conv1: a first convolutional layer, of images with one colour
// (filterActs_YxX_color of cuda-convnet): tiles of 4 pixels, two barriers each.
// A background kernel of EDGE's figures; see fig_conv.cuh.
#ifndef CARILLON_KERNELS_PAPER_FIG_CONV1_CUH_
#define CARILLON_KERNELS_PAPER_FIG_CONV1_CUH_

#include "kernels/paper/fig_conv.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kFigConv1Pixels = 4;  // per tile

CARILLON_BARRIER_KERNEL(fig_conv1, FigConvArgs, args, self) {
  if (self.block_dim() != simt::Dim3{kFigConvX, kFigConvY, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!FigConvFits(args) || args.colours != 1) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t first_image =
      static_cast<uint64_t>(self.block_index().x) * kFigConvImages;
  if (first_image >= args.image_count) CARILLON_EXIT;
  const uint32_t x = self.thread_index().x;
  const uint32_t y = self.thread_index().y;
  const uint32_t side = FigConvModules(args);
  const uint32_t pixels = args.filter_size * args.filter_size;
  const uint32_t groups = args.filter_count / kFigConvFilters;
  const uint64_t work = static_cast<uint64_t>(side) * side * groups;
  float* filter_tile = self.shared<float>(0, kFigConv1Pixels * kFigConvFilters);
  float* image_tile =
      self.shared<float>(kFigConv1Pixels * kFigConvFilters * sizeof(float),
                         kFigConv1Pixels * kFigConvImages);

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
    for (uint32_t first = 0; first < pixels; first += kFigConv1Pixels) {
      // Behind the last pixel the tiles hold zeros, which add nothing.
      if (self.linear() < kFigConv1Pixels * kFigConvFilters) {
        const uint32_t pixel = first + self.linear() / kFigConvFilters;
        const uint32_t filter = first_filter + self.linear() % kFigConvFilters;
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
      for (uint32_t i = 0; i < kFigConvPerThread; ++i) {
        image_tile[y * kFigConvImages + x + i * kFigConvX] =
            pixel < pixels ? row[first_image + x + i * kFigConvX] : 0.0f;
      }
      CARILLON_SYNC_THREADS(self);
      CARILLON_UNROLL
      for (uint32_t p = 0; p < kFigConv1Pixels; ++p) {
        CARILLON_UNROLL
        for (uint32_t f = 0; f < kFigConvPerThread; ++f) {
          CARILLON_UNROLL
          for (uint32_t i = 0; i < kFigConvPerThread; ++i) {
            sums[f * kFigConvPerThread + i] +=
                image_tile[p * kFigConvImages + x + i * kFigConvX] *
                filter_tile[p * kFigConvFilters + y + f * kFigConvY];
          }
        }
      }
      CARILLON_SYNC_THREADS(self);
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

inline const char* CheckFigConv1(const simt::LaunchShape& shape,
                                 const FigConvArgs& args) {
  return args.colours == 1 ? CheckFigConv(shape, args) : "colours must be 1";
}

CARILLON_KERNEL_INFO(fig_conv1, FigConvArgs,
                     "filters many images of one colour",
                     simt::Registers(46)
                         .Shared(kFigConv1Pixels*(kFigConvFilters +
                                                  kFigConvImages) *
                                 sizeof(float))
                         .LeavesTogether()
                         .Shape<&CheckFigConvShape>()
                         .Validate<&CheckFigConv1>(),
                     CARILLON_FIG_CONV_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_CONV1_CUH_
