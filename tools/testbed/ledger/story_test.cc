#include "tools/testbed/ledger/story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/testbed/ledger/test_story.h"

namespace carillon::ledger {
namespace {

using shm::EventState;
using shm::FlightRecord;
using shm::Step;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(StoryTest, IsToldByTimeAndKeepsEachProcessesOwnOrder) {
  std::vector<shm::FlightRecording> recordings(2);
  recordings[0].records = {{.time_ns = 10}, {.time_ns = 40}, {.time_ns = 30}};
  recordings[1].records = {{.time_ns = 20}, {.time_ns = 35}, {.time_ns = 50}};
  EXPECT_THAT(MergeByTime(recordings),
              ElementsAre(Place{0, 0}, Place{1, 0}, Place{1, 1}, Place{0, 1},
                          Place{0, 2}, Place{1, 2}));
  EXPECT_THAT(MergeByTime({}), IsEmpty());
}

TEST(StoryTest, AroundARecordStopsAtTheEnds) {
  const std::vector<Place> merged = {{0, 0}, {0, 1}, {1, 0}, {0, 2}};
  EXPECT_THAT(Around(merged, {0, 1}, 5, 1),
              ElementsAre(Place{0, 0}, Place{0, 1}, Place{1, 0}));
  EXPECT_THAT(Around(merged, {0, 2}, 1, 5),
              ElementsAre(Place{1, 0}, Place{0, 2}));
  EXPECT_THAT(Around(merged, {7, 0}, 1, 1), IsEmpty());
}

TEST(StoryTest, EveryStepHasWordsOfItsOwn) {
  std::vector<std::string> all;
  for (uint8_t step = 1; step < shm::kSteps; ++step) {
    const std::string words =
        Words({.sequence = 12, .event_id = 3, .step = Step(step)});
    EXPECT_THAT(words, testing::Not(HasSubstr("does not know")));
    EXPECT_THAT(all, testing::Not(testing::Contains(words)));
    EXPECT_NE(shm::StepName(Step(step)), "unknown");
    all.push_back(words);
  }
  EXPECT_THAT(Words({.sequence = 12,
                     .generation = 7,
                     .status = 5,
                     .event_id = 3,
                     .step = Step::kTaken,
                     .state = EventState::kFailed}),
              "event 3 (generation 7): takes sequence 12, failed (status 5)");
  EXPECT_THAT(Words({.sequence = 9, .status = 4, .step = Step::kRung}),
              HasSubstr("rings 4 sequences up to 9"));
}

}  // namespace
}  // namespace carillon::ledger
