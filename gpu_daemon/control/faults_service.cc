#include "gpu_daemon/control/faults_service.h"

#include <string>
#include <vector>

#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "shm/faults/fault.h"

namespace carillon::gpud {
namespace {

absl::StatusOr<faults::Fault> FromProto(const v1::Fault& message) {
  const auto invalid = [&](std::string_view field, std::string text) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("fault {}: {}: {}", message.name(), field, text),
                 reason::kBadFault, field, "carillon fault points");
  };
  faults::Fault fault;
  fault.name = message.name();
  const v1::Fault::Target& target = message.target();
  if (!target.process().empty()) fault.process = target.process();
  if (!target.device().empty()) fault.device = target.device();
  if (!target.method().empty()) fault.method = target.method();
  if (target.has_event_id()) fault.event_id = target.event_id();

  const v1::Fault::When& when = message.when();
  if (!when.point().empty()) {
    const auto point = faults::PointOf(when.point());
    if (!point) {
      return invalid("point", fmt::format("'{}' is none", when.point()));
    }
    fault.point = *point;
  }
  if (when.nth() != 0) fault.nth = when.nth();
  if (when.every() != 0) fault.every = when.every();
  if (when.probability() != 0) fault.probability = when.probability();
  fault.after_ns = when.after_ns();
  fault.window_ns = when.window_ns();
  fault.every_ns = when.every_ns();
  fault.after_fault = when.after_fault();

  const v1::Fault::Action& action = message.action();
  const auto kind = faults::ActionOf(action.kind());
  if (!kind) {
    return invalid("action", fmt::format("'{}' is none", action.kind()));
  }
  fault.action = *kind;
  fault.duration_ns = action.for_ns();
  fault.jitter_ns = action.jitter_ns();
  fault.count = action.count();
  fault.code = action.code();
  fault.offset = action.offset();
  fault.bytes = action.bytes();
  fault.mask = action.mask();
  if (message.has_times()) fault.times = message.times();
  fault.seed = message.seed();
  return fault;
}

void ToProto(const faults::Fault& fault, v1::Fault* message) {
  message->set_name(fault.name);
  v1::Fault::Target& target = *message->mutable_target();
  target.set_process(fault.process);
  target.set_device(fault.device);
  target.set_method(fault.method);
  if (fault.event_id != faults::kAnyEvent) target.set_event_id(fault.event_id);

  v1::Fault::When& when = *message->mutable_when();
  if (fault.point != faults::Point::kNone) {
    when.set_point(std::string(faults::InfoOf(fault.point).name));
  }
  when.set_nth(fault.nth);
  when.set_every(fault.every);
  when.set_probability(fault.probability);
  when.set_after_ns(fault.after_ns);
  when.set_window_ns(fault.window_ns);
  when.set_every_ns(fault.every_ns);
  when.set_after_fault(fault.after_fault);

  v1::Fault::Action& action = *message->mutable_action();
  action.set_kind(std::string(faults::ActionName(fault.action)));
  action.set_for_ns(fault.duration_ns);
  action.set_jitter_ns(fault.jitter_ns);
  action.set_count(fault.count);
  action.set_code(fault.code);
  action.set_offset(fault.offset);
  action.set_bytes(fault.bytes);
  action.set_mask(fault.mask);
  message->set_times(fault.times);
  message->set_seed(fault.seed);
}

}  // namespace

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
    auto fault = FromProto(message);
    if (!fault.ok()) return ToGrpc(fault.status(), context);
    list.push_back(*std::move(fault));
  }
  auto ids = board_->Inject(list);
  if (!ids.ok()) {
    return ToGrpc(WithDetail(ids.status(), reason::kBadFault, "",
                             "carillon fault points"),
                  context);
  }
  response->mutable_ids()->Add(ids->begin(), ids->end());
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
    ToProto(injected.fault, entry->mutable_fault());
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
    return grpc::Status::OK;
  }
  if (auto s = board_->Clear(request->name()); !s.ok()) {
    return ToGrpc(
        WithDetail(s, reason::kUnknownFault, "name", "carillon fault list"),
        context);
  }
  response->set_cleared(1);
  return grpc::Status::OK;
}

}  // namespace carillon::gpud
