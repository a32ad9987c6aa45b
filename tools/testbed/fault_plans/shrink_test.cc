#include "tools/testbed/fault_plans/shrink.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace carillon::fault {
namespace {

using ::testing::ElementsAre;

Plan PlanWith(int faults) {
  Plan plan;
  plan.name = "p";
  for (int i = 0; i < faults; ++i) {
    PlannedFault planned;
    planned.fault.name = fmt::format("f{}", i);
    planned.fault.point = faults::Point::kDeviceRing;
    plan.faults.push_back(planned);
  }
  return plan;
}

std::vector<std::string> Names(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlannedFault& planned : plan.faults) {
    names.push_back(planned.fault.name);
  }
  return names;
}

// Fails while all of these are there.
Fails NeedsAll(const std::set<std::string>& needed, int* tried = nullptr) {
  return [=](const Plan& plan) {
    if (tried != nullptr) ++*tried;
    const auto names = Names(plan);
    return std::includes(names.begin(), names.end(), needed.begin(),
                         needed.end());
  };
}

TEST(Shrink, LeavesTheFaultsThatItTakes) {
  EXPECT_THAT(Names(Shrink(PlanWith(9), NeedsAll({"f4"}))), ElementsAre("f4"));
  EXPECT_THAT(Names(Shrink(PlanWith(9), NeedsAll({"f0", "f8"}))),
              ElementsAre("f0", "f8"));
  EXPECT_THAT(Names(Shrink(PlanWith(9), NeedsAll({"f2", "f3", "f7"}))),
              ElementsAre("f2", "f3", "f7"));
  EXPECT_THAT(Names(Shrink(PlanWith(1), NeedsAll({"f0"}))), ElementsAre("f0"));
  EXPECT_THAT(Names(Shrink(PlanWith(4), NeedsAll({"f0", "f1", "f2", "f3"}))),
              ElementsAre("f0", "f1", "f2", "f3"));
  // One fault is left, even if the failure needs none.
  EXPECT_EQ(Shrink(PlanWith(7), NeedsAll({})).faults.size(), 1u);
  EXPECT_EQ(Shrink(PlanWith(8), NeedsAll({})).faults.size(), 1u);
}

TEST(Shrink, TriesFarFewerThanAllSubsets) {
  int tried = 0;
  EXPECT_THAT(Names(Shrink(PlanWith(9), NeedsAll({"f4"}, &tried))),
              ElementsAre("f4"));
  EXPECT_LT(tried, 20);
}

TEST(Shrink, HalvesTimesAndNthAndDropsWhatNarrows) {
  Plan plan = PlanWith(1);
  faults::Fault& fault = plan.faults[0].fault;
  fault.nth = 1000;
  fault.times = 64;
  fault.every = 3;
  fault.probability = 0.5;
  fault.after_ns = 1'000'000;
  fault.after_process = "nic0";
  fault.after_state = faults::State::kReady;
  fault.after_count = 3;
  const Plan small = Shrink(plan, [](const Plan& p) {
    const faults::Fault& f = p.faults[0].fault;
    return f.nth >= 100 && f.times >= 3 && f.probability < 1;
  });
  const faults::Fault& left = small.faults[0].fault;
  EXPECT_EQ(left.nth, 125u);
  EXPECT_EQ(left.times, 4u);
  EXPECT_EQ(left.every, 1u);
  EXPECT_EQ(left.probability, 0.5);
  EXPECT_EQ(left.after_ns, 0u);
  EXPECT_EQ(left.after_state, faults::State::kNone);
}

TEST(Shrink, LetsNobodyWaitForAFaultThatIsGone) {
  Plan plan = PlanWith(3);
  plan.faults[2].fault.after_fault = "f0";
  const Plan small = Shrink(plan, [](const Plan& p) {
    const auto names = Names(p);
    const auto there = [&](const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    for (const PlannedFault& planned : p.faults) {
      const std::string& awaited = planned.fault.after_fault;
      EXPECT_TRUE(awaited.empty() || there(awaited)) << awaited;
    }
    return there("f2");
  });
  ASSERT_THAT(Names(small), ElementsAre("f2"));
  EXPECT_EQ(small.faults[0].fault.after_fault, "");
}

}  // namespace
}  // namespace carillon::fault
