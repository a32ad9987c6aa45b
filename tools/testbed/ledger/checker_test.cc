#include "tools/testbed/ledger/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tools/testbed/ledger/test_timeline.h"

namespace carillon::ledger {
namespace {

using shm::EventState;
using shm::Step;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr auto kDone = EventState::kDone;
constexpr auto kFailed = EventState::kFailed;
constexpr auto kAborted = EventState::kAborted;

class CheckerTest : public testing::Test {
 protected:
  CheckerTest()
      : device_(timeline_.AddDevice("nic0", 200)),
        ring_(timeline_.Register(device_, 3)) {}

  Report Checked() const { return Check(timeline_.recordings); }
  // Ends the history, so that nothing is pending.
  void Finish() {
    timeline_.Unregister(ring_);
    timeline_.Detach(device_);
  }
  void Miss(const TestTimeline::Ring& ring, uint64_t sequence) {
    timeline_.Tell(ring.device,
                   TestTimeline::Of(ring, Step::kMissed, sequence, /*ms=*/200));
  }
  // Expects exactly one violation, of that kind and with those words.
  static void ExpectOnly(const Report& report, Fault fault, uint64_t events,
                         const std::string& words) {
    EXPECT_EQ(report.verdict(), Verdict::kViolated);
    EXPECT_EQ(report.total.violated(), events);
    EXPECT_EQ(report.total.of(fault), events) << FaultName(fault);
    ASSERT_THAT(report.violations, SizeIs(1));
    EXPECT_EQ(report.violations[0].fault, fault);
    EXPECT_EQ(report.violations[0].events, events);
    EXPECT_THAT(report.violations[0].sentence, HasSubstr(words));
  }
  static void ExpectUnknown(const Report& report, Unknown why,
                            uint64_t events) {
    EXPECT_EQ(report.verdict(), Verdict::kIndeterminate);
    EXPECT_THAT(report.violations, IsEmpty());
    EXPECT_EQ(report.total.of(why), events) << UnknownName(why);
    EXPECT_EQ(report.total.indeterminate(), events);
  }

  TestTimeline timeline_;
  const size_t device_;
  TestTimeline::Ring ring_;
};

TEST_F(CheckerTest, NothingRecordedIsNothingToComplainAbout) {
  const Report report = Check({});
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total, Counts());
}

TEST_F(CheckerTest, EveryEndThatBothSidesTellIsOkOrReported) {
  timeline_.Live(ring_);
  timeline_.Live(ring_, kFailed, 5);
  timeline_.Live(ring_, kAborted, 7);
  timeline_.RingBell(ring_, 3);
  for (const uint64_t s : {6, 4, 5}) timeline_.End(ring_, s);  // any order
  for (const uint64_t s : {4, 5, 6}) timeline_.Take(ring_, s);
  Finish();
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  Counts expected;
  expected.ok = 4;
  expected.failed = 2;
  EXPECT_EQ(report.total, expected);
  ASSERT_THAT(report.rings, SizeIs(1));
  EXPECT_EQ(report.rings[0].device, "nic0");
  EXPECT_EQ(report.rings[0].event_id, 3);
  EXPECT_EQ(report.rings[0].counts, expected);
}

TEST_F(CheckerTest, RingsOfOneDoorbellOneAfterTheOtherAreKeptApart) {
  timeline_.Live(ring_);
  timeline_.Unregister(ring_);
  auto second = timeline_.Register(device_, 3);
  timeline_.Live(second);
  timeline_.Unregister(second);
  timeline_.Detach(device_);
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total.ok, 2);
  EXPECT_THAT(report.rings, SizeIs(2));
}

TEST_F(CheckerTest, AnEventThatNeverEndsIsLost) {
  timeline_.Live(ring_);
  timeline_.RingBell(ring_, 2);
  Finish();
  ExpectOnly(Checked(), Fault::kLost, 2, "sequences 2 to 3 never ended");
}

TEST_F(CheckerTest, AnEventThatItsDeviceWaitsForInVainIsLost) {
  timeline_.RingBell(ring_, 2);
  timeline_.End(ring_, 1);
  timeline_.Take(ring_, 1);
  Miss(ring_, 2);
  timeline_.Detach(device_);
  ExpectOnly(Checked(), Fault::kLost, 1, "waits for sequence 2 in vain");
}

TEST_F(CheckerTest, ACompletionThatNeverArrivesIsLost) {
  timeline_.RingBell(ring_, 2);
  timeline_.End(ring_, 1);
  timeline_.End(ring_, 2);
  Miss(ring_, 1);
  Miss(ring_, 1);
  timeline_.Detach(device_);
  ExpectOnly(Checked(), Fault::kLost, 1, "never gets sequence 1");
}

TEST_F(CheckerTest, AnEndBetweenALookAndItsRecordIsNotLost) {
  timeline_.RingBell(ring_);
  Miss(ring_, 1);
  timeline_.End(ring_, 1);  // after the second wait's last look
  Miss(ring_, 1);           // and then the device is killed
  ExpectUnknown(Checked(), Unknown::kDeviceDied, 1);
}

TEST_F(CheckerTest, AWaitForADeadGpudDoesNotAccuseTheNext) {
  timeline_.RingBell(ring_);
  Miss(ring_, 1);
  timeline_.Die(device_);
  auto resumed = timeline_.Resume(ring_, timeline_.Add("gpud", 101));
  timeline_.LetGo(resumed, shm::LetGo::kAfterEnd);
  timeline_.Detach(device_, resumed.gpud);
  ExpectUnknown(Checked(), Unknown::kSessionEnded, 1);
}

TEST_F(CheckerTest, AnEndAfterAnUnansweredUnregistrationIsNotLost) {
  timeline_.RingBell(ring_);
  timeline_.Unregister(ring_, /*confirmed=*/false);
  timeline_.End(ring_, 1);
  TestTimeline detached = timeline_;
  detached.Detach(device_);
  ExpectUnknown(Check(detached.recordings), Unknown::kSessionEnded, 1);
  TestTimeline died = timeline_;
  died.Die(device_);
  ExpectUnknown(Check(died.recordings), Unknown::kSessionEnded, 1);
}

TEST_F(CheckerTest, OneSessionOfAProcessSaysNothingOfItsOthers) {
  const size_t other = timeline_.AddDevice("nic1", 200);  // the same process
  auto ring = timeline_.Register(other, 4);
  Finish();
  timeline_.RingBell(ring);
  timeline_.Take(ring, 1);  // gpud dies before it records the end
  timeline_.Die(other);
  timeline_.LetGo(ring, shm::LetGo::kAfterEnd);
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total.unconfirmed, 1);
}

TEST_F(CheckerTest, ARingWhoseRecordsAreGoneMayBeOfTheProcessesOtherDevice) {
  const size_t other = timeline_.AddDevice("nic1", 200);  // the same process
  auto ring = timeline_.Register(other, 4);
  timeline_.Live(ring);
  timeline_.Unregister(ring);
  Finish();
  timeline_.Overwrite(other, timeline_.recordings[other].records.size());
  EXPECT_THAT(Checked().violations, IsEmpty());
}

TEST_F(CheckerTest, AnEarlierGpudsWordDoesNotHideALaterOnes) {
  timeline_.RingBell(ring_, 2);
  timeline_.End(ring_, 2);
  timeline_.Die(device_);
  timeline_.Find(ring_, 2);
  auto resumed = timeline_.Resume(ring_, timeline_.Add("gpud", 101));
  timeline_.End(resumed, 1);
  timeline_.End(resumed, 2, kFailed, 3);
  timeline_.Take(resumed, 1);
  timeline_.Take(resumed, 2);
  timeline_.Unregister(resumed);
  timeline_.Detach(device_, resumed.gpud);
  ExpectOnly(Checked(), Fault::kContradicted, 1, "gpud ended it as failed");
}

TEST_F(CheckerTest, AnEndInTheRingOfWhatWasNeverRungIsUnexpected) {
  timeline_.Live(ring_);
  timeline_.Find(ring_, 2);
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "finds sequence 2 when 1");
}

TEST_F(CheckerTest, ARingOfAnotherDeviceIsNotOnesOwn) {
  timeline_.Live(ring_);
  const size_t thief = timeline_.AddDevice("fpga0", 300);
  timeline_.Tell(thief, TestTimeline::Of(ring_, Step::kRegistered, 0, 8));
  timeline_.Detach(thief);
  Finish();
  const Report report = Checked();
  EXPECT_THAT(report.violations, IsEmpty());
  EXPECT_EQ(report.total.ok, 1);
}

TEST_F(CheckerTest, ClaimsOfOneRingCostNoMoreThanTheirRecords) {
  constexpr uint32_t kMany = 20'000;
  timeline_.RingBell(ring_, kMany);
  for (uint64_t s = 1; s <= kMany; ++s) timeline_.End(ring_, s);
  for (uint32_t i = 0; i < kMany; ++i) {
    timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kRegistered, 0, 8));
    timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kResumed, 0, 0));
  }
  EXPECT_THAT(Checked().violations, SizeIs(kMaxViolations));
}

TEST_F(CheckerTest, ALongWaitAloneIsNoLoss) {
  timeline_.RingBell(ring_, 2);
  Miss(ring_, 1);
  timeline_.End(ring_, 1);
  timeline_.Take(ring_, 1);
  Miss(ring_, 2);
  timeline_.End(ring_, 2, EventState::kAborted, 8);
  timeline_.Find(ring_, 2, EventState::kAborted, 8);
  timeline_.Unregister(ring_, /*confirmed=*/false);
  timeline_.Detach(device_);
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total.ok, 1);
  EXPECT_EQ(report.total.failed, 1);
  EXPECT_EQ(report.total.untaken, 1);
}

// What planted mistakes in gpud look like: the word is there, the end is not.
TEST_F(CheckerTest, GpudsWordWithoutAnEndInTheRingIsALoss) {
  timeline_.RingBell(ring_, 3);
  for (const uint64_t s : {1, 2, 3}) timeline_.End(ring_, s);
  timeline_.Take(ring_, 1);
  timeline_.Find(ring_, 3);
  Finish();
  const Report report = Checked();
  ExpectOnly(report, Fault::kLost, 1,
             "never gets sequence 2: gpud ended it as done, and no end of it");
  EXPECT_EQ(report.total.ok, 2);
  EXPECT_EQ(report.total.untaken, 1);
}

TEST_F(CheckerTest, GpudsWordAloneIsALossForEveryOrderlyEnd) {
  timeline_.RingBell(ring_);
  timeline_.End(ring_, 1);
  TestTimeline detached = timeline_;
  detached.LetGo(ring_, shm::LetGo::kAfterEnd);
  detached.Detach(device_);
  ExpectOnly(Check(detached.recordings), Fault::kLost, 1, "never gets");
  TestTimeline left_by_gpud = timeline_;
  left_by_gpud.Die(device_);
  left_by_gpud.LetGo(ring_, shm::LetGo::kAfterEnd);
  left_by_gpud.Tell(device_, {.status = 1, .step = Step::kDetached});
  ExpectOnly(Check(left_by_gpud.recordings), Fault::kLost, 1, "never gets");
  // gpud was asked and gave no answer: it may have stored the end since.
  TestTimeline unanswered = timeline_;
  unanswered.Unregister(ring_, /*confirmed=*/false);
  unanswered.Tell(device_, {.status = 1, .step = Step::kDetached});
  ExpectUnknown(Check(unanswered.recordings), Unknown::kSessionEnded, 1);
  TestTimeline unanswered_for_long = timeline_;
  unanswered_for_long.now += 2 * kRecordsWithin;
  unanswered_for_long.Unregister(ring_, /*confirmed=*/false);
  ExpectOnly(Check(unanswered_for_long.recordings), Fault::kLost, 1, "never");
}

TEST_F(CheckerTest, WhatALivingDeviceDoesNotTakeIsIndeterminate) {
  timeline_.RingBell(ring_);
  timeline_.End(ring_, 1);
  for (shm::FlightRecording& recording : timeline_.recordings) {
    recording.running = true;
    recording.read_ns = timeline_.now + 1000;
  }
  ExpectUnknown(Checked(), Unknown::kStillRunning, 1);
  for (shm::FlightRecording& recording : timeline_.recordings) {
    recording.read_ns += 2 * kRecordsWithin;
  }
  ExpectUnknown(Checked(), Unknown::kNotTaken, 1);
}

TEST_F(CheckerTest, AnEndThatIsFoundMustBeTheOneThatGpudTellsOf) {
  timeline_.RingBell(ring_);
  timeline_.End(ring_, 1);
  timeline_.Find(ring_, 1, kFailed, 3);
  Finish();
  ExpectOnly(
      Checked(), Fault::kContradicted, 1,
      "finds sequence 1 as failed (status 3), but gpud ended it as done");
}

TEST_F(CheckerTest, AWrongOutputIsWrongWhateverGpudTells) {
  timeline_.RingBell(ring_);
  timeline_.End(ring_, 1);
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kMismatched, 1, 0));
  timeline_.Take(ring_, 1);
  Finish();
  const Report report = Checked();
  ExpectOnly(report, Fault::kWrong, 1, "sequence 1 has an output");
  EXPECT_EQ(report.total.ok, 1);
}

TEST_F(CheckerTest, AGpudThatDiesMayHaveStoredWhatItDidNotRecord) {
  timeline_.RingBell(ring_);
  timeline_.Take(ring_, 1);
  timeline_.Die(device_);
  timeline_.Unregister(ring_, /*confirmed=*/false);
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total.ok, 1);
  EXPECT_EQ(report.total.unconfirmed, 1);
}

TEST_F(CheckerTest, AnEndThatIsRecordedBeforeItIsStoredIsAContradiction) {
  timeline_.RingBell(ring_, 2);
  timeline_.End(ring_, 2);  // and dies before it stores it
  timeline_.Die(device_);
  auto resumed = timeline_.Resume(ring_, timeline_.Add("gpud", 101));
  for (const uint64_t s : {1, 2}) timeline_.End(resumed, s);
  for (const uint64_t s : {1, 2}) timeline_.Take(resumed, s);
  timeline_.Unregister(resumed);
  timeline_.Detach(device_, resumed.gpud);
  ExpectOnly(Checked(), Fault::kContradicted, 1,
             "recorded the end of sequence 2, and had not stored it");
}

TEST_F(CheckerTest, ACompletionThatIsJumpedOverIsLost) {
  timeline_.RingBell(ring_, 2);
  timeline_.End(ring_, 1);
  timeline_.End(ring_, 2);
  timeline_.Take(ring_, 2);
  Finish();
  const Report report = Checked();
  ExpectOnly(report, Fault::kLost, 1, "never takes sequence 1");
  EXPECT_EQ(report.total.ok, 1);
}

TEST_F(CheckerTest, ACompletionTakenTwiceIsADuplicate) {
  timeline_.Live(ring_);
  timeline_.Take(ring_, 1);
  Finish();
  ExpectOnly(Checked(), Fault::kDuplicated, 1, "takes sequence 1 twice");
}

TEST_F(CheckerTest, AnEventThatGpudEndsTwiceIsADuplicate) {
  timeline_.Live(ring_);
  timeline_.End(ring_, 1, kAborted, 8);
  Finish();
  ExpectOnly(Checked(), Fault::kDuplicated, 1,
             "twice: done, and then aborted (status 8)");
}

TEST_F(CheckerTest, ACompletionOfNothingIsUnexpected) {
  timeline_.Live(ring_);
  timeline_.Take(ring_, 2);
  ring_.taken = 1;
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "when 1 were rung");
}

TEST_F(CheckerTest, AnEndWithoutARingIsUnexpected) {
  timeline_.Live(ring_);
  timeline_.End(ring_, 2);
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "only 1 were rung");
}

TEST_F(CheckerTest, AnEndBeforeTheRingIsUnexpected) {
  timeline_.End(ring_, 1);
  timeline_.RingBell(ring_);
  timeline_.Take(ring_, 1);
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "1000 ns before it was rung");
}

TEST_F(CheckerTest, AStateThatIsNoEndIsUnexpected) {
  timeline_.RingBell(ring_, 2);
  timeline_.End(ring_, 1);
  timeline_.Take(ring_, 1, EventState::kNone);
  timeline_.End(ring_, 2, EventState(9));
  timeline_.Take(ring_, 2, EventState(9));
  Finish();
  const Report report = Checked();
  EXPECT_EQ(report.total.of(Fault::kUnexpected), 3);
  EXPECT_EQ(report.total.violated(), 3);
  EXPECT_EQ(report.total.ok + report.total.failed, 0);
}

TEST_F(CheckerTest, WhatHappensOnNoRingIsUnexpected) {
  timeline_.Live(ring_);
  timeline_.Unregister(ring_);
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kTaken, 2, 0)).state =
      kDone;
  timeline_.Detach(device_);
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "not registered");
}

TEST_F(CheckerTest, AnEndAfterTheRingIsGoneIsUnexpected) {
  timeline_.RingBell(ring_);
  timeline_.Tell(TestTimeline::kGpud,
                 TestTimeline::Of(ring_, Step::kRingRemoved, 0, 0));
  timeline_.End(ring_, 1);
  timeline_.Take(ring_, 1);
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kUnregistered, 1, 0));
  timeline_.Detach(device_);
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "a ring that there is not");
}

TEST_F(CheckerTest, EndsOnARingThatItsDeviceNeverHadAreUnexpected) {
  TestTimeline::Ring foreign{device_, 4, 99};
  timeline_.MakeRing(foreign);
  timeline_.End(foreign, 1);
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "has never registered it");
}

TEST_F(CheckerTest, TwoRingsOfOneGenerationAreUnexpected) {
  timeline_.MakeRing(ring_);
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "a second ring");
}

TEST_F(CheckerTest, ARingRegisteredWhileItIsInUseIsUnexpected) {
  ring_.generation = 77;
  timeline_.MakeRing(ring_);
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kRegistered, 0, 8));
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "while it is in use");
}

TEST_F(CheckerTest, ARingResumedThatNeverWasIsUnexpected) {
  TestTimeline::Ring other{device_, 5, 78};
  timeline_.Tell(device_, TestTimeline::Of(other, Step::kResumed, 0, 0));
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "was never registered");
}

TEST_F(CheckerTest, StepsOfTheOtherSideAreUnexpected) {
  timeline_.Tell(TestTimeline::kGpud, {.step = Step::kDetached});
  timeline_.Tell(device_, {.step = Step::kEnded});
  timeline_.Tell(device_, {.step = Step::kSeen});
  timeline_.Tell(device_, {.step = Step::kDispatched});
  Finish();
  EXPECT_EQ(Checked().total.of(Fault::kUnexpected), 4);
}

TEST_F(CheckerTest, WhenATracedEventWasSeenAndDispatchedChangesNoEnd) {
  timeline_.RingBell(ring_, 2);
  const Nanoseconds rung = timeline_.now;
  for (const uint64_t s : {2, 1}) {
    timeline_.Stamp(ring_, s, rung, rung);
    timeline_.End(ring_, s);
  }
  timeline_.Take(ring_, 1);
  timeline_.Take(ring_, 2);
  // Its gpud dies before it records the end.
  timeline_.RingBell(ring_);
  timeline_.Stamp(ring_, 3, timeline_.now, timeline_.now + 5);
  timeline_.Die(device_);
  const Report report = Checked();
  ExpectUnknown(report, Unknown::kGpudDied, 1);
  EXPECT_EQ(report.total.ok, 2);
  EXPECT_EQ(report.total.unconfirmed, 0);
}

TEST_F(CheckerTest, AnEventThatWasSeenBeforeItWasRungIsUnexpected) {
  timeline_.RingBell(ring_);
  const Nanoseconds rung = timeline_.now;
  timeline_.Stamp(ring_, 1, rung - 7, rung);
  timeline_.End(ring_, 1);
  timeline_.Take(ring_, 1);
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1,
             "gpud saw sequence 1 7 ns before it was rung");
}

TEST_F(CheckerTest, AnEventThatWasDispatchedBeforeItWasSeenIsUnexpected) {
  timeline_.RingBell(ring_);
  timeline_.Stamp(ring_, 1, timeline_.now + 9, timeline_.now);
  timeline_.End(ring_, 1);
  timeline_.Take(ring_, 1);
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1,
             "sequence 1 was dispatched 9 ns before it was seen");
}

TEST_F(CheckerTest, AGpusClockAccusesNobody) {
  auto own = timeline_.Register(device_, 4, 8, /*whole=*/false);
  timeline_.RingBell(own);
  timeline_.Stamp(own, 1, timeline_.now - 1, timeline_.now - 2);
  timeline_.End(own, 1, kDone, 0, Step::kEndNoted);
  timeline_.Take(own, 1);
  timeline_.Unregister(own);
  Finish();
  EXPECT_THAT(Checked().violations, IsEmpty());
}

TEST_F(CheckerTest, CompletionsOutOfSequenceAreOutOfOrder) {
  timeline_.RingBell(ring_, 2);
  timeline_.End(ring_, 1);
  timeline_.End(ring_, 2);
  timeline_.Take(ring_, 2);
  timeline_.Take(ring_, 1);
  Finish();
  ExpectOnly(Checked(), Fault::kOutOfOrder, 1, "takes sequence 1 after 2");
}

TEST_F(CheckerTest, RingsThatLeaveAGapOrOverlapAreOutOfOrder) {
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kRung, 3, 2));
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kRung, 4, 2));
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kRung, 4, 0));
  const Report report = Checked();
  EXPECT_EQ(report.total.of(Fault::kOutOfOrder), 3);
  EXPECT_EQ(report.total.violated(), 3);
}

TEST_F(CheckerTest, MoreInFlightThanTheRingHoldsIsOutOfOrder) {
  timeline_.RingBell(ring_, 8);
  timeline_.RingBell(ring_, 1);
  const Report report = Checked();
  ExpectOnly(report, Fault::kOutOfOrder, 1,
             "9 events are in flight on a ring of 8");
}

TEST_F(CheckerTest, SidesThatTellOfDifferentEndsContradictEachOther) {
  timeline_.RingBell(ring_);
  timeline_.End(ring_, 1, kFailed, 5);
  timeline_.Take(ring_, 1, kFailed, 6);
  Finish();
  ExpectOnly(Checked(), Fault::kContradicted, 1,
             "failed (status 6), but gpud ended it as failed (status 5)");
}

TEST_F(CheckerTest, ACompletionThatGpudKnowsNothingOfIsAContradiction) {
  timeline_.RingBell(ring_);
  timeline_.Take(ring_, 1);
  Finish();
  ExpectOnly(Checked(), Fault::kContradicted, 1, "gpud never ended it");
}

TEST_F(CheckerTest, ATailThatTheCompletionsDoNotReachIsAContradiction) {
  timeline_.Live(ring_);
  timeline_.RingBell(ring_);
  timeline_.End(ring_, 2);
  ring_.taken = 2;
  Finish();
  ExpectOnly(Checked(), Fault::kContradicted, 1, "all up to sequence 2");
}

TEST_F(CheckerTest, AConfirmedEndOfARingThatGpudKeepsIsAContradiction) {
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kUnregistered, 0, 0));
  timeline_.Detach(device_);
  ExpectOnly(Checked(), Fault::kContradicted, 1, "has not removed it");
}

TEST_F(CheckerTest, WhatADeadDeviceDidNotTakeIsIndeterminate) {
  timeline_.RingBell(ring_, 3);
  timeline_.End(ring_, 1);
  timeline_.End(ring_, 2, kAborted, 8);
  ExpectUnknown(Checked(), Unknown::kDeviceDied, 3);
}

TEST_F(CheckerTest, WhatIsInFlightWhileItsDeviceRunsIsIndeterminate) {
  timeline_.RingBell(ring_);
  timeline_.recordings[device_].running = true;
  timeline_.recordings[device_].read_ns = timeline_.now + 1;
  ExpectUnknown(Checked(), Unknown::kStillRunning, 1);
}

TEST_F(CheckerTest, WhatADeadGpudLeavesIsIndeterminate) {
  timeline_.RingBell(ring_);
  timeline_.Die(device_);
  timeline_.Unregister(ring_, /*confirmed=*/false);
  timeline_.Tell(device_, {.status = 1, .step = Step::kDetached});
  ExpectUnknown(Checked(), Unknown::kGpudDied, 1);
}

TEST_F(CheckerTest, WhatADeviceLeavesInFlightIsIndeterminate) {
  timeline_.RingBell(ring_);
  timeline_.Unregister(ring_, /*confirmed=*/false);
  timeline_.Detach(device_);
  ExpectUnknown(Checked(), Unknown::kSessionEnded, 1);
}

TEST_F(CheckerTest, WithoutGpudsSideNothingIsConfirmedAndNothingIsLost) {
  timeline_.Live(ring_);
  timeline_.RingBell(ring_);
  Finish();
  timeline_.recordings.erase(timeline_.recordings.begin());
  const Report report = Checked();
  ExpectUnknown(report, Unknown::kNotRecorded, 1);
  EXPECT_EQ(report.total.ok, 1);
  EXPECT_EQ(report.total.unconfirmed, 1);
}

TEST_F(CheckerTest, KernelsThatEndThemselvesNeedNotBeInGpudsRecording) {
  auto own = timeline_.Register(device_, 4, 8, /*whole=*/false);
  timeline_.RingBell(own, 3);
  timeline_.End(own, 1, kDone, 0, Step::kEndNoted);
  timeline_.Take(own, 1);
  timeline_.Take(own, 2);
  timeline_.Unregister(own);
  Finish();
  const Report report = Checked();
  ExpectUnknown(report, Unknown::kNotRecorded, 1);
  EXPECT_EQ(report.total.ok, 2);
  EXPECT_EQ(report.total.unconfirmed, 1);
}

// A ring whose ends a GPU counts: 12 are taken, and of the 4 that lie in it when
// gpud lets go, gpud tells.
class CountedEndsTest : public CheckerTest {
 protected:
  CountedEndsTest() : own_(timeline_.Register(device_, 4, 4, /*whole=*/false)) {
    for (uint64_t s = 1; s <= 12; ++s) {
      timeline_.RingBell(own_);
      timeline_.Take(own_, s);
    }
  }
  void LetGo(uint64_t counted, uint64_t last = 12) {
    for (uint64_t s = last - 3; s <= last; ++s) {
      timeline_.End(own_, s, kDone, 0, Step::kEndNoted);
    }
    timeline_.Count(own_, counted);
  }

  TestTimeline::Ring own_;
};

TEST_F(CountedEndsTest, OfWhichTheDeviceHasSeenAllConfirmThem) {
  LetGo(12);
  timeline_.Unregister(own_);
  Finish();
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total.ok, 12);
  EXPECT_EQ(report.total.unconfirmed, 0);
}

TEST_F(CountedEndsTest, OfAnotherNumberContradictTheDevice) {
  for (const uint64_t counted : {11u, 14u}) {
    const TestTimeline before = timeline_;
    LetGo(counted);
    timeline_.Unregister(own_);
    Finish();
    ExpectOnly(Checked(), Fault::kContradicted, counted == 11 ? 1 : 2,
               "and 12 as it and the device tell");
    EXPECT_EQ(Checked().total.unconfirmed, 8);
    timeline_ = before;
  }
}

TEST_F(CountedEndsTest, AreThoseThatTheDeviceHasNotTakenToo) {
  timeline_.RingBell(own_, 2);
  LetGo(14, /*last=*/14);
  const Report report = Checked();
  ExpectUnknown(report, Unknown::kDeviceDied, 2);
  EXPECT_EQ(report.total.unconfirmed, 0);
}

TEST_F(CountedEndsTest, LeaveNoEventWithoutAnEndUnrecorded) {
  // gpud evicts a device whose last event no GPU has taken.
  timeline_.RingBell(own_);
  LetGo(12);
  timeline_.LetGo(own_, shm::LetGo::kAfterEnd);
  Finish();
  ExpectUnknown(Checked(), Unknown::kSessionEnded, 1);
}

TEST_F(CountedEndsTest, ProveAnEventLostThatHasNone) {
  timeline_.RingBell(own_);
  LetGo(12);
  timeline_.Unregister(own_);
  Finish();
  ExpectOnly(Checked(), Fault::kLost, 1, "never ended");
}

TEST_F(CountedEndsTest, AreNotComparedWithADeviceThatHasForgotten) {
  LetGo(11);
  timeline_.Unregister(own_);
  Finish();
  timeline_.Overwrite(device_, 9);
  EXPECT_EQ(Checked().total.violated(), 0u);
}

TEST_F(CountedEndsTest, AreCountedOnce) {
  LetGo(12);
  timeline_.Count(own_, 12);
  timeline_.Unregister(own_);
  Finish();
  ExpectOnly(Checked(), Fault::kUnexpected, 1, "counted twice");
}

TEST_F(CheckerTest, WhatADeviceHasOverwrittenIsCountedAsUnknown) {
  for (int i = 0; i < 5; ++i) timeline_.Live(ring_);
  Finish();
  timeline_.Overwrite(device_, 2 + 2 * 3 + 1);  // up to the fourth ring
  const Report report = Checked();
  ExpectUnknown(report, Unknown::kOverwritten, 3);
  EXPECT_EQ(report.total.ok, 2);
  EXPECT_EQ(report.overwritten, 9);
}

TEST_F(CheckerTest, EventsInFlightBeforeTheFirstRecordAreNoViolation) {
  timeline_.RingBell(ring_, 4);
  for (const uint64_t s : {1, 2, 3, 4}) timeline_.End(ring_, s);
  timeline_.Take(ring_, 1);
  timeline_.Take(ring_, 2);
  timeline_.RingBell(ring_, 2);
  for (const uint64_t s : {5, 6}) timeline_.End(ring_, s);
  for (const uint64_t s : {3, 4, 5, 6}) timeline_.Take(ring_, s);
  Finish();
  for (size_t lost = 1; lost < timeline_.recordings[device_].records.size();
       ++lost) {
    TestTimeline timeline = timeline_;
    timeline.Overwrite(device_, lost);
    const Report report = Check(timeline.recordings);
    EXPECT_EQ(report.verdict(), Verdict::kIndeterminate) << lost;
    EXPECT_THAT(report.violations, IsEmpty())
        << lost << ": " << report.violations[0].sentence;
  }
}

TEST_F(CheckerTest, WhatGpudHasOverwrittenIsUnconfirmed) {
  for (int i = 0; i < 5; ++i) timeline_.Live(ring_);
  Finish();
  timeline_.Overwrite(TestTimeline::kGpud, 2 + 3);
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total.ok, 5);
  EXPECT_EQ(report.total.unconfirmed, 3);
}

TEST_F(CheckerTest, ATornRecordAccusesNobodyOfWhatItMayHaveSaid) {
  for (int i = 0; i < 3; ++i) timeline_.Live(ring_);
  for (int i = 0; i < 3; ++i) timeline_.RingBell(ring_);
  for (const uint64_t s : {4, 5, 6}) timeline_.End(ring_, s);
  for (const uint64_t s : {4, 5, 6}) timeline_.Take(ring_, s);
  Finish();
  for (const size_t process : {TestTimeline::kGpud, device_}) {
    for (size_t i = 0; i < timeline_.recordings[process].records.size(); ++i) {
      TestTimeline timeline = timeline_;
      timeline.Tear(process, i);
      const Report report = Check(timeline.recordings);
      EXPECT_THAT(report.violations, IsEmpty())
          << "process " << process << ", record " << i << ": "
          << report.violations[0].sentence;
    }
  }
}

TEST_F(CheckerTest, AnEventOfWhichOnlyATornRecordTellsIsIndeterminate) {
  timeline_.RingBell(ring_, 2);
  timeline_.Take(ring_, 1);
  timeline_.Take(ring_, 2);
  Finish();
  timeline_.Overwrite(TestTimeline::kGpud,
                      timeline_.recordings[0].records.size());
  timeline_.Tear(device_, 3);  // sequence 1 is taken
  ExpectUnknown(Checked(), Unknown::kTorn, 1);
}

TEST_F(CheckerTest, WhatHappenedAfterARunningProcessWasReadCountsForNothing) {
  timeline_.Live(ring_);
  for (shm::FlightRecording& recording : timeline_.recordings) {
    recording.running = true;
  }
  // gpud's recording was read first, and the device has gone on.
  timeline_.recordings[TestTimeline::kGpud].read_ns = timeline_.now + 1;
  TestTimeline gpud_first = timeline_;
  gpud_first.now += 1000;
  gpud_first.RingBell(ring_);
  gpud_first.Take(ring_, 2);
  gpud_first.recordings[device_].read_ns = gpud_first.now + 1;
  Report report = Check(gpud_first.recordings);
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total.unconfirmed, 1);
  // The other way round: the device's was read first.
  TestTimeline device_first = timeline_;
  device_first.recordings[device_].read_ns = device_first.now + 1;
  device_first.now += 1000;
  device_first.End(ring_, 2);
  device_first.recordings[TestTimeline::kGpud].read_ns = device_first.now + 1;
  report = Check(device_first.recordings);
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total.ok, 1);
}

TEST_F(CheckerTest, ScheduledEventsMayEndBeforeTheyAreRung) {
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kScheduling, 2, 0));
  timeline_.End(ring_, 1);
  timeline_.RingBell(ring_, 2);
  timeline_.End(ring_, 2);
  timeline_.Take(ring_, 1);
  timeline_.Take(ring_, 2);
  // The event was refused and never rung, so it is not lost.
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kScheduling, 3, 0));
  Finish();
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kOk);
  EXPECT_EQ(report.total.ok, 2);
}

TEST_F(CheckerTest, AnotherGpudMayEndWhatTheFirstHasLeft) {
  timeline_.RingBell(ring_, 3);
  timeline_.End(ring_, 1);
  timeline_.Take(ring_, 1);
  timeline_.End(ring_, 3);  // and dies before it ends what precedes
  timeline_.Die(device_);
  timeline_.Find(ring_, 3);
  const size_t next = timeline_.Add("gpud", 101);
  timeline_.generation = ring_.generation - 2;  // they may even be the same
  TestTimeline::Ring resumed = timeline_.Resume(ring_, next);
  timeline_.End(resumed, 2);
  timeline_.End(resumed, 3);
  timeline_.Take(resumed, 2);
  timeline_.Take(resumed, 3);
  timeline_.Unregister(resumed);
  timeline_.Detach(device_, next);
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kOk)
      << (report.violations.empty() ? "" : report.violations[0].sentence);
  EXPECT_EQ(report.total.ok, 3);
  EXPECT_EQ(report.total.unconfirmed, 0);
  EXPECT_THAT(report.rings, SizeIs(1));
}

// A hostile device's recording must not cost the checker more than its length.
TEST_F(CheckerTest, JudgesClaimsOfMoreEventsThanAnybodyCouldList) {
  constexpr uint64_t kFar = uint64_t{1} << 62;
  timeline_.Tell(device_,
                 TestTimeline::Of(ring_, Step::kScheduling, UINT64_MAX, 0));
  timeline_.End(ring_, kFar);
  timeline_.Take(ring_, kFar);
  timeline_.End(ring_, 2);
  timeline_.Take(ring_, 2);
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kRung, kFar, 8));
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kViolated);
  EXPECT_EQ(report.total.ok, 2u);
  // All events below the distant one are lost, except the second, which came
  // after it.
  EXPECT_EQ(report.total.of(Fault::kLost), kFar - 2);
  EXPECT_EQ(report.total.of(Fault::kOutOfOrder), 2u);
}

TEST_F(CheckerTest, CountsNoFurtherThanTheLargestNumber) {
  timeline_.Tell(device_, TestTimeline::Of(ring_, Step::kRung, UINT64_MAX, 1));
  timeline_.recordings[device_].torn = 1;
  auto other = timeline_.Register(device_, 4);
  timeline_.Tell(device_, TestTimeline::Of(other, Step::kRung, UINT64_MAX, 1));
  const Report report = Checked();
  EXPECT_EQ(report.verdict(), Verdict::kIndeterminate);
  EXPECT_EQ(report.total.indeterminate(), UINT64_MAX);
}

TEST_F(CheckerTest, TheFirstViolationIsTheFirstByTime) {
  const size_t other = timeline_.AddDevice("fpga0", 201);
  auto ring = timeline_.Register(other, 0);
  timeline_.RingBell(ring);
  timeline_.Take(ring, 1);  // gpud never ended it
  timeline_.Unregister(ring);
  timeline_.Live(ring_);
  timeline_.Take(ring_, 1);  // twice
  const Report report = Checked();
  ASSERT_THAT(report.violations, SizeIs(2));
  EXPECT_EQ(report.violations[0].fault, Fault::kContradicted);
  EXPECT_EQ(report.violations[0].at.recording, other);
  EXPECT_EQ(report.violations[1].fault, Fault::kDuplicated);
}

TEST_F(CheckerTest, KeepsAHundredViolationsAndCountsAll) {
  timeline_.Live(ring_);
  for (int i = 0; i < 150; ++i) timeline_.Take(ring_, 1);
  const Report report = Checked();
  EXPECT_THAT(report.violations, SizeIs(kMaxViolations));
  EXPECT_EQ(report.total.of(Fault::kDuplicated), 150);
}

}  // namespace
}  // namespace carillon::ledger
