#include "kernels/background/mri_q.cuh"

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/background/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

struct Scan {
  Scan(uint32_t voxels, uint32_t sample_count)
      : samples(sample_count),
        x(voxels),
        y(voxels),
        z(voxels),
        real(voxels, -99.0f),
        imaginary(voxels, -99.0f) {
    std::mt19937 random(voxels);
    // Several turns.
    const auto number = [&random] {
      return static_cast<float>(random() % 2001) / 500 - 2;
    };
    for (MriSample& k : samples) {
      k = {number(), number(), number(), static_cast<float>(random() % 8)};
    }
    for (uint32_t i = 0; i < voxels; ++i) {
      x[i] = number();
      y[i] = number();
      z[i] = number();
    }
  }
  MriQArgs args() {
    return {ReadOnly(samples), ReadOnly(x),    ReadOnly(y),
            ReadOnly(z),       Writable(real), Writable(imaginary)};
  }

  std::vector<MriSample> samples;
  std::vector<float> x, y, z, real, imaginary;
};

TEST(MriQ, AddsUpTheWavesOfAllSamples) {
  for (const uint32_t voxels : {1u, 256u, 700u}) {
    for (const uint32_t samples : {0u, 1u, 256u, 1000u}) {
      Scan scan(voxels, samples);
      const simt::Dim3 grid{(voxels + 255) / 256, 1, 1};
      const MriQArgs args = scan.args();
      EXPECT_EQ(mri_q_info.validate({grid, {256, 1, 1}}, &args), nullptr);
      ASSERT_EQ(
          RunGrid(mri_q_info, grid, {256, 1, 1}, args, {.workers = 2}).status,
          simt::kFailNone);
      for (uint32_t i = 0; i < voxels; ++i) {
        const std::complex<double> expected =
            reference::MriQ(scan.samples, scan.x[i], scan.y[i], scan.z[i]);
        const double tolerance = 2e-5 * (1 + samples);
        ASSERT_NEAR(scan.real[i], expected.real(), tolerance) << i;
        ASSERT_NEAR(scan.imaginary[i], expected.imag(), tolerance) << i;
      }
    }
  }
}

TEST(MriQ, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Scan scan(300, 20);
  const MriQArgs good = scan.args();
  std::vector<MriQArgs> bad(4, good);
  bad[0].y.size -= 1;
  bad[1].z.size -= 1;
  bad[2].real.size -= 1;
  bad[3].imaginary.size -= 1;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(mri_q_info, {2, 1, 1}, {256, 1, 1}, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(mri_q_info.validate({{2, 1, 1}, {256, 1, 1}}, &bad[i]), nullptr)
        << i;
  }
  EXPECT_EQ(RunGrid(mri_q_info, {2, 1, 1}, {128, 1, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(mri_q_info.check_shape({{2, 1, 1}, {128, 1, 1}}), nullptr);
  EXPECT_NE(mri_q_info.validate({{1, 1, 1}, {256, 1, 1}}, &good), nullptr);
  EXPECT_EQ(mri_q_info.validate({{2, 1, 1}, {256, 1, 1}}, &good), nullptr);
  EXPECT_EQ(scan.real, std::vector<float>(300, -99.0f));
}

}  // namespace
}  // namespace carillon::kernels
