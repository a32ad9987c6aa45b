#include "devices/cpu_host/frame_judge.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "devices/fpga/cardiac_wave.h"
#include "devices/fpga/frame_tag.h"
#include "devices/fpga/image.h"
#include "devices/fpga/references.h"

namespace carillon::cpu_host {
namespace {

using fpga::FrameTag;

constexpr uint32_t kWidth = 19;
constexpr uint32_t kHeight = 13;
constexpr Nanoseconds kPeriod = 1000;

class FrameJudgeTest : public ::testing::Test {
 protected:
  static std::vector<float> Result(uint64_t number) {
    static const fpga::CardiacWave wave(kWidth, kHeight);
    fpga::GreyImage frame{.width = kWidth, .height = kHeight, .pixels = {}};
    frame.pixels.resize(kWidth * kHeight);
    wave.Render(number, frame.pixels);
    const auto exact = fpga::Dct8x8(
        fpga::Conv5x5(frame, fpga::kSmoothingWeights, fpga::kSmoothingShift));
    return {exact.begin(), exact.end()};
  }
  static FrameTag Tag(uint64_t number, uint64_t stream = 1) {
    return {.stream = stream,
            .number = number,
            .exposed_ns = 5000 + number * kPeriod,
            .deadline_ns = 5000 + (number + 1) * kPeriod,
            .width = kWidth,
            .height = kHeight};
  }
  // In time, unless it says otherwise.
  static FrameJudge::Finding Give(FrameJudge& judge, uint64_t number,
                                  uint64_t stream = 1,
                                  Nanoseconds after = 100) {
    const FrameTag tag = Tag(number, stream);
    return judge.Take(tag, Result(number), tag.exposed_ns + after);
  }

  FrameJudge judge_{kWidth, kHeight, 0};
};

TEST_F(FrameJudgeTest, AStreamThatIsRightHasNothingToSayAndItsActivations) {
  for (uint64_t i = 0; i < 250; ++i) {
    const auto finding = Give(judge_, i);
    ASSERT_EQ(finding.wrong, "") << i;
    ASSERT_FALSE(finding.twice);
    ASSERT_EQ(finding.latency, 100u);
    ASSERT_EQ(finding.tardiness, 0u);
    ASSERT_EQ(finding.jitter.value_or(0), 0u);
    ASSERT_EQ(finding.jitter.has_value(), i > 0);
  }
  EXPECT_EQ(judge_.counts().frames, 250u);
  EXPECT_EQ(judge_.counts().wrong + judge_.counts().twice +
                judge_.counts().late + judge_.missing(),
            0u);
  EXPECT_GE(judge_.map().activations(), 2u * kWidth * kHeight);
  EXPECT_EQ(judge_.map().errors(), 0u);
}

TEST_F(FrameJudgeTest, EachWrongByteIsFound) {
  std::vector<float> result = Result(3);
  result.back() += 0.02f;
  EXPECT_NE(judge_.Take(Tag(3), result, 0).wrong, "");
  result = Result(4);
  result[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(judge_.Take(Tag(4), result, 0).wrong, "");
  // The neighbour's picture.
  EXPECT_NE(judge_.Take(Tag(5), Result(65), 0).wrong, "");
  EXPECT_EQ(judge_.counts().wrong, 3u);
  EXPECT_EQ(judge_.missing(), 0u) << "they came, wrong as they were";
}

TEST_F(FrameJudgeTest, ATagThatCannotBeIsWrongAndMovesNothing) {
  Give(judge_, 0);
  FrameTag bad = Tag(1);
  bad.magic ^= 1;
  EXPECT_NE(judge_.Take(bad, Result(1), 0).wrong, "");
  bad = Tag(1);
  bad.width = 20;
  EXPECT_NE(judge_.Take(bad, Result(1), 0).wrong, "");
  bad = Tag(uint64_t{1} << 60);
  EXPECT_NE(judge_.Take(bad, Result(1), 0).wrong, "");
  EXPECT_EQ(judge_.missing(), 0u);
  EXPECT_EQ(Give(judge_, 1).wrong, "");
}

TEST_F(FrameJudgeTest, WhatNeverCameIsMissingUntilItComes) {
  Give(judge_, 0);
  Give(judge_, 4);
  EXPECT_EQ(judge_.missing(), 3u);
  EXPECT_FALSE(Give(judge_, 2).twice) << "it is only out of order";
  EXPECT_EQ(judge_.missing(), 2u);
}

TEST_F(FrameJudgeTest, WhatIsFarBehindIsMissingForGood) {
  Give(judge_, 0);
  constexpr uint64_t kFar = 1'000'000;
  Give(judge_, kFar);
  EXPECT_EQ(judge_.missing(), kFar - 1);
  EXPECT_TRUE(Give(judge_, 5).twice);
  EXPECT_EQ(judge_.missing(), kFar - 1);
  EXPECT_FALSE(Give(judge_, kFar - 60'000).twice);
  EXPECT_EQ(judge_.missing(), kFar - 2);
}

TEST_F(FrameJudgeTest, OfTheExpectedFramesTheFirstAndTheLastAreMissedToo) {
  FrameJudge judge(kWidth, kHeight, 10);
  EXPECT_EQ(judge.missing(), 10u);
  Give(judge, 2);
  EXPECT_EQ(judge.missing(), 9u);
  EXPECT_FALSE(judge.complete());
  Give(judge, 9);
  EXPECT_TRUE(judge.complete());
  EXPECT_EQ(judge.missing(), 8u);
  EXPECT_NE(Give(judge, 10).wrong, "") << "there is no such frame";
}

TEST_F(FrameJudgeTest, AFrameThatComesAgainIsCountedAndJudgedOnce) {
  Give(judge_, 0);
  Give(judge_, 1);
  EXPECT_TRUE(Give(judge_, 0).twice);
  EXPECT_TRUE(Give(judge_, 1).twice);
  EXPECT_EQ(judge_.counts().twice, 2u);
  EXPECT_EQ(judge_.counts().frames, 4u);
  EXPECT_EQ(judge_.missing(), 0u);
}

TEST_F(FrameJudgeTest, ASourceThatStartsAnewIsAnotherStream) {
  Give(judge_, 0, 1);
  Give(judge_, 5, 1);
  EXPECT_FALSE(Give(judge_, 0, 2).twice);
  EXPECT_EQ(judge_.missing(), 4u) << "those of the first stream";
  Give(judge_, 2, 2);
  EXPECT_EQ(judge_.missing(), 5u);
}

TEST_F(FrameJudgeTest, TardinessAndJitterAreThoseOfGpes) {
  Give(judge_, 0, 1, 100);
  const auto late = Give(judge_, 1, 1, kPeriod + 300);
  EXPECT_EQ(late.tardiness, 300u);
  EXPECT_EQ(late.jitter, kPeriod + 200);
  EXPECT_EQ(judge_.counts().late, 1u);
  // After a gap the time between the two frames is longer.
  const auto next = Give(judge_, 4, 1, 250);
  EXPECT_EQ(next.tardiness, 0u);
  EXPECT_EQ(next.jitter, kPeriod + 300 - 250);
  EXPECT_EQ(judge_.counts().late, 1u);
}

TEST_F(FrameJudgeTest, WithoutARateThereIsNoDeadline) {
  FrameTag tag = Tag(0);
  tag.deadline_ns = 0;
  const auto finding = judge_.Take(tag, Result(0), 1'000'000);
  EXPECT_FALSE(finding.tardiness.has_value());
  EXPECT_FALSE(finding.jitter.has_value());
  EXPECT_EQ(judge_.counts().late, 0u);
}

}  // namespace
}  // namespace carillon::cpu_host
