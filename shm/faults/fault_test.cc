#include "shm/faults/fault.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace carillon::faults {
namespace {

Fault AtRing() {
  return {.name = "f", .point = Point::kDeviceRing, .action = Action::kLose};
}

TEST(Faults, HaveNamesThatReadBack) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kPoints; ++i) {
    const PointInfo& info = Points()[i];
    EXPECT_EQ(info.point, Point(i)) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    if (info.point == Point::kNone) continue;
    EXPECT_EQ(PointOf(info.name), info.point);
  }
  for (size_t i = 0; i < kActions; ++i) {
    EXPECT_EQ(ActionOf(ActionName(Action(i))), Action(i));
  }
  for (size_t i = 1; i < kStates; ++i) {
    EXPECT_EQ(StateOf(StateName(State(i))), State(i));
  }
  EXPECT_EQ(StateOf("none"), std::nullopt);
  EXPECT_EQ(PointOf("none"), std::nullopt);
  EXPECT_EQ(ActionOf("kil"), std::nullopt);
}

TEST(Faults, EveryActionHasAPoint) {
  for (size_t action = 0; action < kActions; ++action) {
    bool somewhere = false;
    for (const PointInfo& info : Points()) {
      somewhere = somewhere || Allows(info.point, Action(action));
    }
    EXPECT_TRUE(somewhere) << ActionName(Action(action));
  }
}

TEST(Faults, AreCheckedFieldByField) {
  struct Case {
    std::string_view field;
    std::function<void(Fault&)> change;
  };
  const std::vector<Case> cases = {
      {"name", [](Fault& f) { f.name = ""; }},
      {"name", [](Fault& f) { f.name = "A"; }},
      {"name", [](Fault& f) { f.name = std::string(33, 'a'); }},
      {"process", [](Fault& f) { f.process = ""; }},
      {"process", [](Fault& f) { f.process = std::string(48, 'a'); }},
      {"device", [](Fault& f) { f.device = std::string("a\0b", 3); }},
      {"device",
       [](Fault& f) {
         f.device = "nic0";
         f.point = Point::kNone;
         f.action = Action::kKill;
       }},
      {"device",
       [](Fault& f) {
         f.device = "nic0";
         f.point = Point::kNicSend;
       }},
      {"method", [](Fault& f) { f.method = "Attach"; }},
      {"event",
       [](Fault& f) {
         f.point = Point::kGpudLease;
         f.event_id = 3;
       }},
      {"point",
       [](Fault& f) {
         f.point = Point::kNone;
         f.action = Action::kKill;
         f.nth = 2;
       }},
      {"every",
       [](Fault& f) {
         f.point = Point::kNone;
         f.action = Action::kKill;
         f.times = 2;
       }},
      {"every", [](Fault& f) { f.every_ns = 1; }},
      {"every", [](Fault& f) { f.every = 0; }},
      {"nth", [](Fault& f) { f.nth = 0; }},
      {"probability", [](Fault& f) { f.probability = 0; }},
      {"probability", [](Fault& f) { f.probability = 1.01; }},
      {"probability",
       [](Fault& f) {
         f.probability = std::numeric_limits<double>::quiet_NaN();
       }},
      {"after_fault", [](Fault& f) { f.after_fault = "no name"; }},
      {"after_fault", [](Fault& f) { f.after_fault = "f"; }},
      {"after_state", [](Fault& f) { f.after_process = "nic0"; }},
      {"after_state", [](Fault& f) { f.after_count = 2; }},
      {"after_state", [](Fault& f) { f.after_state = State::kReady; }},
      {"after_state",
       [](Fault& f) {
         f.after_process = "nic0";
         f.after_state = State(200);
       }},
      {"after_state",
       [](Fault& f) {
         f.after_process = "nic0";
         f.after_state = State::kReady;
         f.after_count = 0;
       }},
      {"do", [](Fault& f) { f.action = Action::kAbort; }},
      {"do", [](Fault& f) { f.action = Action(200); }},
      {"point", [](Fault& f) { f.point = Point(200); }},
      {"do", [](Fault& f) { f.point = Point::kNone; }},
      {"for", [](Fault& f) { f.action = Action::kDelay; }},
      {"jitter",
       [](Fault& f) {
         f.action = Action::kDelay;
         f.duration_ns = 1;
         f.jitter_ns = 2;
       }},
      {"count", [](Fault& f) { f.action = Action::kStorm; }},
      {"code",
       [](Fault& f) {
         f.point = Point::kGpudRpc;
         f.action = Action::kAbort;
       }},
      {"code",
       [](Fault& f) {
         f.point = Point::kGpudRpc;
         f.action = Action::kAbort;
         f.code = 17;
       }},
      {"bytes",
       [](Fault& f) {
         f.point = Point::kDeviceCommit;
         f.action = Action::kCorrupt;
         f.mask = std::string(17, 'x');
       }},
      {"mask",
       [](Fault& f) {
         f.point = Point::kDeviceCommit;
         f.action = Action::kCorrupt;
         f.mask = f.bytes = "x";
       }},
  };
  ASSERT_TRUE(Check(AtRing()).ok());
  for (size_t i = 0; i < cases.size(); ++i) {
    Fault fault = AtRing();
    cases[i].change(fault);
    const absl::Status status = Check(fault);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << i;
    EXPECT_TRUE(status.message().substr(0, cases[i].field.size() + 1) ==
                std::string(cases[i].field) + ":")
        << i << ": " << status.message();
  }
}

TEST(Faults, AMeaninglessActionNamesThoseThatHaveAMeaning) {
  Fault fault = AtRing();
  fault.action = Action::kHang;
  EXPECT_EQ(Check(fault).message(),
            "do: hang has no meaning at device.ring; there are kill, stop, "
            "delay, lose, double, storm");
}

TEST(Faults, AreDescribedInWords) {
  EXPECT_EQ(Describe({.name = "f",
                      .process = "nic0",
                      .point = Point::kDeviceRing,
                      .nth = 1000}),
            "kill nic0 at device.ring, passage 1000");
  EXPECT_EQ(Describe({.name = "f",
                      .process = "gpud",
                      .after_ns = 2'000'000'000,
                      .action = Action::kStop,
                      .duration_ns = 500'000'000}),
            "stop gpud for 500 ms, after 2 s");
  EXPECT_EQ(Describe({.name = "f",
                      .process = "gpud",
                      .after_process = "nic*",
                      .after_state = State::kAttached,
                      .after_count = 3}),
            "kill gpud, once nic* has attached 3 times");
}

}  // namespace
}  // namespace carillon::faults
