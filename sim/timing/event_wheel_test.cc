#include "sim/timing/event_wheel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int> At(EventWheel<int>& wheel, Cycle now) {
  std::vector<int> events;
  wheel.Advance(now, [&](int event) { events.push_back(event); });
  return events;
}

TEST(EventWheel, EventsOfACycleComeInTheirOrder) {
  EventWheel<int> wheel;
  wheel.Schedule(5, 1);
  wheel.Schedule(3, 2);
  wheel.Schedule(5, 3);
  EXPECT_EQ(wheel.next(0), 3u);
  EXPECT_THAT(At(wheel, 3), ElementsAre(2));
  EXPECT_EQ(wheel.next(3), 5u);
  EXPECT_THAT(At(wheel, 5), ElementsAre(1, 3));
  EXPECT_EQ(wheel.next(5), kNever);
  EXPECT_EQ(wheel.size(), 0u);
}

TEST(EventWheel, EventsBeyondATurnWaitForTheirTurn) {
  EventWheel<int> wheel;
  wheel.Schedule(10, 1);
  wheel.Schedule(10 + 1024, 2);
  wheel.Schedule(10 + 3 * 1024, 3);
  EXPECT_THAT(At(wheel, 10), ElementsAre(1));
  EXPECT_THAT(At(wheel, 10 + 1024), ElementsAre(2));
  EXPECT_EQ(wheel.next(10 + 1024), 10u + 2 * 1024);  // looks, and finds none
  EXPECT_THAT(At(wheel, 10 + 2 * 1024), IsEmpty());
  EXPECT_THAT(At(wheel, 10 + 3 * 1024), ElementsAre(3));
}

TEST(EventWheel, FindsTheNextOneAcrossItsEnd) {
  for (const Cycle now : {0u, 63u, 1000u, 1023u, 5000u}) {
    for (const Cycle ahead : {1u, 63u, 64u, 65u, 1000u, 1023u, 1024u}) {
      EventWheel<int> wheel;
      wheel.Schedule(now + ahead, 7);
      EXPECT_EQ(wheel.next(now), now + ahead) << now << " + " << ahead;
    }
  }
}

TEST(EventWheel, AnEventMayScheduleMore) {
  EventWheel<int> wheel;
  wheel.Schedule(1, 1);
  std::vector<int> seen;
  for (Cycle now = 1; now <= 5; ++now) {
    wheel.Advance(now, [&](int event) {
      seen.push_back(event);
      if (event < 4) {
        wheel.Schedule(now + 1, event + 1);
        wheel.Schedule(now + 1024, 100);
      }
    });
  }
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(wheel.size(), 3u);
}

}  // namespace
}  // namespace carillon::sim::timing
