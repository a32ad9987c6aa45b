#include "tools/testbed/fault_plans/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carillon::fault {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Plan MakePlan() {
  return ReadPlan(R"(
plan: p
faults:
  - {name: a, do: kill}
  - {name: b, do: kill, expect: {struck: 0}}
expect: {failed: "<= 2", progress: [nic0, gpud], running: [gpud], restarts: {nic0: 1}}
)",
                  "p.yaml")
      .plan;
}

Evidence AllWell() {
  Evidence evidence;
  evidence.report.total.ok = 10;
  evidence.struck = {{"a", 1}};
  evidence.in_flight = 0;
  evidence.bad_replies = 0;
  evidence.bad_exits = std::vector<std::string>();
  evidence.leaks = std::vector<std::string>();
  evidence.progress = {{"nic0", 5}, {"gpud", 5}};
  evidence.restarts = {{"nic0", 1}};
  evidence.running = {"gpud", "nic0"};
  return evidence;
}

// The names of the expectations that do not hold.
std::vector<std::string> Violated(const Evidence& evidence) {
  std::vector<std::string> violated;
  for (const ExpectationResult& finding : Judge(MakePlan(), evidence)) {
    if (finding.ok) continue;
    violated.push_back(finding.expectation + ": expected " + finding.expected +
                       ", found " + finding.found);
  }
  EXPECT_EQ(violated.empty(), Holds(Judge(MakePlan(), evidence)));
  return violated;
}

std::vector<std::string> ViolatedWith(
    const std::function<void(Evidence&)>& change) {
  Evidence evidence = AllWell();
  change(evidence);
  return Violated(evidence);
}

TEST(Judge, IsContentWhenAllHolds) {
  EXPECT_THAT(Violated(AllWell()), IsEmpty());
  // Two faults, all counts, two of progress, a restart, one running process.
  EXPECT_EQ(Judge(MakePlan(), AllWell()).size(), 2u + kCounts + 4u);
}

TEST(Judge, SeesEachExpectationThatDoesNotHold) {
  using One = std::vector<std::string>;
  EXPECT_EQ(ViolatedWith([](auto& e) { e.struck.clear(); }),
            One{"a: struck: expected >= 1, found 0"});
  EXPECT_EQ(ViolatedWith([](auto& e) { e.struck["b"] = 2; }),
            One{"b: struck: expected 0, found 2"});
  EXPECT_EQ(ViolatedWith([](auto& e) { e.report.total.ok = 0; }),
            One{"ok: expected > 0, found 0"});
  EXPECT_EQ(ViolatedWith([](auto& e) { e.report.total.failed = 3; }),
            One{"failed: expected <= 2, found 3"});
  const char* const names[] = {"lost",         "duplicated",   "unexpected",
                               "out_of_order", "contradicted", "wrong"};
  for (size_t i = 0; i < ledger::kFaults; ++i) {
    EXPECT_EQ(ViolatedWith([&](auto& e) { e.report.total.faults[i] = 4; }),
              One{std::string(names[i]) + ": expected 0, found 4"});
  }
  EXPECT_EQ(ViolatedWith([](auto& e) { e.in_flight = 1; }),
            One{"in_flight: expected 0, found 1"});
  EXPECT_EQ(ViolatedWith([](auto& e) { e.bad_replies = 1; }),
            One{"bad_replies: expected 0, found 1"});
  EXPECT_EQ(
      ViolatedWith([](auto& e) { e.bad_exits->push_back("fpga0 ended"); }),
      One{"bad_exits: expected 0, found 1: fpga0 ended"});
  EXPECT_EQ(ViolatedWith([](auto& e) {
              e.report.total.unknown = {1, 0, 2};
            }),
            One{"indeterminate: expected 0, found 3: 1 overwritten and 2 "
                "device_died"});
  EXPECT_EQ(ViolatedWith([](auto& e) { e.leaks->push_back("a file is left"); }),
            One{"leaks: expected 0, found 1: a file is left"});
  EXPECT_EQ(ViolatedWith([](auto& e) { e.progress.erase("nic0"); }),
            One{"progress of nic0: expected > 0, found 0"});
  EXPECT_EQ(ViolatedWith([](auto& e) { e.restarts["nic0"] = 2; }),
            One{"restarts of nic0: expected 1, found 2"});
  EXPECT_EQ(ViolatedWith([](auto& e) { e.running = {"nic0"}; }),
            One{"gpud: expected runs, found does not run"});
}

TEST(Judge, AReasonThatThePlanDoesNotNameMustHaveNoEvents) {
  Plan plan = MakePlan();
  plan.expect.indeterminate = {
      {"device_died", Comparison(Comparison::Kind::kAtMost, 2)}};
  Evidence evidence = AllWell();
  evidence.report.total.unknown = {0, 0, 2};
  EXPECT_TRUE(Holds(Judge(plan, evidence)));
  evidence.report.total.unknown = {0, 1, 3};
  std::vector<std::string> violated;
  for (const ExpectationResult& finding : Judge(plan, evidence)) {
    if (!finding.ok) violated.push_back(finding.expectation);
  }
  EXPECT_THAT(violated, UnorderedElementsAre("indeterminate: torn",
                                             "indeterminate: device_died"));
}

TEST(Judge, ExpectsNothingOfWhatCouldNotBeLookedAt) {
  Evidence evidence = AllWell();
  evidence.in_flight.reset();
  evidence.bad_replies.reset();
  evidence.bad_exits.reset();
  evidence.leaks.reset();
  EXPECT_THAT(Violated(evidence), IsEmpty());
  EXPECT_EQ(Judge(MakePlan(), evidence).size(), 2u + kCounts - 4 + 4u);
}

TEST(ProgressSince, CountsEndsOfBothSidesFromThereOn) {
  const auto record = [](Nanoseconds time, shm::Step step) {
    return shm::FlightRecord{.time_ns = time, .step = step};
  };
  std::vector<shm::FlightRecording> recordings(2);
  recordings[0].name = "nic0";
  recordings[0].records = {record(10, shm::Step::kTaken),
                           record(20, shm::Step::kTaken),
                           record(30, shm::Step::kRung)};
  recordings[1].name = "gpud";
  recordings[1].records = {record(19, shm::Step::kEnded),
                           record(20, shm::Step::kEnded),
                           record(21, shm::Step::kEndNoted)};
  EXPECT_THAT(
      ProgressSince(recordings, 20),
      UnorderedElementsAre(std::pair("nic0", 1u), std::pair("gpud", 2u)));
}

TEST(ProgressSince, GpudMakesItByKernelsThatEndTheirOwnEvents) {
  const auto record = [](shm::Step step, uint32_t generation, uint16_t event_id,
                         uint32_t status) {
    return shm::FlightRecord{.time_ns = 20,
                             .generation = generation,
                             .status = status,
                             .event_id = event_id,
                             .step = step};
  };
  std::vector<shm::FlightRecording> recordings(2);
  recordings[0].name = "nic0";
  recordings[0].records = {
      record(shm::Step::kTaken, 7, 1, 0), record(shm::Step::kTaken, 7, 1, 0),
      record(shm::Step::kTaken, 7, 2, 0), record(shm::Step::kTaken, 6, 1, 0)};
  recordings[1].name = "gpud";
  recordings[1].records = {record(shm::Step::kRingMade, 7, 1, 0),
                           record(shm::Step::kRingMade, 7, 2, 1)};
  EXPECT_THAT(
      ProgressSince(recordings, 20),
      UnorderedElementsAre(std::pair("nic0", 4u), std::pair("gpud", 2u)));
}

}  // namespace
}  // namespace carillon::fault
