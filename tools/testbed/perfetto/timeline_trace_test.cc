// What a reader of Perfetto's format finds of a testbed's timeline.
#include "tools/testbed/perfetto/timeline_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log/log_line.h"
#include "base/temp_directory.h"
#include "tools/testbed/ledger/checker.h"
#include "tools/testbed/ledger/test_timeline.h"
#include "tools/testbed/perfetto/test_trace_reader.h"
#include "tools/testbed/perfetto/trace_writer.h"

namespace carillon::perfetto {
namespace {

using ledger::TestTimeline;
using shm::EventState;
using shm::Step;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class TimelineTrace : public ::testing::Test {
 protected:
  Json Export(std::optional<Nanoseconds> last = std::nullopt) {
    Write(last);
    return ReadTrace(Path());
  }
  void Write(std::optional<Nanoseconds> last = std::nullopt) {
    testbed::Timeline timeline;
    timeline.recordings = lab_.recordings;
    timeline.strikes = strikes_;
    auto writer = TraceWriter::Create(
        Path(), ClockPair{.monotonic_ns = 7, .realtime_ns = 1007});
    EXPECT_TRUE(writer.ok()) << writer.status();
    figures_ = WriteTimeline(timeline, last, **writer);
    EXPECT_TRUE((*writer)->Finish().ok());
  }
  std::string Path() const { return folder_.path() + "/lab.pftrace"; }
  void Name(size_t process, const TestTimeline::Ring& ring,
            const shm::RingName& name) {
    lab_.recordings[process].ring_names[{ring.event_id, ring.generation}] =
        name;
  }
  // An event's marks on its process's tracks: "3: done".
  static std::vector<std::string> Marks(const Json& trace,
                                        const std::string& kind,
                                        const std::string& process) {
    std::vector<std::string> marks;
    for (const Json& mark : trace[kind]) {
      if (!PathOf(trace, mark).starts_with(process + "/") ||
          !mark["args"].contains("sequence")) {
        continue;
      }
      marks.push_back(std::to_string(mark["args"]["sequence"].get<uint64_t>()) +
                      ": " + mark["args"]["end"].get<std::string>());
    }
    return marks;
  }
  static std::vector<std::string> Texts(const Json& trace,
                                        const std::string& track) {
    std::vector<std::string> texts;
    for (const Json& mark : trace["instants"]) {
      if (PathOf(trace, mark) == track && mark["args"].empty()) {
        texts.push_back(mark["name"]);
      }
    }
    return texts;
  }

  const TempDirectory folder_;
  TestTimeline lab_;
  std::vector<testbed::StruckStep> strikes_;
  TraceFigures figures_;
};

TEST_F(TimelineTrace, ShowsEachEventFromItsDoorbellUntilItIsTaken) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  const size_t fpga = lab_.AddDevice("fpga0", 300);
  auto gets = lab_.Register(nic, 3);
  auto sets = lab_.Register(nic, 4);
  auto frames = lab_.Register(fpga, 5);
  for (const size_t process : {nic, TestTimeline::kGpud}) {
    Name(process, gets, {"nic0", "memc_get", "get"});
    Name(process, sets, {"nic0", "memc_set", ""});
  }
  for (int i = 0; i < 5; ++i) {
    lab_.Live(gets);
    lab_.RingBell(sets, 3);
    lab_.Live(frames, EventState::kFailed, 1001);
    for (int j = 2; j >= 0; --j) {
      lab_.End(sets, sets.rung - j);
      lab_.Take(sets, sets.rung - j);
    }
  }
  const Json trace = Export();
  EXPECT_EQ(TakenIn(trace), TakenIn(lab_.recordings));
  EXPECT_EQ(TakenIn(trace).size(), 25u);
  EXPECT_EQ(figures_.events, 25u);
  EXPECT_EQ(figures_.rings, 3u);
  EXPECT_EQ(figures_.processes, 3u);
  EXPECT_EQ(CheckFlows(trace), 25u);
  EXPECT_EQ(figures_.flows, 25u);
  EXPECT_EQ(trace["clock"]["primary"], 3);
  EXPECT_EQ(trace["clock"]["clocks"], (Json{{"3", 7}, {"1", 1007}}));
  // Of the three that are in flight together each has its lane, and keeps it.
  std::map<std::string, std::vector<std::string>> lanes;
  for (const Json& slice : trace["slices"]) {
    lanes[PathOf(trace, slice)].push_back(slice["name"]);
  }
  const std::string name = "nic0/nic0 memc_set (event 4)/lane ";
  for (const char* const lane : {"1", "2", "3"}) {
    EXPECT_THAT(lanes[name + lane], ::testing::Each("memc_set"));
    EXPECT_EQ(lanes[name + lane].size(), 5u) << lane;
  }
  EXPECT_EQ(lanes.count(name + "4"), 0u);
  EXPECT_EQ(lanes["fpga0/event 5 (generation 5)/lane 1"].size(), 5u);
  EXPECT_THAT(Marks(trace, "slices", "fpga0"),
              Contains("2: failed (status 1001)"));
  // How many are in flight, after each of these steps.
  std::vector<int64_t> counts;
  for (const Json& count : trace["counts"]) {
    if (PathOf(trace, count) == "nic0/nic0 memc_set (event 4)/in flight" &&
        counts.size() < 4) {
      counts.push_back(count["value"]);
    }
  }
  EXPECT_THAT(counts, ElementsAre(3, 2, 1, 0));
}

TEST_F(TimelineTrace, PartsGpudsEventsWhereTheyWereDispatched) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  auto ring = lab_.Register(nic, 3);
  std::vector<Nanoseconds> seen;
  std::vector<Nanoseconds> dispatched;
  std::vector<Nanoseconds> ended;
  // Two at a time, of which the second is dispatched when the first has ended.
  for (uint64_t sequence = 1; sequence < 10; sequence += 2) {
    lab_.RingBell(ring, 2);
    for (const uint64_t one : {sequence, sequence + 1}) {
      seen.push_back(lab_.now + 1);
      dispatched.push_back(lab_.now + 2);
      lab_.Stamp(ring, one, seen.back(), dispatched.back());
      lab_.End(ring, one);
      ended.push_back(lab_.now);
    }
    lab_.Take(ring, sequence);
    lab_.Take(ring, sequence + 1);
  }
  const Json trace = Export();
  EXPECT_EQ(CheckFlows(trace), 10u);
  EXPECT_THAT(Marks(trace, "instants", "gpud"), ElementsAre());
  EXPECT_THAT(Marks(trace, "slices", "gpud"), SizeIs(10));
  std::vector<Nanoseconds> begins;
  std::vector<Nanoseconds> parts;
  std::vector<Nanoseconds> ends;
  const Json* event = nullptr;
  for (const Json& slice : trace["slices"]) {
    if (!PathOf(trace, slice).starts_with("gpud/")) continue;
    if (slice["depth"] == 0) {
      begins.push_back(slice["begin"]);
      ends.push_back(slice["end"]);
      event = &slice;
    } else if (slice["name"] == "waits") {
      EXPECT_EQ(slice["begin"], (*event)["begin"]);
      parts.push_back(slice["end"]);
    } else {
      EXPECT_EQ(slice["name"], "runs");
      EXPECT_EQ(slice["depth"], 1);
      EXPECT_EQ(slice["begin"], parts.back());
      EXPECT_EQ(slice["end"], (*event)["end"]);
    }
  }
  EXPECT_EQ(begins, seen);
  EXPECT_EQ(parts, dispatched);
  EXPECT_EQ(ends, ended);
}

TEST_F(TimelineTrace, ShowsATracedEventWhoseEndGpudHasNotRecorded) {
  for (const bool running : {false, true}) {
    lab_ = TestTimeline();
    const size_t nic = lab_.AddDevice("nic0", 200);
    auto ring = lab_.Register(nic, 3);
    lab_.RingBell(ring);
    const Nanoseconds seen = lab_.now + 1;
    lab_.Stamp(ring, 1, seen, seen);
    const Nanoseconds last = seen;
    lab_.recordings[TestTimeline::kGpud].running = running;
    const Json trace = Export();
    EXPECT_THAT(Marks(trace, "slices", "gpud"),
                ElementsAre(running ? "1: in flight" : "1: not recorded"));
    EXPECT_EQ(CheckFlows(trace), 1u);
    for (const Json& slice : trace["slices"]) {
      if (!PathOf(trace, slice).starts_with("gpud/")) continue;
      EXPECT_EQ(slice["begin"], seen);
      if (slice["name"] == "waits") continue;
      EXPECT_EQ(slice["end"], running ? Json() : Json(last)) << slice;
    }
  }
}

TEST_F(TimelineTrace, StampsThatContradictTheEndAreLeftOut) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  auto ring = lab_.Register(nic, 3);
  lab_.RingBell(ring, 2);
  lab_.Stamp(ring, 1, lab_.now + 100'000, lab_.now);
  lab_.End(ring, 1);
  lab_.Stamp(ring, 2, lab_.now, lab_.now + 100'000);
  lab_.End(ring, 2);
  const Json trace = Export();
  EXPECT_THAT(Marks(trace, "instants", "gpud"), ElementsAre("1: done"));
  EXPECT_THAT(Marks(trace, "slices", "gpud"), ElementsAre("2: done"));
  EXPECT_EQ(CheckFlows(trace), 2u);
  for (const Json& slice : trace["slices"]) EXPECT_EQ(slice["depth"], 0);
}

TEST_F(TimelineTrace, TellsOfEventsWithoutAnEndWhatIsKnown) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  const size_t dead = lab_.AddDevice("fpga0", 300);
  const size_t alive = lab_.AddDevice("host0", 400);
  auto ring = lab_.Register(nic, 3);
  auto of_dead = lab_.Register(dead, 4);
  auto of_alive = lab_.Register(alive, 5);
  lab_.RingBell(ring, 3);
  lab_.End(ring, 1);
  lab_.Take(ring, 1);
  lab_.End(ring, 2);
  lab_.Find(ring, 2);
  lab_.Unregister(ring);
  const Nanoseconds gone = lab_.now;
  lab_.Detach(nic);
  lab_.RingBell(of_dead);
  const Nanoseconds died = lab_.now;
  lab_.RingBell(of_alive);
  lab_.recordings[alive].running = true;
  lab_.recordings[TestTimeline::kGpud].running = true;
  const Json trace = Export();
  EXPECT_THAT(Marks(trace, "slices", "nic0"),
              UnorderedElementsAre("1: done", "2: done, found and never taken",
                                   "3: not recorded"));
  EXPECT_THAT(Marks(trace, "slices", "fpga0"), ElementsAre("1: not recorded"));
  EXPECT_THAT(Marks(trace, "slices", "host0"), ElementsAre("1: in flight"));
  for (const Json& slice : trace["slices"]) {
    const std::string path = PathOf(trace, slice);
    if (path.starts_with("nic0/") && slice["args"]["sequence"] == 3) {
      EXPECT_EQ(slice["end"], gone);
    }
    if (path.starts_with("fpga0/")) {
      EXPECT_EQ(slice["end"], died);
    }
    if (path.starts_with("host0/")) {
      EXPECT_TRUE(slice["end"].is_null());
    }
  }
  EXPECT_EQ(CheckFlows(trace), 2u);
  const std::string last_words = "died: this was its last step";
  EXPECT_THAT(Texts(trace, "fpga0/steps"), Contains(last_words));
  EXPECT_THAT(Texts(trace, "nic0/steps"), Not(Contains(last_words)));
  EXPECT_THAT(Texts(trace, "host0/steps"), Not(Contains(last_words)));
  EXPECT_THAT(Texts(trace, "gpud/steps"), Not(Contains(last_words)));
}

TEST_F(TimelineTrace, ShowsADeathThoughTheFirstRecordsAreOverwritten) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  auto ring = lab_.Register(nic, 3);
  for (int i = 0; i < 9; ++i) lab_.Live(ring);
  lab_.RingBell(ring, 3);
  lab_.Overwrite(nic, 4);
  lab_.Overwrite(TestTimeline::kGpud, 4);
  const Json trace = Export();
  const std::string last_words = "died: this was its last step";
  EXPECT_THAT(Texts(trace, "nic0/steps"), Contains(last_words));
  EXPECT_THAT(Texts(trace, "gpud/steps"), Contains(last_words));
  // Nothing is in flight after it.
  EXPECT_EQ(trace["counts"].back()["value"], 0);
  EXPECT_EQ(trace["counts"].back()["at"], lab_.now);
}

TEST_F(TimelineTrace, NothingIsInFlightOnARingThatIsGone) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  auto ring = lab_.Register(nic, 3);
  lab_.RingBell(ring, 3);
  lab_.Unregister(ring);
  const Nanoseconds gone = lab_.now;
  lab_.Register(nic, 4);
  const Json trace = Export();
  EXPECT_THAT(Marks(trace, "slices", "nic0"),
              UnorderedElementsAre("1: not recorded", "2: not recorded",
                                   "3: not recorded"));
  ASSERT_EQ(trace["counts"].size(), 2u);
  EXPECT_EQ(trace["counts"][0]["value"], 3);
  EXPECT_EQ(trace["counts"][1]["value"], 0);
  EXPECT_EQ(trace["counts"][1]["at"], gone);
}

TEST_F(TimelineTrace, ATimeThatIsToComeMovesNeitherTheEndNorTheSpan) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  const size_t hostile = lab_.AddDevice("fpga0", 300);
  auto ring = lab_.Register(nic, 3);
  auto far = lab_.Register(hostile, 4);
  for (int i = 0; i < 3; ++i) lab_.Live(ring);
  const Nanoseconds end = lab_.now;
  const auto check = [&](Nanoseconds time) {
    auto record = TestTimeline::Of(far, Step::kTaken, 1, 0);
    record.state = EventState::kDone;
    lab_.Tell(hostile, record).time_ns = time;
    strikes_ = {{.time_ns = time, .pid = 999, .words = "IS STRUCK"}};
    const Json trace = Export(Nanoseconds{0});
    EXPECT_THAT(Marks(trace, "slices", "nic0"), ElementsAre("3: done")) << time;
    EXPECT_THAT(Marks(trace, "instants", "fpga0"), ElementsAre());
    EXPECT_EQ(figures_.span_ns, 2000u);
    EXPECT_EQ(figures_.lost, 1u);
    Export();
    EXPECT_EQ(figures_.span_ns, end - 1000);
    lab_.recordings[hostile].records.pop_back();
    lab_.now = end;
  };
  // All are dead, and the time of day tells.
  constexpr Nanoseconds kHour = 3'600'000'000'000;
  check(RealtimeNs() + kHour);
  check(uint64_t{1} << 63);
  check(~uint64_t{0});
  lab_.recordings[nic].running = true;
  lab_.recordings[nic].read_ns = end;
  check(end + 2 * ledger::kRecordsWithin);
}

TEST_F(TimelineTrace, ATornRecordCostsOneEvent) {
  for (const uint32_t entries : {1, 8}) {
    lab_ = TestTimeline();
    const size_t nic = lab_.AddDevice("nic0", 200);
    auto ring = lab_.Register(nic, 3, entries);
    lab_.RingBell(ring, entries);
    size_t torn = 0;
    for (uint64_t sequence = 1; sequence <= 40; ++sequence) {
      lab_.End(ring, sequence);
      lab_.Take(ring, sequence);
      if (sequence == 5) torn = lab_.recordings[nic].records.size() - 1;
      lab_.RingBell(ring);
    }
    lab_.Tear(nic, torn);
    const Json trace = Export();
    EXPECT_EQ(TakenIn(trace), TakenIn(lab_.recordings)) << entries;
    EXPECT_EQ(TakenIn(trace).size(), 39u);
    EXPECT_EQ(trace["counts"].back()["value"], 0);
  }
}

TEST_F(TimelineTrace, FollowsARingFromADeadGpudToTheNext) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  auto ring = lab_.Register(nic, 3);
  lab_.Live(ring);
  lab_.RingBell(ring, 2);
  lab_.End(ring, 2);
  lab_.Die(nic);
  const size_t next = lab_.Add("gpud", 101);
  auto resumed = lab_.Resume(ring, next);
  lab_.End(resumed, 2);
  lab_.End(resumed, 3);
  lab_.Take(resumed, 2);
  lab_.Take(resumed, 3);
  const Json trace = Export();
  EXPECT_THAT(Marks(trace, "slices", "nic0"),
              UnorderedElementsAre("1: done", "2: done", "3: done"));
  // Both gpuds have ended the second.
  std::vector<std::pair<uint32_t, uint64_t>> ends;
  for (const Json& mark : trace["instants"]) {
    if (mark["to"].empty()) continue;
    ends.emplace_back(PidOf(trace, mark), mark["args"]["sequence"]);
  }
  EXPECT_THAT(ends, UnorderedElementsAre(std::pair(100, 1), std::pair(100, 2),
                                         std::pair(101, 2), std::pair(101, 3)));
  EXPECT_EQ(figures_.flows, 4u);
  EXPECT_THAT(Texts(trace, "gpud/steps"),
              Contains("died: this was its last step"));
}

TEST_F(TimelineTrace, ShowsTheEndWhereTheBeginningIsOverwritten) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  auto ring = lab_.Register(nic, 3);
  lab_.RingBell(ring, 3);
  const size_t so_far = lab_.recordings[nic].records.size();
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    lab_.End(ring, sequence);
    lab_.Take(ring, sequence);
  }
  lab_.Live(ring);
  lab_.Overwrite(nic, so_far);
  const Json trace = Export();
  EXPECT_THAT(Marks(trace, "instants", "nic0"),
              ElementsAre("1: done", "2: done", "3: done"));
  EXPECT_THAT(Marks(trace, "slices", "nic0"), ElementsAre("4: done"));
  EXPECT_EQ(CheckFlows(trace), 1u);
}

TEST_F(TimelineTrace, ShowsAnEventThatIsTakenTwiceAndOneThatWasNotRung) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  auto ring = lab_.Register(nic, 3);
  lab_.Live(ring);
  lab_.Take(ring, 1);
  lab_.End(ring, 1);
  lab_.Take(ring, 9, EventState::kAborted, 7);
  const Json trace = Export();
  EXPECT_THAT(Marks(trace, "slices", "nic0"), ElementsAre("1: done"));
  EXPECT_THAT(Marks(trace, "instants", "nic0"),
              ElementsAre("1: done", "9: aborted (status 7)"));
  EXPECT_THAT(Marks(trace, "instants", "gpud"),
              ElementsAre("1: done", "1: done"));
  EXPECT_EQ(CheckFlows(trace), 1u);
}

TEST_F(TimelineTrace, KeepsWholeEventsThatReachIntoTheLastMoments) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  auto ring = lab_.Register(nic, 3);
  lab_.Live(ring);
  lab_.RingBell(ring, 2);
  const Nanoseconds rung = lab_.now;
  lab_.End(ring, 2);
  const Nanoseconds from = lab_.now + 1;
  lab_.Take(ring, 2);
  lab_.End(ring, 3);
  lab_.Take(ring, 3);
  const Json trace = Export(lab_.now - from);
  EXPECT_THAT(Marks(trace, "slices", "nic0"),
              UnorderedElementsAre("2: done", "3: done"));
  for (const Json& slice : trace["slices"]) EXPECT_EQ(slice["begin"], rung);
  // The second's end at gpud is earlier, and so is its arrow.
  EXPECT_THAT(Marks(trace, "instants", "gpud"), ElementsAre("3: done"));
  EXPECT_EQ(CheckFlows(trace), 1u);
  EXPECT_THAT(Texts(trace, "nic0/steps"),
              ElementsAre("died: this was its last step"));
  EXPECT_EQ(trace["counts"][0]["at"], from);
  EXPECT_EQ(trace["counts"][0]["value"], 2);
  EXPECT_EQ(TakenIn(Export(uint64_t{1} << 63)).size(), 3u);
}

TEST_F(TimelineTrace, ShowsFaultsWhereTheyStruck) {
  lab_.AddDevice("nic0", 200);
  strikes_ = {{.time_ns = 1500,
               .process = "nic0",
               .pid = 200,
               .fault = "kill-1",
               .words = "IS STRUCK by kill-1: kill at device.ring"},
              {.time_ns = 1700, .pid = 999, .words = "IS STRUCK by stop-1"}};
  const Json trace = Export();
  EXPECT_THAT(Texts(trace, "nic0/steps"),
              Contains("nic0 (pid 200) IS STRUCK by kill-1: kill at "
                       "device.ring"));
  EXPECT_THAT(Texts(trace, "faults"),
              ElementsAre("pid 999 IS STRUCK by stop-1"));
}

TEST_F(TimelineTrace, WhateverIsRecordedKeepsTheRulesOfTheFormat) {
  std::mt19937_64 random(20);
  const auto below = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < 4; ++round) {
    lab_ = TestTimeline();
    lab_.Add("nic0", 200);
    lab_.Add("nic1", 300);
    lab_.Add("gpud", 200);
    for (shm::FlightRecording& recording : lab_.recordings) {
      recording.running = below(2) != 0;
      for (int i = 0; i < 1000; ++i) {
        recording.records.push_back({.time_ns = 1 + below(1000),
                                     .sequence = below(12),
                                     .generation = 1 + uint32_t(below(3)),
                                     .status = uint32_t(below(4)),
                                     .event_id = uint16_t(below(3)),
                                     .step = Step(1 + below(shm::kSteps - 1)),
                                     .state = EventState(below(5))});
      }
      if (below(2) != 0) {
        std::ranges::sort(recording.records, {}, &shm::FlightRecord::time_ns);
      }
    }
    const Json trace =
        round % 2 == 0 ? Export() : Export(Nanoseconds{below(1000)});
    ASSERT_TRUE(trace.is_object()) << round;
    std::map<uint64_t, std::pair<int, int>> flows;
    for (const char* const kind : {"slices", "instants"}) {
      for (const Json& element : trace[kind]) {
        for (const Json& flow : element["from"]) ++flows[flow].first;
        for (const Json& flow : element["to"]) ++flows[flow].second;
      }
    }
    EXPECT_EQ(flows.size(), figures_.flows);
    for (const auto& [flow, ends] : flows) {
      EXPECT_EQ(ends, std::pair(1, 1)) << flow;
    }
  }
}

TEST_F(TimelineTrace, HostileRecordsMakeNoMoreEventsThanARingHolds) {
  const size_t nic = lab_.AddDevice("nic0", 200);
  for (uint16_t i = 0; i < 100; ++i) {
    auto ring = lab_.Register(nic, i, shm::kMaxRingEntries);
    lab_.RingBell(ring, shm::kMaxRingEntries);
    ring.rung = ~uint64_t{0} - shm::kMaxRingEntries;
    lab_.RingBell(ring, shm::kMaxRingEntries);
    lab_.Tell(nic, TestTimeline::Of(ring, Step::kScheduling, ~uint64_t{0}, 0));
    lab_.Tell(nic, TestTimeline::Of(ring, Step::kTaken, 0, 0));
  }
  Write();
  EXPECT_GE(figures_.events, shm::kMaxRingEntries);
  EXPECT_LE(figures_.events,
            lab_.recordings[nic].records.size() * 2 + 2 * shm::kMaxRingEntries);
}

}  // namespace
}  // namespace carillon::perfetto
