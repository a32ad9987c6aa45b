// `carillon up --slurm`: all hosts of a topology, as steps of one job.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_TESTBED_UP_SLURM_H_
#define CARILLON_TOOLS_CLI_COMMANDS_TESTBED_UP_SLURM_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/cli/ui/console.h"
#include "tools/testbed/testbed_run.h"

namespace carillon::cli {

// Returns when all are up; they run on. Ends the job if one fails, and at Ctrl-C.
// Errors: those of LoadTopology(), Etcd and SubmitJob(); InvalidArgument (the
// topology has no hosts or no etcd), AlreadyExists (it is up), Aborted (a host
// failed: why, and where its log is), Cancelled.
absl::Status UpBySlurm(const testbed::UpOptions& options,
                       const std::vector<std::string>& sbatch_arguments,
                       Console& console);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_TESTBED_UP_SLURM_H_
