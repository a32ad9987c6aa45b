#include "tools/testbed/ledger/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/testbed/ledger/test_timeline.h"

namespace carillon::ledger {
namespace {

using shm::EventState;
using shm::FlightRecord;
using shm::Step;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TimelineTest, IsToldByTimeAndKeepsEachProcessesOwnOrder) {
  std::vector<shm::FlightRecording> recordings(2);
  recordings[0].records = {{.time_ns = 10}, {.time_ns = 40}, {.time_ns = 30}};
  recordings[1].records = {{.time_ns = 20}, {.time_ns = 35}, {.time_ns = 50}};
  EXPECT_THAT(MergeByTime(recordings),
              ElementsAre(RecordRef{0, 0}, RecordRef{1, 0}, RecordRef{1, 1},
                          RecordRef{0, 1}, RecordRef{0, 2}, RecordRef{1, 2}));
  EXPECT_THAT(MergeByTime({}), IsEmpty());
}

TEST(TimelineTest, WhatIsRecordedLaterIsToldWhenItHappened) {
  std::vector<shm::FlightRecording> recordings(2);
  recordings[0].records = {{.time_ns = 10, .step = Step::kRung},
                           {.time_ns = 45, .step = Step::kTaken}};
  // The second event was seen before the first one's end was recorded.
  recordings[1].records = {{.time_ns = 20, .step = Step::kSeen},
                           {.time_ns = 22, .step = Step::kDispatched},
                           {.time_ns = 40, .step = Step::kEnded},
                           {.time_ns = 21, .step = Step::kSeen},
                           {.time_ns = 42, .step = Step::kDispatched},
                           {.time_ns = 50, .step = Step::kEnded}};
  EXPECT_THAT(MergeByTime(recordings),
              ElementsAre(RecordRef{0, 0}, RecordRef{1, 0}, RecordRef{1, 3},
                          RecordRef{1, 1}, RecordRef{1, 2}, RecordRef{1, 4},
                          RecordRef{0, 1}, RecordRef{1, 5}));
}

TEST(TimelineTest, AroundARecordStopsAtTheEnds) {
  const std::vector<RecordRef> merged = {{0, 0}, {0, 1}, {1, 0}, {0, 2}};
  EXPECT_THAT(RecordsAround(merged, {0, 1}, 5, 1),
              ElementsAre(RecordRef{0, 0}, RecordRef{0, 1}, RecordRef{1, 0}));
  EXPECT_THAT(RecordsAround(merged, {0, 2}, 1, 5),
              ElementsAre(RecordRef{1, 0}, RecordRef{0, 2}));
  EXPECT_THAT(RecordsAround(merged, {7, 0}, 1, 1), IsEmpty());
}

TEST(TimelineTest, EveryStepHasWordsOfItsOwn) {
  std::vector<std::string> all;
  for (uint8_t step = 1; step < shm::kSteps; ++step) {
    const std::string words =
        Describe({}, {.sequence = 12, .event_id = 3, .step = Step(step)});
    EXPECT_THAT(words, testing::Not(HasSubstr("does not know")));
    EXPECT_THAT(all, testing::Not(testing::Contains(words)));
    EXPECT_NE(shm::StepName(Step(step)), "unknown");
    all.push_back(words);
  }
  const FlightRecord taken{.sequence = 12,
                           .generation = 7,
                           .status = 5,
                           .event_id = 3,
                           .step = Step::kTaken,
                           .state = EventState::kFailed};
  EXPECT_EQ(Describe({}, taken),
            "event 3 (generation 7): takes sequence 12, failed (status 5)");
  EXPECT_THAT(Describe({}, {.sequence = 9, .status = 4, .step = Step::kRung}),
              HasSubstr("rings 4 sequences up to 9"));
}

TEST(TimelineTest, ARingIsCalledWhatItsProcessHasNamedIt) {
  shm::FlightRecording recording;
  recording.ring_names[{3, 7}] = {"camera0", "dct8x8", "frames"};
  recording.ring_names[{4, 8}] = {"camera0", "dct8x8", ""};
  EXPECT_EQ(Describe(recording, {.sequence = 12,
                                 .generation = 7,
                                 .event_id = 3,
                                 .step = Step::kMismatched}),
            "camera0 dct8x8 (frames): sequence 12 has a wrong output");
  EXPECT_EQ(DescribeRing(recording, 4, 8), "camera0 dct8x8 (event 4)");
  // Another life of the same event id may be of another kernel.
  EXPECT_EQ(DescribeRing(recording, 3, 8), "event 3 (generation 8)");
}

}  // namespace
}  // namespace carillon::ledger
