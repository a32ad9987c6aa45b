// Which testbeds' flight recorders a command reads: --name, or --dir.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_INSPECT_RECORDINGS_OPTION_H_
#define CARILLON_TOOLS_CLI_COMMANDS_INSPECT_RECORDINGS_OPTION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/cli/arguments.h"
#include "tools/testbed/ledger/timeline_view.h"

namespace carillon::cli {

struct RecordingsOption {
  std::string testbed;
  // Several: of the hosts of one testbed.
  std::vector<std::string> directories;
};

void AddRecordingsOption(Arguments& arguments, RecordingsOption& option);

// `read` is testbed::ReadTimeline, or testbed::ReadSteps. Errors: NotFound (no
// such testbed, or nothing was recorded), InvalidArgument (several are up),
// those of JoinHosts().
// Several directories are joined, and judged whatever `read` is.
absl::StatusOr<testbed::Timeline> ReadRecordings(
    const RecordingsOption& option,
    testbed::Timeline (*read)(const std::string& testbed,
                              const TestbedPaths& paths));

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_INSPECT_RECORDINGS_OPTION_H_
