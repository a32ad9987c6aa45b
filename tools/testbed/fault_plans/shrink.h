// Cuts a plan that fails down to a smaller one that still fails: fewer faults,
// each as plain as may be.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_SHRINK_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_SHRINK_H_

#include <functional>

#include "tools/testbed/fault_plans/plan.h"

namespace carillon::fault {

// Whether the plan still fails. May try more than once.
using Fails = std::function<bool(const Plan&)>;

// Faults go by delta debugging; then, of each that is left, `times` and `nth`
// are halved and what narrows it down is dropped, as long as `fails` says so. A
// fault that waited for one that is gone waits no more.
Plan Shrink(Plan plan, const Fails& fails);

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_SHRINK_H_
