#include "kernels/narrow/dct.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/narrow/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const simt::KernelInfo* const kKernels[] = {&dct8x8_plain_info,
                                            &dct8x8_shared_info};

struct Case {
  uint32_t width, height, blocks, threads;
};

TEST(NarrowDct, EqualsTheDefinitionForEverySizeAndShape) {
  std::mt19937 random(2);
  for (const Case& c : std::vector<Case>{{128, 128, 1, 128},
                                         {64, 64, 1, 64},
                                         {1, 1, 1, 1},
                                         {7, 9, 1, 32},
                                         {101, 83, 3, 256},
                                         {100, 8, 2, 5},
                                         {16, 33, 1, 1024}}) {
    std::vector<uint8_t> image(c.width * c.height);
    for (uint8_t& pixel : image) pixel = static_cast<uint8_t>(random());
    const uint32_t blocks_x = (c.width + 7) / 8;
    const uint32_t blocks = blocks_x * ((c.height + 7) / 8);
    for (const simt::KernelInfo* kernel : kKernels) {
      std::vector<float> out(blocks * 64, 1e9f);
      ASSERT_EQ(
          RunGrid(*kernel, {c.blocks, 1, 1}, {c.threads, 1, 1},
                  Dct8x8Args{ReadOnly(image), Writable(out), c.width, c.height},
                  {.workers = 2})
              .status,
          simt::kFailNone);
      for (uint32_t b = 0; b < blocks; ++b) {
        for (int v = 0; v < 8; ++v) {
          for (int u = 0; u < 8; ++u) {
            ASSERT_NEAR(out[b * 64 + v * 8 + u],
                        reference::DctCoefficient(image, c.width, c.height,
                                                  b % blocks_x * 8,
                                                  b / blocks_x * 8, u, v),
                        1e-3)
                << kernel->name << " " << c.width << "x" << c.height
                << " block " << b << " u" << u << " v" << v;
          }
        }
      }
    }
  }
}

TEST(NarrowDct, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<uint8_t> image(9 * 8);
  std::vector<float> out(128, 5.0f);
  const Dct8x8Args good{ReadOnly(image), Writable(out), 9, 8};
  std::vector<Dct8x8Args> bad(6, good);
  bad[0].image.size = 71;
  bad[1].coefficients.size = 127;
  bad[2].width = 0xffffffff;
  bad[3].height = 0xffffffff;
  bad[4].width = 0;
  bad[5].height = 0;
  const simt::LaunchShape shape{{1, 1, 1}, {32, 1, 1}};
  for (const simt::KernelInfo* kernel : kKernels) {
    for (size_t i = 0; i < bad.size(); ++i) {
      EXPECT_EQ(RunGrid(*kernel, shape.grid, shape.block, bad[i]).status,
                simt::kFailBadArguments)
          << kernel->name << i;
      EXPECT_NE(kernel->validate(shape, &bad[i]), nullptr) << kernel->name << i;
    }
    EXPECT_EQ(kernel->validate(shape, &good), nullptr);
  }
  EXPECT_EQ(out, std::vector<float>(128, 5.0f));
}

}  // namespace
}  // namespace carillon::kernels
