#include "devices/fpga/cardiac_wave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "devices/fpga/activation_map.h"
#include "devices/fpga/image.h"
#include "devices/fpga/references.h"

namespace carillon::fpga {
namespace {

std::vector<uint8_t> Frame(const CardiacWave& wave, uint64_t index) {
  std::vector<uint8_t> pixels(uint64_t{wave.width()} * wave.height());
  wave.Render(index, pixels);
  return pixels;
}

TEST(CardiacWaveTest, EachPixelPassesTheThresholdAtItsActivationTime) {
  const CardiacWave wave(50, 40);
  for (uint64_t pixel = 0; pixel < 2000; pixel += 37) {
    const double time = wave.ActivationTime(pixel);
    const auto before = static_cast<uint64_t>(std::floor(time));
    // Below until the last frame before it, above from the first frame after it
    // on.
    EXPECT_LE(Frame(wave, before)[pixel], std::ceil(CardiacWave::kThreshold))
        << pixel;
    EXPECT_GE(Frame(wave, before + 1)[pixel],
              std::floor(CardiacWave::kThreshold))
        << pixel;
  }
}

TEST(CardiacWaveTest, TheWaveTravelsAtItsSpeedFromOnePoint) {
  const CardiacWave wave(200, 100);
  // Along a line through the source (a third of the way down), neighbours are
  // 1/speed apart.
  const uint64_t row = 33 * 200;
  for (uint64_t x = 0; x + 1 < 200; ++x) {
    EXPECT_NEAR(wave.ActivationTime(row + x + 1) - wave.ActivationTime(row + x),
                1 / CardiacWave::kSpeed, 0.02);
  }
}

TEST(CardiacWaveTest, FramesGoFromRestToExcitationAndRepeatEveryPeriod) {
  const CardiacWave wave(64, 64);
  uint8_t lowest = 255;
  uint8_t highest = 0;
  for (uint64_t i = 0; i < CardiacWave::kPeriod; ++i) {
    const auto frame = Frame(wave, i);
    lowest = std::min(lowest, *std::min_element(frame.begin(), frame.end()));
    highest = std::max(highest, *std::max_element(frame.begin(), frame.end()));
  }
  EXPECT_EQ(lowest, CardiacWave::kResting);
  EXPECT_EQ(highest, CardiacWave::kExcited);
  EXPECT_EQ(Frame(wave, 17), Frame(wave, 17 + 3 * CardiacWave::kPeriod));
  EXPECT_NE(Frame(wave, 17), Frame(wave, 18));
}

TEST(CardiacWaveTest, APixelsCourseHasNoSeam) {
  const CardiacWave wave(8, 8);
  // Steepest where the front passes: a quarter of the amplitude times speed
  // over front width.
  const double steepest = (CardiacWave::kExcited - CardiacWave::kResting) /
                          4.0 * CardiacWave::kSpeed / CardiacWave::kFrontWidth;
  for (uint64_t i = 0; i < 2 * CardiacWave::kPeriod; ++i) {
    EXPECT_LE(std::abs(Frame(wave, i + 1)[20] - Frame(wave, i)[20]),
              steepest + 1)
        << i;
  }
}

class ActivationMapTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kWidth = 96;
  static constexpr uint32_t kHeight = 64;
  static constexpr uint64_t kPixels = kWidth * kHeight;
  static constexpr uint64_t kPeriod = CardiacWave::kPeriod;

  const CardiacWave wave_{kWidth, kHeight};
  ActivationMap map_{&wave_};
};

TEST_F(ActivationMapTest, RecoversEveryActivationOfEveryBeat) {
  for (uint64_t i = 0; i <= 2 * kPeriod; ++i) map_.Add(i, Frame(wave_, i));
  EXPECT_EQ(map_.activations(), 2 * kPixels);
  EXPECT_EQ(map_.errors(), 0u);
  EXPECT_LT(map_.largest_error(), 0.1);
}

TEST_F(ActivationMapTest, SmoothingMovesNoActivationByMoreThanTheTolerance) {
  constexpr std::array<int32_t, 25> kBinomial = {
      1,  4, 6, 4,  1,  4,  16, 24, 16, 4, 6, 24, 36,
      24, 6, 4, 16, 24, 16, 4,  1,  4,  6, 4, 1};
  for (uint64_t i = 0; i <= kPeriod; ++i) {
    const GreyImage frame{
        .width = kWidth, .height = kHeight, .pixels = Frame(wave_, i)};
    map_.Add(i, Conv5x5(frame, kBinomial, 8).pixels);
  }
  EXPECT_EQ(map_.activations(), kPixels);
  EXPECT_EQ(map_.errors(), 0u);
  EXPECT_LT(map_.largest_error(), ActivationMap::kTolerance);
}

TEST_F(ActivationMapTest, FramesThatComeLateAreFoundOut) {
  for (uint64_t i = 0; i <= kPeriod; ++i)
    map_.Add(i, Frame(wave_, i + kPeriod - 2));
  EXPECT_EQ(map_.errors(), kPixels);
  EXPECT_NEAR(map_.largest_error(), 2.0, 0.1);
}

TEST_F(ActivationMapTest, APixelThatNeverLightsUpIsFoundOutAfterAPeriod) {
  for (uint64_t i = 0; i <= kPeriod; ++i) {
    auto frame = Frame(wave_, i);
    frame[100] = CardiacWave::kResting;
    map_.Add(i, frame);
    if (i < kPeriod) {
      EXPECT_EQ(map_.errors(), 0u);
    }
  }
  EXPECT_EQ(map_.errors(), 1u);
}

TEST_F(ActivationMapTest, AGapIsNoError) {
  for (uint64_t i = 0; i <= 2 * kPeriod; ++i) {
    if (i % 7 != 3) map_.Add(i, Frame(wave_, i));
  }
  EXPECT_GT(map_.activations(), 0u);
  EXPECT_EQ(map_.errors(), 0u);
}

}  // namespace
}  // namespace carillon::fpga
