// What the commands about faults share: the board that they are about.
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
  // Elsewhere: the name is its address, and there are no paths.
  testbed::Testbed testbed;
  std::unique_ptr<testbed::FaultBoard> board;
};

// The options that choose a testbed, dead or alive: --name, or --dir; or --gpud,
// alive.
class BoardOption {
 public:
  explicit BoardOption(Arguments& arguments);
  // Errors: NotFound, InvalidArgument (several are up, or the files that go with
  // --gpud).
  absl::StatusOr<OpenBoard> Open() const;

 private:
  std::string name_;
  std::string directory_;
  std::optional<GpudOption> gpud_;  // once --name and --dir are there
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_OPTION_H_
