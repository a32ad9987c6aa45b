// The JSON schema of fault plans, made of the tables that read them.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_SCHEMA_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_SCHEMA_H_

#include "base/json.h"

namespace carillon::fault {

// For editors; topology.schema.json lies beside it. `carillon validate PLAN` finds
// more, as names that the topology lacks and actions that a point has not.
Json PlanSchema();

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_SCHEMA_H_
