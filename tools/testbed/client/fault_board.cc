#include "tools/testbed/client/fault_board.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "proto/faults.grpc.pb.h"
#include "shm/faults/fault_message.h"
#include "tools/testbed/client/gpud_channel.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::testbed {
namespace {

// An injection waits until every process has noticed it.
constexpr std::chrono::milliseconds kTimeout{10'000};

class LocalBoard : public FaultBoard {
 public:
  explicit LocalBoard(std::unique_ptr<faults::Board> board)
      : board_(std::move(board)) {}

  absl::StatusOr<BoardView> Look() override {
    return BoardView{.faults = board_->List(),
                     .strikes = board_->Strikes(),
                     .struck = board_->strikes(),
                     .members = board_->Members()};
  }
  absl::StatusOr<Injection> Inject(
      const std::vector<faults::Fault>& faults) override {
    ASSIGN_OR_RETURN(auto ids, board_->Inject(faults));
    Injection injection{.ids = std::move(ids), .late = {}};
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

class RemoteBoard : public FaultBoard {
 public:
  explicit RemoteBoard(RemoteGpud gpud) : channel_(std::move(gpud)) {}

  absl::StatusOr<BoardView> Look() override {
    v1::ListFaultsResponse listed;
    RETURN_IF_ERROR(
        Call(&Stub::List, "List", v1::ListFaultsRequest(), &listed));
    BoardView view{
        .faults = {}, .strikes = {}, .struck = listed.struck(), .members = {}};
    for (const auto& entry : listed.faults()) {
      std::string field;
      auto fault = FromMessage(entry.fault(), &field);
      if (!fault.ok()) {
        return absl::InternalError(
            fmt::format("gpud knows faults that this program does not: {}",
                        fault.status().message()));
      }
      view.faults.push_back({.id = entry.id(),
                             .fault = *std::move(fault),
                             .injected_ns = 0,
                             .passages = entry.passages(),
                             .struck = entry.struck(),
                             .spent = entry.spent()});
    }
    for (const auto& strike : listed.strikes()) {
      view.strikes.push_back({.time_ns = strike.time_ns(),
                              .fault_id = strike.fault_id(),
                              .pid = strike.pid(),
                              .passage = strike.passage()});
    }
    for (const auto& process : listed.processes()) {
      view.members.push_back({.name = process.name(),
                              .pid = process.pid(),
                              .up_to_date = !process.behind()});
    }
    return view;
  }
  absl::StatusOr<Injection> Inject(
      const std::vector<faults::Fault>& faults) override {
    v1::InjectRequest request;
    for (const faults::Fault& fault : faults) {
      *request.add_faults() = ToMessage(fault);
    }
    v1::InjectResponse injected;
    RETURN_IF_ERROR(Call(&Stub::Inject, "Inject", request, &injected));
    return Injection{
        .ids = {injected.ids().begin(), injected.ids().end()},
        .late = {injected.behind().begin(), injected.behind().end()}};
  }
  absl::Status Clear(const std::string& name) override {
    return ClearNamed(name).status();
  }
  absl::StatusOr<size_t> ClearAll() override { return ClearNamed(""); }

 private:
  using Stub = v1::Faults::Stub;

  template <class Request, class Response>
  absl::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                 const Request&, Response*),
                    std::string_view name, const Request& request,
                    Response* response) const {
    return channel_.Call(*stub_, method, name, request, response, kTimeout);
  }
  // Clears all if `name` is empty. Returns how many it were.
  absl::StatusOr<size_t> ClearNamed(const std::string& name) {
    v1::ClearFaultsRequest request;
    request.set_name(name);
    v1::ClearFaultsResponse response;
    RETURN_IF_ERROR(Call(&Stub::Clear, "Clear", request, &response));
    return response.cleared();
  }

  const GpudChannel channel_;
  const std::unique_ptr<Stub> stub_ = v1::Faults::NewStub(channel_.channel());
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

std::unique_ptr<FaultBoard> LocalFaultBoard(
    std::unique_ptr<faults::Board> board) {
  return std::make_unique<LocalBoard>(std::move(board));
}

std::unique_ptr<FaultBoard> RemoteFaultBoard(RemoteGpud gpud) {
  return std::make_unique<RemoteBoard>(std::move(gpud));
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
  // It passes no point: it tells of the others' faults.
  names.erase(std::string(kDashboardName));
  return {names.begin(), names.end()};
}

absl::Status CheckProcess(const std::string& glob, const Testbed& testbed,
                          const BoardView& view) {
  const std::vector<std::string> names = ProcessNames(testbed, view);
  const bool found =
      std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
      });
  if (found) return absl::OkStatus();
  if (glob == kDashboardName) {
    return WithHint(
        absl::NotFoundError("no fault can strike the dashboard"),
        "carillon restart --kill dashboard ends it, and starts another");
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  return absl::NotFoundError(fmt::format(
      "the testbed has no process {}{}", Quote(glob),
      DidYouMean(glob, known,
                 known.empty()
                     ? "; nobody is on its board"
                     : fmt::format("; there are {}", fmt::join(known, ", ")))));
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

}  // namespace carillon::testbed
