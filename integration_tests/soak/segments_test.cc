#include "integration_tests/soak/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tools/testbed/ledger/test_timeline.h"

namespace carillon::soak {
namespace {

namespace fs = std::filesystem;
using ledger::Fault;
using ledger::TestTimeline;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SegmentsTest : public ::testing::Test {
 protected:
  SegmentsTest()
      : device_(timeline_.AddDevice("nic0", 200)),
        ring_(timeline_.Register(device_, 3)) {}

  Segment Judge() {
    for (auto& recording : timeline_.recordings) {
      recording.running = true;
      recording.read_ns = timeline_.now + 1;
    }
    return segments_.Judge(timeline_.recordings);
  }

  TestTimeline timeline_;
  size_t device_;
  TestTimeline::Ring ring_;
  Segments segments_;
};

TEST_F(SegmentsTest, EveryEventCountsOnce) {
  for (int i = 0; i < 5; ++i) timeline_.Live(ring_);
  const Segment first = Judge();
  EXPECT_EQ(first.rung, 5u);
  EXPECT_EQ(first.done, 5u);
  for (int i = 0; i < 3; ++i) timeline_.Live(ring_);
  timeline_.Live(ring_, shm::EventState::kFailed, 7);
  const Segment second = Judge();
  EXPECT_EQ(second.rung, 4u);
  EXPECT_EQ(second.done, 3u);
  EXPECT_EQ(second.failed, 1u);
  EXPECT_THAT(second.violations, IsEmpty());
}

TEST_F(SegmentsTest, AViolationIsToldOnce) {
  timeline_.Live(ring_);
  timeline_.Take(ring_, 1);  // again
  const Segment first = Judge();
  EXPECT_EQ(first.of(Fault::kDuplicated), 1u);
  EXPECT_THAT(first.violations, SizeIs(1));
  timeline_.Live(ring_);
  const Segment second = Judge();
  EXPECT_EQ(second.of(Fault::kDuplicated), 0u);
  EXPECT_THAT(second.violations, IsEmpty());
}

TEST_F(SegmentsTest, WhatIsOverwrittenMustHaveBeenSeen) {
  while (timeline_.recordings[device_].records.size() <
         2 * Segments::kOverlap) {
    timeline_.Live(ring_);
  }
  EXPECT_THAT(Judge().gaps, IsEmpty());
  timeline_.Overwrite(device_, Segments::kOverlap);
  EXPECT_THAT(Judge().gaps, IsEmpty());
  // Now the readings overlap too little.
  timeline_.Overwrite(device_, 100);
  EXPECT_THAT(Judge().gaps,
              ElementsAre(HasSubstr("nic0 (pid 200): 4196 records are "
                                    "overwritten")));
}

TEST_F(SegmentsTest, AFirstReadingMustHaveSeenAll) {
  for (int i = 0; i < 50; ++i) timeline_.Live(ring_);
  timeline_.Overwrite(device_, 10);
  EXPECT_THAT(Judge().gaps, SizeIs(1));
}

TEST_F(SegmentsTest, AFileThatStaysUnreadableIsAGap) {
  const std::vector<std::string> half_made = {"nic0-7.rec has no magic"};
  EXPECT_THAT(segments_.Judge(timeline_.recordings, half_made).gaps, IsEmpty());
  EXPECT_THAT(segments_.Judge(timeline_.recordings, half_made).gaps, SizeIs(1));
  EXPECT_THAT(segments_.Judge(timeline_.recordings).gaps, IsEmpty());
  EXPECT_THAT(segments_.Judge(timeline_.recordings, half_made).gaps, IsEmpty());
}

TEST_F(SegmentsTest, ADevicesEndTellsWhatIsUnknown) {
  timeline_.RingBell(ring_, 2);
  EXPECT_THAT(Judge().unknown, ::testing::Each(0u));
  timeline_.recordings[device_].running = false;
  timeline_.recordings[TestTimeline::kGpud].running = true;
  const Segment segment = segments_.Judge(timeline_.recordings);
  EXPECT_EQ(
      segment.unknown[static_cast<size_t>(ledger::Unknown::kDeviceDied)] +
          segment.unknown[static_cast<size_t>(ledger::Unknown::kStillRunning)],
      2u);
}

// The file of a process that has ended is judged twice and then removed.
TEST(SegmentsFilesTest, FilesOfTheDeadGoWhenTwoReadingsHaveSeenThem) {
  std::string folder = "/tmp/segments-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  {
    auto alive = shm::FlightRecorder::Create(folder, "nic1", 64);
    ASSERT_TRUE(alive.ok());
    ASSERT_TRUE(shm::FlightRecorder::Create(folder, "nic0", 64).ok());
    const std::string dead =
        folder + "/nic0-" + std::to_string(getpid()) + ".rec";
    Segments segments;
    EXPECT_THAT(segments.Read(folder).recordings, SizeIs(2));
    EXPECT_TRUE(fs::exists(dead));
    EXPECT_THAT(segments.Read(folder).recordings, SizeIs(2));
    EXPECT_FALSE(fs::exists(dead));
    EXPECT_THAT(segments.Read(folder).recordings, SizeIs(1));
    EXPECT_TRUE(fs::exists((*alive)->path()));
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace carillon::soak
