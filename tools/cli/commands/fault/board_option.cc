#include "tools/cli/commands/fault/board_option.h"

#include <utility>

#include "base/status.h"
#include "tools/cli/command.h"
#include "tools/testbed/supervisor/directory.h"

namespace carillon::cli {

BoardOption::BoardOption(Arguments& arguments) {
  AddNameOption(arguments, name_);
  arguments.Text("--dir", directory_, "Instead: the directory of a testbed")
      .Placeholder("DIR")
      .Excludes("--name");
  gpud_.emplace(arguments);
}

absl::StatusOr<OpenBoard> BoardOption::Open() const {
  OpenBoard open{.testbed = {directory_, TestbedPaths(directory_), {}},
                 .board = {}};
  if (gpud_->given()) {
    ASSIGN_OR_RETURN(auto gpud, gpud_->Read());
    open.testbed.name = gpud.address.ToString();
    open.board = testbed::RemoteFaultBoard(std::move(gpud));
    return open;
  }
  RETURN_IF_ERROR(gpud_->CheckUnused());
  if (directory_.empty()) {
    ASSIGN_OR_RETURN(auto testbed, testbed::FindTestbed(name_));
    open.testbed = std::move(testbed);
  } else
    RETURN_IF_ERROR(testbed::CheckDirectoryOwner(directory_));
  ASSIGN_OR_RETURN(auto board, testbed::OpenBoardOf(open.testbed.paths));
  open.board = testbed::LocalFaultBoard(std::move(board));
  return open;
}

}  // namespace carillon::cli
