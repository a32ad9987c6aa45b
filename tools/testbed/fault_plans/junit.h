// Verdicts as JUnit XML, which every CI reads: a test suite per run, a test
// case per expectation.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_JUNIT_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_JUNIT_H_

#include <string>
#include <vector>

#include "base/clock.h"
#include "tools/testbed/fault_plans/judge.h"

namespace carillon::fault {

struct JunitSuite {
  std::string name;   // the plan's
  std::string error;  // why it could not be run; empty if it was
  Nanoseconds took_ns = 0;
  std::vector<ExpectationResult> findings;
  // For all failures: the records around the first violation, and how to
  // replay.
  std::string details;
};

std::string ToJunit(const std::vector<JunitSuite>& suites);

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_JUNIT_H_
