// The checker accepts every possible history, and finds every single change of
// what a history says of its events.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tools/testbed/ledger/checker.h"
#include "tools/testbed/ledger/test_timeline.h"

namespace carillon::ledger {
namespace {

using shm::EventState;
using shm::FlightRecord;
using shm::Step;

// A ring while its history is being made.
struct Running {
  TestTimeline::Ring ring;
  uint32_t entries = 0;
  std::vector<uint64_t> unended;                      // rung
  std::vector<std::pair<EventState, uint32_t>> ends;  // by sequence - 1
};

EventState AnyEnd() {
  return *rc::gen::element(EventState::kDone, EventState::kFailed,
                           EventState::kAborted);
}

// Some devices with some rings; every event is rung, ended and taken. `counted`:
// a GPU ends them and counts, so that gpud tells of the last ones only.
TestTimeline GoodTimeline(bool counted = false) {
  TestTimeline timeline;
  std::vector<Running> rings;
  const int devices = *rc::gen::inRange(1, 4);
  for (int d = 0; d < devices; ++d) {
    const size_t device =
        timeline.AddDevice("dev" + std::to_string(d), 200 + d);
    const int count = *rc::gen::inRange(1, 3);
    for (int e = 0; e < count; ++e) {
      const uint32_t entries = *rc::gen::element(1u, 2u, 4u, 8u);
      rings.push_back(
          {timeline.Register(device, e, entries, !counted), entries});
    }
  }
  const auto end = [&](Running& r, size_t which) {
    const uint64_t sequence = r.unended[which];
    r.unended.erase(r.unended.begin() + static_cast<ptrdiff_t>(which));
    const EventState state = AnyEnd();
    const uint32_t status =
        state == EventState::kDone ? 0 : *rc::gen::inRange(1u, 9u);
    r.ends[sequence - 1] = {state, status};
    if (!counted) timeline.End(r.ring, sequence, state, status);
  };
  const auto take = [&](Running& r) {
    if (r.ring.taken == r.ring.rung) return;
    const auto [state, status] = r.ends[r.ring.taken];
    if (state == EventState::kNone) return;
    timeline.Take(r.ring, r.ring.taken + 1, state, status);
  };
  const int steps = *rc::gen::inRange(5, 60);
  for (int i = 0; i < steps; ++i) {
    Running& r = rings[*rc::gen::inRange<size_t>(0, rings.size())];
    const int choice = *rc::gen::inRange(0, 3);
    const auto free =
        r.entries - static_cast<uint32_t>(r.ring.rung - r.ring.taken);
    if (choice == 0 && free > 0) {
      const uint32_t events = *rc::gen::inRange(1u, free + 1);
      timeline.RingBell(r.ring, events);
      for (uint64_t s = r.ring.rung - events + 1; s <= r.ring.rung; ++s) {
        r.unended.push_back(s);
        r.ends.emplace_back(EventState::kNone, 0);
      }
    } else if (choice == 1 && !r.unended.empty()) {
      end(r, *rc::gen::inRange<size_t>(0, r.unended.size()));
    } else if (choice == 2) {
      take(r);
    }
  }
  for (Running& r : rings) {
    while (!r.unended.empty()) end(r, 0);
    while (r.ring.taken < r.ring.rung) take(r);
    if (counted) {
      const uint64_t all = r.ends.size();
      for (uint64_t s = all - std::min<uint64_t>(all, r.entries); s < all;
           ++s) {
        timeline.End(r.ring, s + 1, r.ends[s].first, r.ends[s].second,
                     Step::kEndNoted);
      }
      timeline.Count(r.ring, all);
    }
    timeline.Unregister(r.ring);
  }
  return timeline;
}

// Whether the record is about an event or its ring.
bool IsOfAnEvent(const FlightRecord& record) {
  switch (record.step) {
    case Step::kRegistered:
    case Step::kRung:
    case Step::kTaken:
    case Step::kRingMade:
    case Step::kRingRemoved:
    case Step::kEnded:
      return true;
    default:
      return false;
  }
}

bool SameRing(const FlightRecord& a, const FlightRecord& b) {
  return a.generation == b.generation;
}

// Whether the ring has an event: the registration of an empty ring proves
// nothing.
bool HasEvents(const TestTimeline& timeline, const FlightRecord& of) {
  for (const auto& recording : timeline.recordings) {
    for (const FlightRecord& record : recording.records) {
      if (record.step == Step::kRung && SameRing(record, of)) return true;
    }
  }
  return false;
}

std::vector<RecordRef> PlacesWhere(const TestTimeline& timeline, auto wanted) {
  std::vector<RecordRef> places;
  for (size_t r = 0; r < timeline.recordings.size(); ++r) {
    const auto& records = timeline.recordings[r].records;
    for (size_t i = 0; i < records.size(); ++i) {
      if (wanted(records, i)) places.push_back({r, i});
    }
  }
  return places;
}

using Records = std::vector<FlightRecord>;

TEST(CheckerPropertyTest, BelievesWhatCanHaveHappened) {
  EXPECT_TRUE(rc::check("good stories", [] {
    const TestTimeline timeline = GoodTimeline(*rc::gen::arbitrary<bool>());
    const Report report = Check(timeline.recordings);
    if (!report.violations.empty()) {
      RC_LOG() << report.violations[0].sentence;
    }
    RC_ASSERT(report.verdict() == Verdict::kOk);
    const auto taken =
        PlacesWhere(timeline, [](const Records& records, size_t i) {
          return records[i].step == Step::kTaken;
        });
    RC_ASSERT(report.total.ok + report.total.failed == taken.size());
    RC_ASSERT(report.total.unconfirmed == 0u);
  }));
}

Records& RecordsAt(TestTimeline& timeline, RecordRef place) {
  return timeline.recordings[place.recording].records;
}

// Makes one change at one of the places that `wanted` chooses.
void ExpectFound(const char* what, auto wanted, auto change) {
  EXPECT_TRUE(rc::check(what, [&] {
    TestTimeline timeline = GoodTimeline();
    const std::vector<RecordRef> places =
        PlacesWhere(timeline, [&](const Records& records, size_t i) {
          return IsOfAnEvent(records[i]) && HasEvents(timeline, records[i]) &&
                 wanted(records, i);
        });
    RC_PRE(!places.empty());
    const RecordRef place = *rc::gen::elementOf(places);
    Records& records = RecordsAt(timeline, place);
    RC_LOG() << DescribeProcess(timeline.recordings[place.recording])
             << ", record " << place.record << ": "
             << Describe(timeline.recordings[place.recording],
                         records[place.record]);
    change(records, place.record);
    RC_ASSERT(Check(timeline.recordings).verdict() == Verdict::kViolated);
  }));
}

TEST(CheckerPropertyTest, FindsARecordThatIsMissing) {
  ExpectFound(
      "drop", [](const Records&, size_t) { return true; },
      [](Records& records, size_t i) {
        records.erase(records.begin() + static_cast<ptrdiff_t>(i));
      });
}

TEST(CheckerPropertyTest, FindsARecordThatIsThereTwice) {
  ExpectFound(
      "duplicate", [](const Records&, size_t) { return true; },
      [](Records& records, size_t i) {
        const FlightRecord copy = records[i];
        records.insert(records.begin() + static_cast<ptrdiff_t>(i), copy);
      });
}

TEST(CheckerPropertyTest, FindsTwoRecordsInTheWrongOrder) {
  // Only these have a promised order: a device's rings, its completions, and an
  // event's ring and completion.
  ExpectFound(
      "swap",
      [](const Records& records, size_t i) {
        if (i + 1 == records.size()) return false;
        const FlightRecord& a = records[i];
        const FlightRecord& b = records[i + 1];
        if (!SameRing(a, b)) return false;
        if (a.step == Step::kRung || a.step == Step::kTaken) {
          return a.step == b.step ||
                 (a.step == Step::kRung && b.step == Step::kTaken &&
                  b.sequence > a.sequence - a.status);
        }
        return a.step == Step::kRegistered || a.step == Step::kRingMade;
      },
      [](Records& records, size_t i) {
        std::swap(records[i], records[i + 1]);
      });
}

TEST(CheckerPropertyTest, FindsAnEndThatIsToldDifferently) {
  ExpectFound(
      "state",
      [](const Records& records, size_t i) {
        return records[i].step == Step::kTaken ||
               records[i].step == Step::kEnded;
      },
      [](Records& records, size_t i) {
        const EventState before = records[i].state;
        records[i].state = *rc::gen::suchThat(
            rc::gen::element(EventState::kNone, EventState::kDone,
                             EventState::kFailed, EventState::kAborted),
            [&](EventState state) { return state != before; });
      });
  ExpectFound(
      "status",
      [](const Records& records, size_t i) {
        return records[i].step == Step::kTaken ||
               records[i].step == Step::kEnded;
      },
      [](Records& records, size_t i) { records[i].status += 1; });
}

TEST(CheckerPropertyTest, FindsAWrongSequence) {
  ExpectFound(
      "sequence",
      [](const Records& records, size_t i) {
        return records[i].step == Step::kTaken ||
               records[i].step == Step::kRung ||
               records[i].step == Step::kEnded;
      },
      [](Records& records, size_t i) {
        const uint64_t before = records[i].sequence;
        records[i].sequence = *rc::gen::suchThat(
            rc::gen::inRange<uint64_t>(0, before + 4),
            [&](uint64_t sequence) { return sequence != before; });
      });
}

}  // namespace
}  // namespace carillon::ledger
