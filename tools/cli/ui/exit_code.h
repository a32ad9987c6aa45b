// The meaning of carillon's exit codes (docs/cli.md lists them).
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
  kDenied = 5,       // it belongs to somebody else
  kViolated = 6,     // an invariant does not hold: a fault of Carillon itself
  kInterrupted = 130,
};

// InvalidArgument becomes usage; NotFound not found; Unavailable and
// DeadlineExceeded unavailable; PermissionDenied and Unauthenticated denied;
// DataLoss violated; Cancelled interrupted; all others failed.
ExitCode ExitCodeOf(const absl::Status& status);

// The word for the code under -o json: "not_found".
const char* ExitCodeName(ExitCode code);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_EXIT_CODE_H_
