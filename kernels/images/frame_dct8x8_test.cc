#include "kernels/images/frame_dct8x8.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

std::vector<uint8_t> RandomBytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(FrameDct8x8, TransformsTheProcessedImageAndCopiesTheTag) {
  constexpr uint32_t kWidth = 61;
  constexpr uint32_t kHeight = 43;
  constexpr size_t kPixels = size_t{kWidth} * kHeight;
  constexpr size_t kBlocks = 8 * 6;
  const std::vector<uint8_t> image = RandomBytes(kPixels, 1);
  std::vector<float> expected(kBlocks * 64);
  ASSERT_EQ(
      RunGrid(dct8x8_info, {2, 1, 1}, {32, 1, 1},
              Dct8x8Args{ReadOnly(image), Writable(expected), kWidth, kHeight})
          .status,
      simt::kFailNone);
  // More bytes than threads, fewer, and none.
  for (const size_t bytes : {200u, 7u, 0u}) {
    const std::vector<uint8_t> frame = RandomBytes(kPixels + 200, 2);
    std::vector<uint8_t> tag(bytes);
    std::vector<float> found(kBlocks * 64);
    ASSERT_EQ(
        RunGrid(frame_dct8x8_info, {2, 1, 1}, {32, 1, 1},
                FrameDct8x8Args{ReadOnly(frame), ReadOnly(image), Writable(tag),
                                Writable(found), kWidth, kHeight})
            .status,
        simt::kFailNone);
    EXPECT_EQ(found, expected);
    EXPECT_TRUE(std::equal(tag.begin(), tag.end(), frame.begin() + kPixels));
  }
}

TEST(FrameDct8x8, BuffersThatAreTooSmallFailAndTouchNothing) {
  std::vector<uint8_t> frame(8 * 8 + 10);
  std::vector<uint8_t> image(8 * 8);
  std::vector<uint8_t> tag(10, 7);
  std::vector<float> out(64, 5.0f);
  const FrameDct8x8Args good{
      ReadOnly(frame), ReadOnly(image), Writable(tag), Writable(out), 8, 8};
  EXPECT_EQ(frame_dct8x8_info.validate({{}, {32, 1, 1}}, &good), nullptr);
  std::vector<FrameDct8x8Args> bad(5, good);
  bad[0].frame.size = 63;
  bad[1].frame.size = 73;
  bad[2].image.size = 63;
  bad[3].coefficients.size = 63;
  bad[4].width = bad[4].height = 0xffffffff;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(frame_dct8x8_info, {}, {32, 1, 1}, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(frame_dct8x8_info.validate({{}, {32, 1, 1}}, &bad[i]), nullptr)
        << i;
  }
  EXPECT_EQ(tag, std::vector<uint8_t>(10, 7));
  EXPECT_EQ(out, std::vector<float>(64, 5.0f));
}

}  // namespace
}  // namespace carillon::kernels
