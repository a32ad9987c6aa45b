// The options by which the commands about faults choose a board.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_OPTION_H_
#define CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_OPTION_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/cli/arguments.h"
#include "tools/cli/commands/inspect/gpud_option.h"
#include "tools/testbed/client/fault_board.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {

struct OpenBoard {
  // For a gpud elsewhere, the name is its address, and there are no paths.
  testbed::Testbed testbed;
  std::unique_ptr<testbed::FaultBoard> board;
};

// The options that choose a testbed: --name or --dir, for one that is dead or
// alive, or --gpud, for one that is alive.
class BoardOption {
 public:
  explicit BoardOption(Arguments& arguments);
  // Errors: NotFound, InvalidArgument (several testbeds are up, or the files
  // that go with --gpud are wrong).
  absl::StatusOr<OpenBoard> Open() const;

 private:
  std::string name_;
  std::string directory_;
  std::optional<GpudOption> gpud_;  // once --name and --dir are there
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_OPTION_H_
