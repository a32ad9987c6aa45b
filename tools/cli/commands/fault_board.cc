#include "tools/cli/commands/fault_board.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "shm/faults/fault_message.h"
#include "tools/cli/testbed/directory.h"
#include "tools/cli/testbed/faults_client.h"
#include "tools/cli/testbed/state.h"
#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {
namespace {

class BoardHere : public FaultBoard {
 public:
  explicit BoardHere(std::unique_ptr<faults::Board> board)
      : board_(std::move(board)) {}

  absl::StatusOr<BoardView> Look() override {
    return BoardView{.faults = board_->List(),
                     .strikes = board_->Strikes(),
                     .struck = board_->strikes(),
                     .members = board_->Members()};
  }
  absl::StatusOr<Injection> Inject(
      const std::vector<faults::Fault>& faults) override {
    auto ids = board_->Inject(faults);
    if (!ids.ok()) return ids.status();
    Injection injection{.ids = *std::move(ids), .late = {}};
    for (const faults::MemberProcess& member : board_->Members()) {
      if (!member.up_to_date) injection.late.push_back(member.name);
    }
    return injection;
  }
  absl::Status Clear(const std::string& name) override {
    return board_->Clear(name);
  }
  absl::StatusOr<size_t> ClearAll() override { return board_->ClearAll(); }

 private:
  const std::unique_ptr<faults::Board> board_;
};

class BoardElsewhere : public FaultBoard {
 public:
  explicit BoardElsewhere(RemoteGpud gpud) : client_(std::move(gpud)) {}

  absl::StatusOr<BoardView> Look() override {
    const auto listed = client_.List();
    if (!listed.ok()) return listed.status();
    BoardView view{
        .faults = {}, .strikes = {}, .struck = listed->struck(), .members = {}};
    for (const auto& entry : listed->faults()) {
      std::string field;
      auto fault = FromMessage(entry.fault(), &field);
      if (!fault.ok()) {
        return absl::InternalError(
            fmt::format("gpud knows faults that this program does not: {}",
                        std::string(fault.status().message())));
      }
      view.faults.push_back({.id = entry.id(),
                             .fault = *std::move(fault),
                             .injected_ns = 0,
                             .passages = entry.passages(),
                             .struck = entry.struck(),
                             .spent = entry.spent()});
    }
    for (const auto& strike : listed->strikes()) {
      view.strikes.push_back({.time_ns = strike.time_ns(),
                              .fault_id = strike.fault_id(),
                              .pid = strike.pid(),
                              .passage = strike.passage()});
    }
    for (const auto& process : listed->processes()) {
      view.members.push_back({.name = process.name(),
                              .pid = process.pid(),
                              .up_to_date = !process.behind()});
    }
    return view;
  }
  absl::StatusOr<Injection> Inject(
      const std::vector<faults::Fault>& faults) override {
    const auto injected = client_.Inject(faults);
    if (!injected.ok()) return injected.status();
    return Injection{
        .ids = {injected->ids().begin(), injected->ids().end()},
        .late = {injected->behind().begin(), injected->behind().end()}};
  }
  absl::Status Clear(const std::string& name) override {
    return client_.Clear(name).status();
  }
  absl::StatusOr<size_t> ClearAll() override { return client_.Clear(""); }

 private:
  FaultsClient client_;
};

absl::StatusOr<TestbedState> StateOf(const Testbed& testbed) {
  if (testbed.paths.directory().empty()) {
    return absl::NotFoundError("no supervisor here");
  }
  return ReadState(testbed.paths.state_file());
}

}  // namespace

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
  gpud_.emplace(arguments);
}

absl::StatusOr<OpenBoard> BoardOption::Open() const {
  OpenBoard open{.testbed = {directory_, TestbedPaths(directory_), {}},
                 .board = {}};
  if (gpud_->given()) {
    auto gpud = gpud_->Read();
    if (!gpud.ok()) return gpud.status();
    open.testbed.name = gpud->address.ToString();
    open.board = std::make_unique<BoardElsewhere>(*std::move(gpud));
    return open;
  }
  if (absl::Status status = gpud_->CheckUnused(); !status.ok()) return status;
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
  open.board = std::make_unique<BoardHere>(*std::move(board));
  return open;
}

std::string ProcessName(const Testbed& testbed, const BoardView& view,
                        uint32_t pid) {
  for (const faults::MemberProcess& member : view.members) {
    if (member.pid == pid) return member.name;
  }
  const auto state = StateOf(testbed);
  if (!state.ok()) return "";
  for (const ProcessRecord& process : state->processes) {
    if (static_cast<uint32_t>(process.identity.pid) == pid) return process.name;
  }
  return "";
}

std::vector<std::string> ProcessNames(const Testbed& testbed,
                                      const BoardView& view) {
  std::set<std::string> names;
  for (const faults::MemberProcess& member : view.members) {
    names.insert(member.name);
  }
  if (const auto state = StateOf(testbed); state.ok()) {
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
