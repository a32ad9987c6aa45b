// What the commands about faults share. They work on the board's file itself,
// and so also while gpud is dead or stopped.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_H_
#define CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shm/faults/board.h"
#include "tools/cli/command.h"
#include "tools/cli/testbed/testbeds.h"

namespace carillon::cli {

struct OpenBoard {
  Testbed testbed;
  std::unique_ptr<faults::Board> board;
};

// Errors: NotFound (no board), with what to do.
absl::StatusOr<std::unique_ptr<faults::Board>> OpenBoardOf(
    const TestbedPaths& paths);

// The options that choose a testbed, dead or alive: --name, or --dir.
class BoardOption {
 public:
  explicit BoardOption(Arguments& arguments);
  // Errors: NotFound, InvalidArgument (several are up).
  absl::StatusOr<OpenBoard> Open() const;

 private:
  std::string name_;
  std::string directory_;
};

// Who was whom, by pid: what the testbed's supervisor knows and who is on the
// board now.
std::string ProcessName(const OpenBoard& open, uint32_t pid);
// The names of all processes of the testbed, running or not.
std::vector<std::string> ProcessNames(const OpenBoard& open);

Json ToJson(const faults::Injected& injected);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_H_
