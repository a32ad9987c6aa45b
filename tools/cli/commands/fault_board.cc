#include "tools/cli/commands/fault_board.h"

#include <fmt/format.h>

#include <set>

#include "tools/cli/testbed/directory.h"
#include "tools/cli/testbed/state.h"
#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {

absl::StatusOr<std::unique_ptr<faults::Board>> OpenBoardOf(
    const TestbedPaths& paths) {
  auto board = faults::Board::Open(paths.fault_board());
  if (board.ok() || !absl::IsNotFound(board.status())) return board;
  return WithHint(
      absl::NotFoundError(
          fmt::format("there is no board of faults in {}", paths.directory())),
      "have one with `faults: true` in the topology, or gpud's --faults");
}

BoardOption::BoardOption(Arguments& arguments) {
  AddNameOption(arguments, name_);
  arguments.Text("--dir", directory_, "Instead: the directory of a testbed")
      .Placeholder("DIR")
      .Excludes("--name");
}

absl::StatusOr<OpenBoard> BoardOption::Open() const {
  OpenBoard open{.testbed = {directory_, TestbedPaths(directory_), {}}};
  if (directory_.empty()) {
    auto testbed = FindTestbed(name_);
    if (!testbed.ok()) return testbed.status();
    open.testbed = *std::move(testbed);
  } else if (absl::Status status = CheckDirectoryOwner(directory_);
             !status.ok()) {
    return status;
  }
  auto board = OpenBoardOf(open.testbed.paths);
  if (!board.ok()) return board.status();
  open.board = *std::move(board);
  return open;
}

std::string ProcessName(const OpenBoard& open, uint32_t pid) {
  for (const faults::MemberProcess& member : open.board->Members()) {
    if (member.pid == pid) return member.name;
  }
  const auto state = ReadState(open.testbed.paths.state_file());
  if (!state.ok()) return "";
  for (const ProcessRecord& process : state->processes) {
    if (static_cast<uint32_t>(process.identity.pid) == pid) return process.name;
  }
  return "";
}

std::vector<std::string> ProcessNames(const OpenBoard& open) {
  std::set<std::string> names;
  for (const faults::MemberProcess& member : open.board->Members()) {
    names.insert(member.name);
  }
  if (const auto state = ReadState(open.testbed.paths.state_file());
      state.ok()) {
    for (const ProcessRecord& process : state->processes) {
      names.insert(process.name);
    }
  }
  return {names.begin(), names.end()};
}

Json ToJson(const faults::Injected& injected) {
  const faults::Fault& fault = injected.fault;
  return {{"id", injected.id},
          {"name", fault.name},
          {"does", faults::Describe(fault)},
          {"process", fault.process},
          {"point", fault.point == faults::Point::kNone
                        ? Json(nullptr)
                        : Json(faults::InfoOf(fault.point).name)},
          {"action", faults::ActionName(fault.action)},
          {"times", fault.times},
          {"seed", fault.seed},
          {"passages", injected.passages},
          {"struck", injected.struck},
          {"spent", injected.spent}};
}

}  // namespace carillon::cli
