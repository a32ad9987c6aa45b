#include "gpu_daemon/control/rpc/faults_service.h"

#include <string>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "shm/faults/fault.h"
#include "shm/faults/fault_message.h"

namespace carillon::gpud {
absl::Status FaultsService::CheckBoard() const {
  if (board_ != nullptr) return absl::OkStatus();
  return Error(absl::StatusCode::kFailedPrecondition,
               "this testbed has no board of faults: gpud was started without "
               "--faults",
               reason::kNoFaults, "", "faults: true in the topology");
}

grpc::Status FaultsService::Inject(grpc::ServerContext* context,
                                   const v1::InjectRequest* request,
                                   v1::InjectResponse* response) {
  if (auto s = CheckBoard(); !s.ok()) return ToGrpc(s, context);
  std::vector<faults::Fault> list;
  for (const v1::Fault& message : request->faults()) {
    std::string field;
    auto fault = FromMessage(message, &field);
    if (!fault.ok()) {
      return ToGrpc(WithDetail(fault.status(), reason::kBadFault, field,
                               "carillon fault points"),
                    context);
    }
    list.push_back(*std::move(fault));
  }
  auto ids = board_->Inject(list);
  if (!ids.ok()) {
    return ToGrpc(WithDetail(ids.status(), reason::kBadFault, "",
                             "carillon fault points"),
                  context);
  }
  response->mutable_ids()->Add(ids->begin(), ids->end());
  if (!list.empty()) {
    changes_->Tell(
        *context, "Inject",
        fmt::format("{}, '{}' the first", FormatPlural(list.size(), "fault"),
                    list.front().name));
  }
  for (const faults::MemberProcess& process : board_->Members()) {
    if (!process.up_to_date) response->add_behind(process.name);
  }
  return grpc::Status::OK;
}

grpc::Status FaultsService::List(grpc::ServerContext* context,
                                 const v1::ListFaultsRequest*,
                                 v1::ListFaultsResponse* response) {
  if (auto s = CheckBoard(); !s.ok()) return ToGrpc(s, context);
  for (const faults::Injected& injected : board_->List()) {
    auto* entry = response->add_faults();
    entry->set_id(injected.id);
    *entry->mutable_fault() = ToMessage(injected.fault);
    entry->set_passages(injected.passages);
    entry->set_struck(injected.struck);
    entry->set_spent(injected.spent);
  }
  for (const faults::Strike& strike : board_->Strikes()) {
    auto* message = response->add_strikes();
    message->set_fault_id(strike.fault_id);
    message->set_time_ns(strike.time_ns);
    message->set_pid(strike.pid);
    message->set_passage(strike.passage);
  }
  for (const faults::MemberProcess& process : board_->Members()) {
    auto* message = response->add_processes();
    message->set_name(process.name);
    message->set_pid(process.pid);
    message->set_behind(!process.up_to_date);
  }
  response->set_struck(board_->strikes());
  return grpc::Status::OK;
}

grpc::Status FaultsService::Clear(grpc::ServerContext* context,
                                  const v1::ClearFaultsRequest* request,
                                  v1::ClearFaultsResponse* response) {
  if (auto s = CheckBoard(); !s.ok()) return ToGrpc(s, context);
  if (request->name().empty()) {
    response->set_cleared(static_cast<uint32_t>(board_->ClearAll()));
    changes_->Tell(*context, "Clear", "all faults");
    return grpc::Status::OK;
  }
  if (auto s = board_->Clear(request->name()); !s.ok()) {
    return ToGrpc(
        WithDetail(s, reason::kUnknownFault, "name", "carillon fault list"),
        context);
  }
  response->set_cleared(1);
  changes_->Tell(*context, "Clear", fmt::format("'{}'", request->name()));
  return grpc::Status::OK;
}

}  // namespace carillon::gpud
