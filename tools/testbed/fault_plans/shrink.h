// Shrinks a failing plan to a smaller one that still fails, with fewer and
// simpler faults.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_SHRINK_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_SHRINK_H_

#include <functional>

#include "tools/testbed/fault_plans/plan.h"

namespace carillon::fault {

// Whether the plan still fails. It may try more than once.
using Fails = std::function<bool(const Plan&)>;

// Removes faults by delta debugging. Then halves `times` and `nth` of the
// remaining faults and drops conditions, as long as `fails` returns true. A
// fault that waited for a removed one waits no more.
Plan Shrink(Plan plan, const Fails& fails);

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_SHRINK_H_
