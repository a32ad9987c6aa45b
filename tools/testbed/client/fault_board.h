// A board of faults. On this machine it is the board's file itself, so it works
// also while gpud is dead or stopped; elsewhere gpud gives access to it.
#ifndef CARILLON_TOOLS_TESTBED_CLIENT_FAULT_BOARD_H_
#define CARILLON_TOOLS_TESTBED_CLIENT_FAULT_BOARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "shm/faults/board.h"
#include "tools/testbed/client/remote_gpud.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::testbed {

struct BoardView {
  std::vector<faults::Injected> faults;
  std::vector<faults::Strike> strikes;  // the last ones
  uint64_t struck = 0;                  // all of them
  std::vector<faults::MemberProcess> members;
};

// A board of faults. Errors: on this machine those of faults::Board, elsewhere
// those of AdminClient, and gpud's answers (proto/faults.proto).
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

// Errors: NotFound (no board), with advice.
absl::StatusOr<std::unique_ptr<faults::Board>> OpenBoardOf(
    const TestbedPaths& paths);

std::unique_ptr<FaultBoard> LocalFaultBoard(
    std::unique_ptr<faults::Board> board);
std::unique_ptr<FaultBoard> RemoteFaultBoard(RemoteGpud gpud);

// A process's name by its pid, from the testbed's supervisor and the processes
// that are on the board now.
std::string ProcessName(const Testbed& testbed, const BoardView& view,
                        uint32_t pid);
// The names of all the testbed's processes that faults can strike, running or
// not.
std::vector<std::string> ProcessNames(const Testbed& testbed,
                                      const BoardView& view);
// Errors: NotFound: a fault of `glob` would never strike, with advice.
absl::Status CheckProcess(const std::string& glob, const Testbed& testbed,
                          const BoardView& view);

Json ToJson(const faults::Injected& injected);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_CLIENT_FAULT_BOARD_H_
