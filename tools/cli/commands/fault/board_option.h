// The options by which the commands about faults choose a board.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_OPTION_H_
#define CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_OPTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tools/cli/commands/inspect/testbed_option.h"
#include "tools/testbed/client/fault_board.h"

namespace carillon::cli {

struct OpenBoard {
  testbed::Testbed testbed;  // as in ChosenTestbed
  std::unique_ptr<testbed::FaultBoard> board;
};

// The options that choose a testbed: --name or --dir, for one that is dead or
// alive, or --gpud, for one that is alive.
class BoardOption {
 public:
  explicit BoardOption(Arguments& arguments)
      : option_(arguments, "Instead: the directory of a testbed") {}
  // Errors: as TestbedOption::Choose.
  absl::StatusOr<OpenBoard> Open() const;

 private:
  TestbedOption option_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_OPTION_H_
