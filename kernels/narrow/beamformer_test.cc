#include "kernels/narrow/beamformer.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "kernels/narrow/references.h"
#include "kernels/narrow/types.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using reference::Samples;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

std::vector<Complex> Noise(std::mt19937* random, size_t size) {
  const auto value = [random] {
    return static_cast<float>((*random)() % 2001) / 1000.0f - 1.0f;
  };
  std::vector<Complex> values(size);
  for (Complex& x : values) x = {value(), value()};
  return values;
}

Samples Widened(const std::vector<Complex>& values) {
  Samples samples;
  for (const Complex& x : values) samples.emplace_back(x.real, x.imaginary);
  return samples;
}

void ExpectNear(const std::vector<Complex>& found, const Samples& expected,
                double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i].real, expected[i].real(), tolerance) << i;
    ASSERT_NEAR(found[i].imaginary, expected[i].imag(), tolerance) << i;
  }
}

std::vector<Complex> Fir(const std::vector<Complex>& signal,
                         const std::vector<Complex>& filter, uint32_t factor,
                         uint32_t blocks, uint32_t threads) {
  std::vector<Complex> out((signal.size() + factor - 1) / factor, {1e9f, 1e9f});
  const BeamFirArgs args{ReadOnly(signal),
                         ReadOnly(filter),
                         Writable(out),
                         static_cast<uint32_t>(signal.size()),
                         static_cast<uint32_t>(filter.size()),
                         factor};
  EXPECT_EQ(RunGrid(beam_fir_info, {blocks, 1, 1}, {threads, 1, 1}, args,
                    {.workers = 2})
                .status,
            simt::kFailNone);
  return out;
}

struct Case {
  uint32_t length, taps, factor, blocks, threads;
};

TEST(BeamFir, IsTheConvolutionOfComplexNumbers) {
  std::mt19937 random(6);
  for (const Case& c : std::vector<Case>{{2048, 256, 1, 1, 128},
                                         {2048, 256, 2, 1, 128},
                                         {1023, 64, 2, 2, 32},
                                         {1, 1, 1, 1, 128},
                                         {9, 200, 4, 1, 256},
                                         {50, 3, 51, 1, 7}}) {
    const std::vector<Complex> signal = Noise(&random, c.length);
    const std::vector<Complex> filter = Noise(&random, c.taps);
    ExpectNear(
        Fir(signal, filter, c.factor, c.blocks, c.threads),
        reference::Decimated(
            reference::Convolution(Widened(signal), Widened(filter)), c.factor),
        1e-3);
  }
}

TEST(BeamForm, IsTheWeightedSumOfAllChannels) {
  std::mt19937 random(7);
  for (const auto& [channels, length] :
       {std::pair{12u, 1024u}, std::pair{1u, 1u}, std::pair{5u, 77u}}) {
    const std::vector<Complex> samples = Noise(&random, channels * length);
    const std::vector<Complex> weights = Noise(&random, channels);
    std::vector<Complex> beam(length, {1e9f, 1e9f});
    ASSERT_EQ(RunGrid(beam_form_info, {2, 1, 1}, {64, 1, 1},
                      BeamFormArgs{ReadOnly(samples), ReadOnly(weights),
                                   Writable(beam), channels, length},
                      {.workers = 2})
                  .status,
              simt::kFailNone);
    const Samples all = Widened(samples);
    std::vector<Samples> by_channel;
    for (uint32_t i = 0; i < channels; ++i) {
      by_channel.emplace_back(all.begin() + i * length,
                              all.begin() + (i + 1) * length);
    }
    ExpectNear(beam, reference::WeightedSum(by_channel, Widened(weights)),
               1e-4);
  }
}

// What a beamformer is for: of a plane wave that reaches a line of antennas at an
// angle, a beam that points there receives all, and others little.
TEST(Beamformer, ABeamReceivesTheWaveThatItPointsAt) {
  constexpr uint32_t kChannels = 12;
  constexpr uint32_t kLength = 64;
  const auto phase = [](double angle, uint32_t channel) {
    // Half a wave length between antennas.
    return std::polar(1.0, std::numbers::pi * channel * std::sin(angle));
  };
  const auto narrowed = [](std::complex<double> value) {
    return Complex{static_cast<float>(value.real()),
                   static_cast<float>(value.imag())};
  };
  std::vector<Complex> samples;
  for (uint32_t channel = 0; channel < kChannels; ++channel) {
    for (uint32_t i = 0; i < kLength; ++i) {
      samples.push_back(
          narrowed(std::polar(1.0, 0.3 * i) * phase(0.4, channel)));
    }
  }
  // Filters that let everything pass.
  std::vector<Complex> passed;
  for (uint32_t channel = 0; channel < kChannels; ++channel) {
    const auto begin = samples.begin() + channel * kLength;
    const std::vector<Complex> one =
        Fir({begin, begin + kLength}, {{1, 0}}, 2, 1, 32);
    passed.insert(passed.end(), one.begin(), one.end());
  }
  for (const double angle : {-0.8, 0.0, 0.4, 1.0}) {
    std::vector<Complex> weights;
    for (uint32_t channel = 0; channel < kChannels; ++channel) {
      weights.push_back(narrowed(std::conj(phase(angle, channel))));
    }
    std::vector<Complex> beam(kLength / 2);
    ASSERT_EQ(RunGrid(beam_form_info, {1, 1, 1}, {32, 1, 1},
                      BeamFormArgs{ReadOnly(passed), ReadOnly(weights),
                                   Writable(beam), kChannels, kLength / 2})
                  .status,
              simt::kFailNone);
    for (const Complex& x : beam) {
      const double amplitude = std::hypot(x.real, x.imaginary);
      if (angle == 0.4) {
        EXPECT_NEAR(amplitude, kChannels, 1e-3);
      } else {
        EXPECT_LT(amplitude, 0.25 * kChannels) << angle;
      }
    }
  }
}

TEST(BeamFir, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<Complex> signal(51), filter(6), out(26, {5, 5});
  const BeamFirArgs good{
      ReadOnly(signal), ReadOnly(filter), Writable(out), 51, 6, 2};
  std::vector<BeamFirArgs> bad(9, good);
  bad[0].signal.size = 50;
  bad[1].filter.size = 5;
  bad[2].out.size = 25;
  bad[3].length = 0;
  bad[4].taps = 0;
  bad[5].factor = 0;
  bad[6].factor = 1;
  bad[7].length = 0xffffffff;
  bad[8].taps = 0xffffffff;
  const simt::LaunchShape shape{{1, 1, 1}, {32, 1, 1}};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(beam_fir_info, shape.grid, shape.block, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(beam_fir_info.validate(shape, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(beam_fir_info.validate(shape, &good), nullptr);
  for (const Complex& x : out) EXPECT_EQ(x.real, 5);
}

TEST(BeamForm, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<Complex> channels(3 * 20), weights(3), beam(20, {5, 5});
  const BeamFormArgs good{ReadOnly(channels), ReadOnly(weights), Writable(beam),
                          3, 20};
  std::vector<BeamFormArgs> bad(7, good);
  bad[0].channels.size = 59;
  bad[1].weights.size = 2;
  bad[2].beam.size = 19;
  bad[3].channel_count = 0;
  bad[4].length = 0;
  bad[5].channel_count = 0xffffffff;
  bad[6].length = 0xffffffff;
  const simt::LaunchShape shape{{1, 1, 1}, {32, 1, 1}};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(beam_form_info, shape.grid, shape.block, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(beam_form_info.validate(shape, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(beam_form_info.validate(shape, &good), nullptr);
  for (const Complex& x : beam) EXPECT_EQ(x.real, 5);
}

}  // namespace
}  // namespace carillon::kernels
