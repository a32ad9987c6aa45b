#include "tools/cli/commands/fault/board_option.h"

#include <utility>

#include "base/status.h"

namespace carillon::cli {

absl::StatusOr<OpenBoard> BoardOption::Open() const {
  ASSIGN_OR_RETURN(auto chosen, option_.Choose(testbed::FindTestbed));
  OpenBoard open{.testbed = std::move(chosen.testbed), .board = {}};
  if (chosen.gpud) {
    open.board = testbed::RemoteFaultBoard(*std::move(chosen.gpud));
  } else {
    ASSIGN_OR_RETURN(auto board, testbed::OpenBoardOf(open.testbed.paths));
    open.board = testbed::LocalFaultBoard(std::move(board));
  }
  return open;
}

}  // namespace carillon::cli
