#include "gpu_daemon/backends/cuda/driver/fault_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/temp_directory.h"

namespace carillon::gpud::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const RunId kRogue{.device = "rogue", .owner = 5, .event_id = 1, .sequence = 7};
const RunId kHonest{
    .device = "honest", .owner = 6, .event_id = 1, .sequence = 7};
const RunId kLater{
    .device = "honest", .owner = 6, .event_id = 1, .sequence = 8};
const RunId kBackground{.device = "honest"};

class FaultRecordTest : public ::testing::Test {
 protected:
  std::string File() const { return directory_.path() + "/faults"; }

  TempDirectory directory_;
};

TEST_F(FaultRecordTest, TheOnlyEventThatRanIsToBlame) {
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kRogue}),
              ElementsAre(kRogue));
}

TEST_F(FaultRecordTest, OfSeveralItIsTheOneThatRanAtTwoFaults) {
  const FaultRecord first(File());
  EXPECT_THAT(first.Blame(std::vector{kRogue, kHonest}), IsEmpty());
  ASSERT_TRUE(first.Note(std::vector{kRogue, kHonest}).ok());
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kLater, kRogue}),
              ElementsAre(kRogue));
}

// A gpud may end before it serves, for whatever reason.
TEST_F(FaultRecordTest, ANoteOutlivesAGpudThatSaysNothing) {
  ASSERT_TRUE(FaultRecord(File()).Note(std::vector{kRogue, kHonest}).ok());
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kRogue, kLater}),
              ElementsAre(kRogue));
  // By which devices know that another gpud comes.
  std::ifstream file(File());
  pid_t pid = 0;
  file >> pid;
  EXPECT_EQ(pid, getpid());
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kRogue, kLater}),
              ElementsAre(kRogue));
}

TEST_F(FaultRecordTest, ANoteWithoutEventsLeavesThoseOfTheLastOne) {
  ASSERT_TRUE(FaultRecord(File()).Note(std::vector{kRogue, kHonest}).ok());
  ASSERT_TRUE(FaultRecord(File()).Note(std::vector{kBackground}).ok());
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kRogue, kLater}),
              ElementsAre(kRogue));
}

TEST_F(FaultRecordTest, ANoteTakesThePlaceOfTheLastOne) {
  ASSERT_TRUE(FaultRecord(File()).Note(std::vector{kRogue, kHonest}).ok());
  ASSERT_TRUE(FaultRecord(File()).Note(std::vector{kLater, kHonest}).ok());
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kRogue, kLater}),
              ElementsAre(kLater));
}

TEST_F(FaultRecordTest, ADeviceThatAttachesAnewIsAnother) {
  ASSERT_TRUE(FaultRecord(File()).Note(std::vector{kRogue, kHonest}).ok());
  RunId again = kHonest;
  again.owner = 7;
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kLater, again}), IsEmpty());
}

TEST_F(FaultRecordTest, WhatElseIsSaidLeavesTheEvents) {
  const RestartMark mark{.named = true,
                         .stood_still = std::chrono::milliseconds(17)};
  ASSERT_TRUE(FaultRecord(File()).Note(std::vector{kRogue}, mark).ok());
  const RestartMark read = RestartMark::Read(File());
  EXPECT_EQ(read.pid, getpid());
  EXPECT_TRUE(read.named);
  EXPECT_EQ(read.stood_still, mark.stood_still);
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kRogue, kLater}),
              ElementsAre(kRogue));
}

// It does not come back in the next gpud, whose events are innocent then.
TEST_F(FaultRecordTest, ABackgroundKernelMayBeItAndIsNotedNowhere) {
  const FaultRecord first(File());
  EXPECT_THAT(first.Blame(std::vector{kBackground}), IsEmpty());
  EXPECT_THAT(first.Blame(std::vector{kBackground, kHonest}), IsEmpty());
  ASSERT_TRUE(first.Note(std::vector{kBackground, kHonest}).ok());
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kBackground, kRogue}),
              IsEmpty());
}

TEST_F(FaultRecordTest, WhereNothingOutlivesTheProcessAllAreToBlame) {
  EXPECT_THAT(FaultRecord("").Blame(std::vector{kRogue, kHonest}),
              ElementsAre(kRogue, kHonest));
}

TEST_F(FaultRecordTest, GarbageWasNotNoted) {
  std::ofstream(File()) << "1\nx y z\n1 7\n\n1 7 5\n1 7 5 rogue\n";
  EXPECT_THAT(FaultRecord(File()).Blame(std::vector{kRogue, kHonest}),
              ElementsAre(kRogue));
}

TEST_F(FaultRecordTest, AFileThatCannotBeWrittenIsNamed) {
  const absl::Status status =
      FaultRecord(directory_.path() + "/none/faults").Note(std::vector{kRogue});
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("none/faults"));
}

}  // namespace
}  // namespace carillon::gpud::cuda
