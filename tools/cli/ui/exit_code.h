// What carillon's exit code says (docs/cli.md lists them).
#ifndef CARILLON_TOOLS_CLI_UI_EXIT_CODE_H_
#define CARILLON_TOOLS_CLI_UI_EXIT_CODE_H_

#include "absl/status/status.h"

namespace carillon::cli {

enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,        // the command line or a file that it names is wrong
  kNotFound = 3,     // no such testbed, device, benchmark, ...
  kUnavailable = 4,  // nobody answers, or not in time
  kDenied = 5,       // somebody else's
  kViolated = 6,     // an invariant does not hold: a fault of Carillon itself
  kInterrupted = 130,
};

// InvalidArgument: usage. NotFound. Unavailable, DeadlineExceeded:
// unavailable. PermissionDenied, Unauthenticated: denied. DataLoss: violated.
// Cancelled: interrupted. All others: failed.
ExitCode ExitCodeOf(const absl::Status& status);

// "not_found": the word for the code in -o json.
const char* ExitCodeName(ExitCode code);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_EXIT_CODE_H_
