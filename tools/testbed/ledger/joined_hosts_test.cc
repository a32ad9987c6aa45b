#include "tools/testbed/ledger/joined_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/testbed/ledger/test_timeline.h"

namespace carillon::testbed {
namespace {

using ledger::TestTimeline;
using ledger::Verdict;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kAhead = 1'000'000'000;  // host b's clock before host a's

HostTimeline HostOf(const std::string& directory, TestTimeline told,
                    std::optional<shm::PeerClock> clock) {
  return {.directory = directory,
          .timeline = TimelineOf(directory, std::move(told.recordings)),
          .clock = std::move(clock)};
}
shm::PeerClock ClockOf(const std::string& host, const std::string& peer) {
  return {host, peer, kAhead, 500};
}

// One event of a device of host a. Each host's steps are 1 us apart by its own
// clock; b's happen while a waits for the end.
struct BothHosts {
  BothHosts() {
    a_nic = a.AddDevice("nic0", 200);
    a_ring = a.Register(a_nic, 1);
    b_nic = b.AddDevice("nic0", 300);
    b_ring = b.Register(b_nic, 4);
  }
  void LiveOnce() {
    a.RingBell(a_ring);
    b.now = a.now + kAhead;
    b.Live(b_ring);
    a.now = b.now - kAhead;
    a.End(a_ring, a_ring.rung);
    a.Take(a_ring, a_ring.rung);
  }
  absl::StatusOr<Timeline> Join() {
    std::vector<HostTimeline> hosts;
    hosts.push_back(HostOf("A", std::move(a), ClockOf("a", "b")));
    hosts.push_back(HostOf("B", std::move(b), std::nullopt));
    return JoinHosts(std::move(hosts));
  }

  TestTimeline a;
  TestTimeline b;
  size_t a_nic;
  size_t b_nic;
  TestTimeline::Ring a_ring;
  TestTimeline::Ring b_ring;
};

TEST(JoinedHosts, TellOneStoryInOneTime) {
  BothHosts hosts;
  hosts.LiveOnce();
  const auto joined = hosts.Join();
  ASSERT_TRUE(joined.ok()) << joined.status();
  std::vector<std::string> story;
  for (const ledger::RecordRef place : LastSteps(*joined, 6)) {
    const auto& recording = joined->recordings[place.recording];
    story.push_back(
        recording.name + " " +
        std::string(shm::StepName(recording.records[place.record].step)));
  }
  EXPECT_THAT(story,
              ElementsAre("a/nic0 rung", "b/nic0 rung", "b/gpud ended",
                          "b/nic0 taken", "a/gpud ended", "a/nic0 taken"));
}

TEST(JoinedHosts, AnEventOfALinkCountsOnceAndOnItsOwnHost) {
  BothHosts hosts;
  for (int i = 0; i < 3; ++i) hosts.LiveOnce();
  // linkd dies with an event that host b has ended, and another one sends it
  // again.
  hosts.a.RingBell(hosts.a_ring);
  hosts.b.RingBell(hosts.b_ring);
  hosts.b.Tell(TestTimeline::kGpud,
               {.sequence = 300,
                .generation = hosts.b.sessions[hosts.b_nic],
                .status = static_cast<uint32_t>(shm::CloseReason::kPeerDied),
                .step = shm::Step::kSessionEnded});
  hosts.a.End(hosts.a_ring, 4);
  hosts.a.Take(hosts.a_ring, 4);
  const auto alone = TimelineOf("b", hosts.b.recordings);
  EXPECT_EQ(alone.report.verdict(), Verdict::kIndeterminate);
  const auto joined = hosts.Join();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->report.total.ok, 4u);
  EXPECT_EQ(joined->report.total.indeterminate(), 0u);
  EXPECT_EQ(joined->report.verdict(), Verdict::kOk);
}

TEST(JoinedHosts, WhatBreaksARuleCountsOnEachHost) {
  BothHosts hosts;
  hosts.LiveOnce();
  hosts.b.Take(hosts.b_ring, 1);
  const auto joined = hosts.Join();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->report.verdict(), Verdict::kViolated);
  ASSERT_FALSE(joined->report.violations.empty());
  const ledger::Violation& first = joined->report.violations[0];
  EXPECT_THAT(first.sentence, HasSubstr("b: "));
  EXPECT_EQ(joined->recordings[first.at.recording].name, "b/nic0");
}

TEST(JoinedHosts, AreTheGpusHostAndOthersThatHaveALinkToIt) {
  const auto refusal = [](std::vector<std::optional<shm::PeerClock>> clocks) {
    std::vector<HostTimeline> hosts;
    std::string directory = "A";
    for (auto& clock : clocks) {
      hosts.push_back(HostOf(directory, TestTimeline(), std::move(clock)));
      ++directory[0];
    }
    return std::string(JoinHosts(std::move(hosts)).status().message());
  };
  EXPECT_THAT(refusal({std::nullopt, std::nullopt}),
              HasSubstr("neither A nor B has a link's clock"));
  EXPECT_EQ(refusal({ClockOf("a", "b"), ClockOf("c", "b")}),
            "the directory of host b, which has the GPU, is not among them");
  for (const char* const host : {"a", "c"}) {
    const char* const peer = *host == 'a' ? "b" : "d";
    EXPECT_THAT(refusal({ClockOf("a", "b"), ClockOf(host, peer), std::nullopt}),
                HasSubstr("give each host once, and all of one GPU"));
  }
}

}  // namespace
}  // namespace carillon::testbed
