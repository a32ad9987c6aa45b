// Any text as a plan's file: a plan without problems can be injected, and its
// own text reads as the same plan; every problem has a place in the file and
// words.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "base/testing/fuzz_input.h"
#include "shm/faults/board.h"
#include "tools/testbed/fault_plans/plan.h"

namespace carillon::fault {
namespace {

void CheckPlan(const Plan& plan) {
  FUZZ_CHECK(testbed::CheckName(plan.name).empty());
  FUZZ_CHECK(!plan.faults.empty());
  FUZZ_CHECK(plan.faults.size() <= faults::kMaxFaults);
  std::set<std::string> names;
  for (const faults::Fault& fault : FaultsOf(plan)) {
    FUZZ_CHECK(faults::Check(fault).ok());
    FUZZ_CHECK(names.insert(fault.name).second, "two faults of one name");
  }
  for (const PlannedFault& planned : plan.faults) {
    const std::string& before = planned.fault.after_fault;
    FUZZ_CHECK(before.empty() || names.contains(before));
  }
}

void CheckText(const Plan& plan) {
  const std::string text = ToYaml(plan);
  const PlanReading again = ReadPlan(text, "p.yaml");
  FUZZ_CHECK(again.problems.empty(), "%s\n%s",
             ToString(again.problems, "again").c_str(), text.c_str());
  FUZZ_CHECK(again.plan.name == plan.name && again.plan.about == plan.about);
  FUZZ_CHECK(again.plan.seed == plan.seed);
  FUZZ_CHECK(again.plan.faults == plan.faults, "%s", text.c_str());
  FUZZ_CHECK(again.plan.run == plan.run && again.plan.expect == plan.expect);
}

void Run(std::string_view text) {
  // Skip files that never end.
  if (text.find("/dev") != text.npos || text.find("/proc") != text.npos) return;
  (void)LooksLikePlan(text);
  const PlanReading reading = ReadPlan(text, "p.yaml");
  const int lines =
      1 + static_cast<int>(std::count(text.begin(), text.end(), '\n') +
                           std::count(text.begin(), text.end(), '\r'));
  for (const Problem& problem : reading.problems) {
    FUZZ_CHECK(!problem.text.empty());
    FUZZ_CHECK(problem.line >= 0 && problem.line <= lines + 1, "line %d of %d",
               problem.line, lines);
    FUZZ_CHECK(problem.column >= 0);
  }
  if (!reading.problems.empty()) return;
  CheckPlan(reading.plan);
  CheckText(reading.plan);
}

}  // namespace
}  // namespace carillon::fault

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::fault::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
