#include "kernels/narrow/filter_bank.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "kernels/narrow/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using reference::Samples;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

std::vector<float> Noise(std::mt19937* random, size_t size) {
  std::vector<float> values(size);
  for (float& x : values) {
    x = static_cast<float>((*random)() % 2001) / 1000.0f - 1.0f;
  }
  return values;
}

Samples Widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

struct Task {
  std::vector<float> signal, analysis, synthesis;
  uint32_t factor;
  std::vector<float> filtered = std::vector<float>(signal.size(), 1e9f);
  std::vector<float> kept = filtered;
  std::vector<float> out = filtered;

  FilterBankArgs args() {
    return {ReadOnly(signal),
            ReadOnly(analysis),
            ReadOnly(synthesis),
            Writable(filtered),
            Writable(kept),
            Writable(out),
            static_cast<uint32_t>(signal.size()),
            static_cast<uint32_t>(analysis.size()),
            factor};
  }
};

struct Case {
  uint32_t length, taps, factor, threads;
};

TEST(FilterBank, FiltersDropsAndFiltersAgain) {
  std::mt19937 random(4);
  for (const Case& c : std::vector<Case>{{2048, 64, 8, 128},
                                         {2048, 64, 8, 32},
                                         {1999, 64, 8, 256},
                                         {1, 1, 1, 128},
                                         {5, 64, 8, 96},
                                         {300, 7, 301, 33},
                                         {64, 5, 1, 1}}) {
    Task task{Noise(&random, c.length), Noise(&random, c.taps),
              Noise(&random, c.taps), c.factor};
    ASSERT_EQ(
        RunGrid(filter_bank_info, {1, 1, 1}, {c.threads, 1, 1}, task.args())
            .status,
        simt::kFailNone);
    const Samples filtered =
        reference::Convolution(Widened(task.signal), Widened(task.analysis));
    const Samples kept = reference::Expanded(
        reference::Decimated(filtered, c.factor), c.factor, c.length);
    const Samples out = reference::Convolution(kept, Widened(task.synthesis));
    for (uint32_t i = 0; i < c.length; ++i) {
      ASSERT_NEAR(task.filtered[i], filtered[i].real(), 1e-4) << i;
      ASSERT_NEAR(task.kept[i], kept[i].real(), 1e-4) << i;
      ASSERT_NEAR(task.out[i], out[i].real(), 1e-3) << i;
    }
  }
}

// The rows of an orthonormal DCT-IV, backwards and forwards, are a bank of 8
// branches that gives the signal back, 7 samples later.
TEST(FilterBank, AnOrthonormalBankGivesTheSignalBack) {
  constexpr uint32_t kBranches = 8;
  std::mt19937 random(5);
  const std::vector<float> signal = Noise(&random, 200);
  std::vector<double> sum(signal.size());
  for (uint32_t branch = 0; branch < kBranches; ++branch) {
    Task task{signal, std::vector<float>(kBranches),
              std::vector<float>(kBranches), kBranches};
    for (uint32_t k = 0; k < kBranches; ++k) {
      const double value = 0.5 * std::cos(std::numbers::pi / kBranches *
                                          (branch + 0.5) * (k + 0.5));
      task.synthesis[k] = static_cast<float>(value);
      task.analysis[kBranches - 1 - k] = static_cast<float>(value);
    }
    ASSERT_EQ(
        RunGrid(filter_bank_info, {1, 1, 1}, {128, 1, 1}, task.args()).status,
        simt::kFailNone);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += task.out[i];
  }
  for (size_t i = kBranches; i < sum.size(); ++i) {
    ASSERT_NEAR(sum[i], signal[i - (kBranches - 1)], 1e-5) << i;
  }
}

TEST(FilterBank, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Task task{std::vector<float>(50, 1.0f), std::vector<float>(6, 1.0f),
            std::vector<float>(6, 1.0f), 2};
  const FilterBankArgs good = task.args();
  std::vector<FilterBankArgs> bad(11, good);
  bad[0].signal.size = 49;
  bad[1].filtered.size = 49;
  bad[2].kept.size = 49;
  bad[3].out.size = 49;
  bad[4].analysis.size = 5;
  bad[5].synthesis.size = 5;
  bad[6].length = 0;
  bad[7].taps = 0;
  bad[8].factor = 0;
  bad[9].length = 0xffffffff;
  bad[10].taps = 0xffffffff;
  const simt::LaunchShape shape{{1, 1, 1}, {32, 1, 1}};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(filter_bank_info, shape.grid, shape.block, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(filter_bank_info.validate(shape, &bad[i]), nullptr) << i;
  }
  const simt::LaunchShape two{{2, 1, 1}, {32, 1, 1}};
  EXPECT_EQ(RunGrid(filter_bank_info, two.grid, two.block, good).status,
            simt::kFailBadShape);
  EXPECT_NE(filter_bank_info.check_shape(two), nullptr);
  EXPECT_NE(filter_bank_info.validate(two, &good), nullptr);
  EXPECT_EQ(filter_bank_info.validate(shape, &good), nullptr);
  EXPECT_EQ(task.out, std::vector<float>(50, 1e9f));
}

}  // namespace
}  // namespace carillon::kernels
