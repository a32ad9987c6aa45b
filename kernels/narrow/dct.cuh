// dct8x8_plain and dct8x8_shared: what dct8x8 computes, by threads that share a
// block of 8x8 samples (Pagoda's DCT): first each transforms rows, then columns.
// In between, the rows lie in the output buffer (dct8x8_plain) or in shared memory
// (dct8x8_shared). Any number of blocks of any number of threads; a block does 16
// blocks of samples at a time.
#ifndef CARILLON_KERNELS_NARROW_DCT_CUH_
#define CARILLON_KERNELS_NARROW_DCT_CUH_

#include "kernels/images/dct8x8.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kDctBlocks = 16;
// The elements from one row to the next in shared memory: odd, so that threads
// that write rows meet in no memory bank.
inline constexpr uint32_t kDctPitch = 9;

CARILLON_HOST_DEVICE uint64_t DctBlocksOf(const Dct8x8Args& args) {
  return (static_cast<uint64_t>(args.width) + 7) / 8 *
         ((static_cast<uint64_t>(args.height) + 7) / 8);
}

CARILLON_HOST_DEVICE bool NarrowDctFits(const Dct8x8Args& args) {
  const uint64_t pixels = static_cast<uint64_t>(args.width) * args.height;
  return pixels != 0 && pixels <= args.image.size &&
         DctBlocksOf(args) <= args.coefficients.size / 64;
}

// Transforms row y of a block of samples into to[0..8).
CARILLON_DEVICE void DctRow(const Dct8x8Args& args, uint64_t block, uint32_t y,
                            float* to) {
  const uint32_t blocks_x =
      static_cast<uint32_t>((static_cast<uint64_t>(args.width) + 7) / 8);
  const uint64_t left = block % blocks_x * 8;
  const uint64_t top = block / blocks_x * 8 + y;
  const uint8_t* row = args.image.data +
                       (top < args.height ? top : args.height - 1) * args.width;
  float v[8];
  CARILLON_UNROLL
  for (uint32_t x = 0; x < 8; ++x) {
    const uint64_t column = left + x < args.width ? left + x : args.width - 1;
    v[x] = static_cast<float>(row[column]) - 128.0f;
  }
  Dct8(v, 1);
  CARILLON_UNROLL
  for (uint32_t x = 0; x < 8; ++x) to[x] = v[x];
}

// Transforms a column, whose elements lie `pitch` apart, into to[0], to[8], ...
CARILLON_DEVICE void DctColumn(const float* from, uint32_t pitch, float* to) {
  float v[8];
  CARILLON_UNROLL
  for (uint32_t y = 0; y < 8; ++y) v[y] = from[y * pitch];
  Dct8(v, 1);
  CARILLON_UNROLL
  for (uint32_t y = 0; y < 8; ++y) to[y * 8] = v[y];
}

CARILLON_BARRIER_KERNEL(dct8x8_plain, Dct8x8Args, args, self) {
  if (!NarrowDctFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t blocks = DctBlocksOf(args);
  const uint64_t index = self.global_linear() / self.block_threads();
  for (uint64_t first = index * kDctBlocks; first < blocks;
       first += self.grid_dim().count() * kDctBlocks) {
    const uint32_t rows = static_cast<uint32_t>(
        8 * (blocks - first < kDctBlocks ? blocks - first : kDctBlocks));
    float* out = args.coefficients.data + first * 64;
    for (uint32_t i = self.linear(); i < rows; i += self.block_threads()) {
      DctRow(args, first + i / 8, i % 8, out + i * 8);
    }
    CARILLON_SYNC_THREADS(self);
    for (uint32_t i = self.linear(); i < rows; i += self.block_threads()) {
      float* column = out + i / 8 * 64 + i % 8;
      DctColumn(column, 8, column);
    }
  }
}

CARILLON_BARRIER_KERNEL(dct8x8_shared, Dct8x8Args, args, self) {
  if (!NarrowDctFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint64_t blocks = DctBlocksOf(args);
  const uint64_t index = self.global_linear() / self.block_threads();
  float* tile = self.shared<float>(0, kDctBlocks * 8 * kDctPitch);
  for (uint64_t first = index * kDctBlocks; first < blocks;
       first += self.grid_dim().count() * kDctBlocks) {
    const uint32_t rows = static_cast<uint32_t>(
        8 * (blocks - first < kDctBlocks ? blocks - first : kDctBlocks));
    for (uint32_t i = self.linear(); i < rows; i += self.block_threads()) {
      DctRow(args, first + i / 8, i % 8, tile + i * kDctPitch);
    }
    CARILLON_SYNC_THREADS(self);
    float* out = args.coefficients.data + first * 64;
    for (uint32_t i = self.linear(); i < rows; i += self.block_threads()) {
      DctColumn(tile + i / 8 * 8 * kDctPitch + i % 8, kDctPitch,
                out + i / 8 * 64 + i % 8);
    }
    CARILLON_SYNC_THREADS(self);
  }
}

inline const char* CheckNarrowDct(const simt::LaunchShape& shape,
                                  const Dct8x8Args& args) {
  if (args.width == 0 || args.height == 0) {
    return "width and height must not be 0";
  }
  return CheckDct8x8(shape, args);
}

#define CARILLON_NARROW_DCT_PARAMS                                         \
  CARILLON_PARAM(Dct8x8Args, image, "width * height samples, row by row"), \
      CARILLON_PARAM(Dct8x8Args, coefficients,                             \
                     "64 floats a block, as dct8x8"),                      \
      CARILLON_PARAM(Dct8x8Args, width, "of the image, pixels"),           \
      CARILLON_PARAM(Dct8x8Args, height, "of the image, pixels")

CARILLON_KERNEL_INFO(dct8x8_plain, Dct8x8Args,
                     "8x8 DCT-II of a grey image: a narrow task",
                     simt::Registers(32)
                         .From("JPEG, ITU-T T.81 (Pagoda: DCT)")
                         .Oracle("NumPy, SciPy")
                         .LeavesTogether()
                         .Validate<&CheckNarrowDct>(),
                     CARILLON_NARROW_DCT_PARAMS);
CARILLON_KERNEL_INFO(dct8x8_shared, Dct8x8Args,
                     "8x8 DCT-II through shared memory: a narrow task",
                     simt::Registers(32)
                         .From("JPEG, ITU-T T.81 (Pagoda: DCT)")
                         .Oracle("NumPy, SciPy")
                         .Shared(kDctBlocks * 8 * kDctPitch * sizeof(float))
                         .LeavesTogether()
                         .Validate<&CheckNarrowDct>(),
                     CARILLON_NARROW_DCT_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_DCT_CUH_
