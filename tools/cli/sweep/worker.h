// A worker of a sweep: runs what no other worker runs, until nothing is left.
#ifndef CARILLON_TOOLS_CLI_SWEEP_WORKER_H_
#define CARILLON_TOOLS_CLI_SWEEP_WORKER_H_

#include <string>

#include "absl/status/status.h"
#include "tools/cli/sim/figures.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

// With what a run failed, if it did: DIR/failed/NAME holds it, so that no other
// worker tries again.
absl::Status FailureOf(const std::string& directory, const std::string& run);

// Works on the sweep of DIR/sweep.json, as many workers may at once, on as many
// machines as see the folder. A run that fails stops no other. Errors: those of
// ReadSweepFile(), of Etcd, which it asks for a minute, and of the folder.
absl::Status WorkOn(const std::string& directory, Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SWEEP_WORKER_H_
