#include "tools/cli/commands/fault/board_option.h"

#include <utility>

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
    auto gpud = gpud_->Read();
    if (!gpud.ok()) return gpud.status();
    open.testbed.name = gpud->address.ToString();
    open.board = testbed::RemoteFaultBoard(*std::move(gpud));
    return open;
  }
  if (absl::Status status = gpud_->CheckUnused(); !status.ok()) return status;
  if (directory_.empty()) {
    auto testbed = testbed::FindTestbed(name_);
    if (!testbed.ok()) return testbed.status();
    open.testbed = *std::move(testbed);
  } else if (absl::Status status = testbed::CheckDirectoryOwner(directory_);
             !status.ok()) {
    return status;
  }
  auto board = testbed::OpenBoardOf(open.testbed.paths);
  if (!board.ok()) return board.status();
  open.board = testbed::LocalFaultBoard(*std::move(board));
  return open;
}

}  // namespace carillon::cli
