// The folders of fault plans that did not hold, below the runtime directory.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_KEPT_PLANS_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_KEPT_PLANS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace carillon::fault {

std::string KeptPlansDirectory();

// Their paths, the oldest first.
std::vector<std::string> KeptPlans();

// Removes the oldest until there are at most `most`; with 0 their common folder
// goes, too, unless it holds something else. Errors: PermissionDenied, naming
// what could not be removed.
absl::Status TrimKeptPlans(size_t most);

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_KEPT_PLANS_H_
