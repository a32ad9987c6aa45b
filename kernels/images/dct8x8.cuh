// dct8x8: the forward DCT of baseline JPEG on a grey image: an orthonormal 8x8
// DCT-II of the samples minus 128. Each thread transforms one 8x8 block in
// registers, so a warp-sized event transforms 32 blocks.
#ifndef CARILLON_KERNELS_IMAGES_DCT8X8_CUH_
#define CARILLON_KERNELS_IMAGES_DCT8X8_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct Dct8x8Args {
  simt::Span<const uint8_t> image;
  simt::Span<float> coefficients;
  uint32_t width;
  uint32_t height;
};

// The 8-point orthonormal DCT-II of v[0], v[stride], ..., in place.
CARILLON_DEVICE void Dct8(float* v, int stride) {
  // cos(k pi / 16) / 2, and for k = 4 also the DC term's 1 / sqrt(8).
  constexpr float kC1 = 0.49039264020161522f;
  constexpr float kC2 = 0.46193976625564337f;
  constexpr float kC3 = 0.41573480615127262f;
  constexpr float kC4 = 0.35355339059327379f;
  constexpr float kC5 = 0.27778511650980114f;
  constexpr float kC6 = 0.19134171618254492f;
  constexpr float kC7 = 0.09754516100806412f;

  const float s0 = v[0] + v[7 * stride];
  const float s1 = v[1 * stride] + v[6 * stride];
  const float s2 = v[2 * stride] + v[5 * stride];
  const float s3 = v[3 * stride] + v[4 * stride];
  const float d0 = v[0] - v[7 * stride];
  const float d1 = v[1 * stride] - v[6 * stride];
  const float d2 = v[2 * stride] - v[5 * stride];
  const float d3 = v[3 * stride] - v[4 * stride];

  const float t0 = s0 + s3;
  const float t1 = s1 + s2;
  const float t2 = s0 - s3;
  const float t3 = s1 - s2;
  v[0] = kC4 * (t0 + t1);
  v[4 * stride] = kC4 * (t0 - t1);
  v[2 * stride] = kC2 * t2 + kC6 * t3;
  v[6 * stride] = kC6 * t2 - kC2 * t3;
  v[1 * stride] = kC1 * d0 + kC3 * d1 + kC5 * d2 + kC7 * d3;
  v[3 * stride] = kC3 * d0 - kC7 * d1 - kC1 * d2 - kC5 * d3;
  v[5 * stride] = kC5 * d0 - kC1 * d1 + kC7 * d2 + kC3 * d3;
  v[7 * stride] = kC7 * d0 - kC5 * d1 + kC3 * d2 - kC1 * d3;
}

// Block number `block` of the image, row by row, to 64 floats. Blocks at the
// right and lower edge repeat the last column and row.
CARILLON_DEVICE void DctBlock(const uint8_t* image, uint64_t width,
                              uint64_t height, uint64_t block, float* out) {
  const uint64_t blocks_x = (width + 7) / 8;
  const uint64_t left = block % blocks_x * 8;
  const uint64_t top = block / blocks_x * 8;
  uint32_t columns[8];
  CARILLON_UNROLL
  for (uint32_t x = 0; x < 8; ++x) {
    columns[x] = static_cast<uint32_t>(left + x < width ? left + x : width - 1);
  }
  float v[64];
  CARILLON_UNROLL
  for (uint32_t y = 0; y < 8; ++y) {
    const uint8_t* row =
        image + (top + y < height ? top + y : height - 1) * width;
    CARILLON_UNROLL
    for (uint32_t x = 0; x < 8; ++x) {
      v[y * 8 + x] = static_cast<float>(row[columns[x]]) - 128.0f;
    }
    Dct8(v + y * 8, 1);
  }
  CARILLON_UNROLL
  for (uint32_t x = 0; x < 8; ++x) {
    Dct8(v + x, 8);
    CARILLON_UNROLL
    for (uint32_t y = 0; y < 8; ++y) out[y * 8 + x] = v[y * 8 + x];
  }
}

// The grid may have any size: threads go on in steps of the grid's size until
// all blocks are done.
CARILLON_KERNEL(dct8x8, Dct8x8Args, args, self) {
  const uint64_t width = args.width;
  const uint64_t height = args.height;
  const uint64_t blocks = (width + 7) / 8 * ((height + 7) / 8);
  if (args.image.size < width * height ||
      args.coefficients.size / 64 < blocks) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  for (uint64_t block = self.global_linear(); block < blocks;
       block += self.grid_threads()) {
    DctBlock(args.image.data, width, height, block,
             args.coefficients.data + block * 64);
  }
}

inline const char* CheckDct8x8(const simt::LaunchShape&,
                               const Dct8x8Args& args) {
  const uint64_t width = args.width;
  const uint64_t height = args.height;
  if (args.image.size < width * height) {
    return "image must have width * height bytes";
  }
  if (args.coefficients.size / 64 < (width + 7) / 8 * ((height + 7) / 8)) {
    return "coefficients must have 64 floats for every 8x8 block, "
           "ceil(width / 8) * ceil(height / 8) of them";
  }
  return nullptr;
}

CARILLON_KERNEL_INFO(
    dct8x8, Dct8x8Args, "8x8 DCT-II of a grey image, as in JPEG",
    simt::Registers(96)
        .From("JPEG, ITU-T T.81")
        .Oracle("NumPy, SciPy")
        .Validate<&CheckDct8x8>(),
    CARILLON_PARAM(Dct8x8Args, image, "width * height samples, row by row"),
    CARILLON_PARAM(Dct8x8Args, coefficients,
                   "64 floats a block, blocks row by row, in each block "
                   "[vertical frequency][horizontal frequency]"),
    CARILLON_PARAM(Dct8x8Args, width, "of the image, pixels"),
    CARILLON_PARAM(Dct8x8Args, height, "of the image, pixels"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_IMAGES_DCT8X8_CUH_
