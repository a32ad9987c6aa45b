// What the commands about faults share. On this machine they work on the board's
// file itself, and so also while gpud is dead or stopped.
#ifndef CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_H_
#define CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shm/faults/board.h"
#include "tools/cli/command.h"
#include "tools/cli/commands/gpud_option.h"
#include "tools/cli/testbed/testbeds.h"

namespace carillon::cli {

// What there is on a board.
struct BoardView {
  std::vector<faults::Injected> faults;
  std::vector<faults::Strike> strikes;  // the last ones
  uint64_t struck = 0;                  // all of them
  std::vector<faults::MemberProcess> members;
};

// A board of faults, here or elsewhere. Errors: as faults::Board; elsewhere as
// FaultsClient.
class FaultBoard {
 public:
  struct Injection {
    std::vector<uint32_t> ids;
    std::vector<std::string> late;  // processes that have not noticed yet
  };

  virtual ~FaultBoard() = default;
  virtual absl::StatusOr<BoardView> Look() = 0;
  virtual absl::StatusOr<Injection> Inject(
      const std::vector<faults::Fault>& faults) = 0;
  virtual absl::Status Clear(const std::string& name) = 0;
  virtual absl::StatusOr<size_t> ClearAll() = 0;
};

struct OpenBoard {
  // Elsewhere: the name is its address, and there are no paths.
  Testbed testbed;
  std::unique_ptr<FaultBoard> board;
};

// Errors: NotFound (no board), with what to do.
absl::StatusOr<std::unique_ptr<faults::Board>> OpenBoardOf(
    const TestbedPaths& paths);

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

// Who was whom, by pid: what the testbed's supervisor knows and who is on the
// board now.
std::string ProcessName(const Testbed& testbed, const BoardView& view,
                        uint32_t pid);
// The names of all processes of the testbed, running or not.
std::vector<std::string> ProcessNames(const Testbed& testbed,
                                      const BoardView& view);

Json ToJson(const faults::Injected& injected);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_COMMANDS_FAULT_BOARD_H_
