#include "gpu_daemon/control/rpc/admin_service.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/rpc/describe.h"
#include "gpu_daemon/control/rpc/rpc_faults.h"
#include "gpu_daemon/control/rpc/watch_stream.h"
#include "gpu_daemon/control/sessions/drain.h"
#include "gpu_daemon/control/sessions/module_request.h"
#include "gpu_daemon/control/sessions/names.h"
#include "gpu_daemon/options/policy_names.h"

namespace carillon::gpud {
namespace {

// Each holds one of gRPC's threads.
constexpr size_t kMaxStreams = 32;
constexpr uint32_t kMaxDrains = 16;
constexpr size_t kMaxListed = 1000;
template <class T>
std::span<const T> Listed(const std::vector<T>& all) {
  return {all.data(), std::min(all.size(), kMaxListed)};
}
// Names of devices that have a share, whether they are attached or not.
constexpr size_t kMaxShares = 1000;
// A caller that missed a change must take the news of it within this time, and
// one that reads snapshots every message.
constexpr Nanoseconds kStuckNs = 5'000'000'000;

// Returns the reason of an error of KernelCatalog::Load().
std::string_view ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAlreadyExists:
      return reason::kKernelNameTaken;
    case absl::StatusCode::kNotFound:
      return reason::kUnknownKernel;
    case absl::StatusCode::kResourceExhausted:
      return reason::kTooMany;
    default:
      return reason::kBadImage;
  }
}

}  // namespace

grpc::Status AdminService::GetStatus(grpc::ServerContext* context,
                                     const v1::GetStatusRequest*,
                                     v1::GetStatusResponse* response) {
  if (auto s = PassRpc("GetStatus"); !s.ok()) return ToGrpc(s, context);
  response->set_testbed(info_.testbed);
  response->set_pid(static_cast<uint32_t>(getpid()));
  response->set_uptime_ns(NowNs() - info_.started_ns);
  const Backend& backend = *context_->backend;
  response->set_backend(std::string(backend.name()));
  response->set_backend_description(backend.description());
  response->set_policy(backend.policy());
  response->set_workers(backend.workers());
  response->set_ekt_entries(context_->ekt->capacity());
  response->set_ekt_used(context_->ekt->used());
  response->set_devices(static_cast<uint32_t>(sessions_->All().size()));
  const BackendFigures figures = backend.figures();
  v1::GpuModel* gpu = response->mutable_gpu();
  gpu->set_sms(backend.gpu().sms);
  gpu->set_blocks_per_sm(backend.gpu().blocks_per_sm);
  gpu->set_threads_per_sm(backend.gpu().threads_per_sm);
  gpu->set_registers_per_sm(backend.gpu().registers_per_sm);
  gpu->set_shared_bytes_per_sm(backend.gpu().shared_bytes_per_sm);
  gpu->set_resident_blocks(figures.resident_blocks);
  response->set_memory_bytes(context_->budget->total());
  response->set_memory_used(context_->budget->used());
  response->set_tracing(context_->backend->paths().tracing());
  Describe(context_->ekt->totals(), response->mutable_events());
  response->set_telemetry_sent(context_->bus->sent());
  response->set_telemetry_dropped(context_->bus->dropped());
  response->set_background_kernels(figures.background_kernels);
  response->set_background_blocks(figures.background_blocks);
  Describe(figures.slices, response->mutable_slices());
  Describe(figures.ptb, response->mutable_ptb());
  for (const PolicyInfo* policy : backend.policies()) {
    v1::Policy* shown = response->add_policies();
    shown->set_name(std::string(policy->name));
    shown->set_summary(std::string(policy->summary));
    shown->set_starves(std::string(policy->starves));
  }
  const auto launches = backend.launches();
  const auto longest =
      std::ranges::max_element(launches, {}, &LaunchProgress::wait_ns);
  if (longest != launches.end() && longest->wait_ns != 0) {
    Describe(*longest, response->mutable_longest_wait());
  }
  DescribePaths(response);
  describe_tcp_(response);
  return grpc::Status::OK;
}

void AdminService::DescribePaths(v1::GetStatusResponse* response) const {
  const auto events = context_->ekt->events();
  for (const PathSet::Description& path :
       context_->backend->paths().Describe()) {
    Describe(path, events, response->add_launch_paths());
  }
}

grpc::Status AdminService::ListDevices(grpc::ServerContext* context,
                                       const v1::ListDevicesRequest*,
                                       v1::ListDevicesResponse* response) {
  if (auto s = PassRpc("ListDevices"); !s.ok()) return ToGrpc(s, context);
  const Nanoseconds now = NowNs();
  for (const auto& session : sessions_->All()) {
    Describe(*session, now, response->add_devices());
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ListEkt(grpc::ServerContext* context,
                                   const v1::ListEktRequest*,
                                   v1::ListEktResponse* response) {
  if (auto s = PassRpc("ListEkt"); !s.ok()) return ToGrpc(s, context);
  response->set_capacity(context_->ekt->capacity());
  for (const auto& event : context_->ekt->events()) {
    Describe(*event, response->add_entries());
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ListRings(grpc::ServerContext* context,
                                     const v1::ListRingsRequest*,
                                     v1::ListRingsResponse* response) {
  if (auto s = PassRpc("ListRings"); !s.ok()) return ToGrpc(s, context);
  for (const auto& event : context_->ekt->events()) {
    Describe(*event, response->add_rings());
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::ListQueues(grpc::ServerContext* context,
                                      const v1::ListQueuesRequest*,
                                      v1::ListQueuesResponse* response) {
  if (auto s = PassRpc("ListQueues"); !s.ok()) return ToGrpc(s, context);
  for (const QueueLength& length : context_->backend->queue_lengths()) {
    Describe(length, response->add_queues());
  }
  const auto launches = context_->backend->launches();
  for (const LaunchProgress& launch : Listed(launches)) {
    Describe(launch, response->add_launches());
  }
  response->set_left_out(launches.size() - response->launches_size());
  const auto copies = context_->backend->copies();
  for (const CopyProgress& copy : Listed(copies)) {
    Describe(copy, response->add_copies());
  }
  response->set_copies_left_out(copies.size() - response->copies_size());
  return grpc::Status::OK;
}

grpc::Status AdminService::Watch(
    grpc::ServerContext* context, const v1::WatchRequest*,
    grpc::ServerWriter<v1::TelemetryEvent>* writer) {
  if (auto s = PassRpc("Watch"); !s.ok()) return ToGrpc(s, context);
  std::shared_ptr<TelemetryBus::Watcher> watcher;
  return ToGrpc(Serve(
                    context,
                    [&] {
                      watcher = context_->bus->Subscribe();
                      return [watcher] { return watcher->overflowed_ns(); };
                    },
                    [&] {
                      return StreamChanges(
                          *watcher, *sessions_,
                          [writer](const v1::TelemetryEvent& message) {
                            return writer->Write(message);
                          },
                          [context] { return context->IsCancelled(); });
                    }),
                context);
}

grpc::Status AdminService::StreamSnapshots(
    grpc::ServerContext* context, const v1::StreamSnapshotsRequest* request,
    grpc::ServerWriter<v1::Snapshot>* writer) {
  if (auto s = PassRpc("StreamSnapshots"); !s.ok()) return ToGrpc(s, context);
  const auto intervals = SnapshotSampler::IntervalsOf(*request);
  if (!intervals.ok()) return ToGrpc(intervals.status(), context);
  std::unique_ptr<SnapshotSampler::Reader> reader;
  return ToGrpc(Serve(
                    context,
                    [&] {
                      reader = sampler_.Subscribe(*intervals);
                      return [&of = *reader] { return of.writing_since_ns(); };
                    },
                    [&] {
                      gpud::StreamSnapshots(
                          *reader,
                          [writer](const v1::Snapshot& message) {
                            return writer->Write(message);
                          },
                          [context] { return context->IsCancelled(); });
                      return absl::OkStatus();
                    }),
                context);
}

absl::Status AdminService::Serve(grpc::ServerContext* context,
                                 absl::FunctionRef<StuckSince()> begin,
                                 absl::FunctionRef<absl::Status()> body) {
  std::list<Stream>::iterator stream;
  {
    MutexLock lock(streams_mutex_);
    if (streams_.size() >= kMaxStreams) {
      return Error(absl::StatusCode::kResourceExhausted,
                   fmt::format("{} calls watch or read snapshots already: that "
                               "is the limit; end one, or follow changes on "
                               "the event bus",
                               kMaxStreams),
                   reason::kTooMany, "watchers");
    }
    stream = streams_.insert(streams_.end(), {context, begin()});
  }
  const absl::Status status = body();
  MutexLock lock(streams_mutex_);
  streams_.erase(stream);
  return status;
}

void AdminService::CancelStuckStreams(Nanoseconds now) {
  MutexLock lock(streams_mutex_);
  for (const Stream& stream : streams_) {
    const Nanoseconds since = stream.stuck_since_ns();
    if (since == 0 || now <= since + kStuckNs) continue;
    stream.context->TryCancel();
    if (now > since + 2 * kStuckNs) cut_(stream.context->peer());
  }
}

absl::Status AdminService::CheckShare(const v1::DeviceShare& share) const {
  RETURN_IF_ERROR(CheckName("share.device", share.device()));
  if (share.has_weight() &&
      (share.weight() == 0 || share.weight() > DeviceShare::kMostWeight)) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("weight {}: must be from 1 to {}", share.weight(),
                             DeviceShare::kMostWeight),
                 reason::kBadCount, "share.weight");
  }
  if (share.has_max_priority() && share.max_priority() >= kPriorities) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("priority {}: must be from 0 (lowest) to {}",
                             share.max_priority(), kPriorities - 1),
                 reason::kBadPriority, "share.max_priority");
  }
  if (context_->shares.size() >= kMaxShares &&
      !context_->shares.Has(share.device())) {
    return Error(absl::StatusCode::kResourceExhausted,
                 fmt::format("{} names of devices have a share: that is the "
                             "limit",
                             kMaxShares),
                 reason::kTooMany, "share.device");
  }
  return absl::OkStatus();
}

void AdminService::SetShare(const v1::DeviceShare& share) {
  std::optional<uint32_t> weight;
  std::optional<uint32_t> max_priority;
  if (share.has_weight()) weight = share.weight();
  if (share.has_max_priority()) max_priority = share.max_priority();
  context_->shares.Set(share.device(), weight, max_priority);
  for (const auto& session : sessions_->All()) {
    if (session->identity().name != share.device()) continue;
    context_->shares.Apply(share.device(), session->memory());
  }
}

grpc::Status AdminService::SetPolicy(grpc::ServerContext* context,
                                     const v1::SetPolicyRequest* request,
                                     v1::SetPolicyResponse* response) {
  if (auto s = PassRpc("SetPolicy"); !s.ok()) return ToGrpc(s, context);
  const std::string previous = context_->backend->policy();
  // A call that fails changes nothing.
  if (request->has_share()) {
    if (auto status = CheckShare(request->share()); !status.ok()) {
      return ToGrpc(status, context);
    }
  }
  if (!request->policy().empty()) {
    if (auto status = context_->backend->SetPolicy(request->policy());
        !status.ok()) {
      return ToGrpc(
          WithDetail(status, reason::kUnknownPolicy, request->policy()),
          context);
    }
  }
  response->set_previous(previous);
  if (request->has_share()) {
    SetShare(request->share());
    changes_->Tell(
        *context, "SetPolicy",
        fmt::format("the share of device {}", request->share().device()));
  }
  if (request->policy().empty()) return grpc::Status::OK;
  v1::TelemetryEvent message;
  message.mutable_policy_changed()->set_from(previous);
  message.mutable_policy_changed()->set_to(request->policy());
  context_->bus->Publish(std::move(message));
  changes_->Tell(*context, "SetPolicy",
                 fmt::format("{} instead of {}", request->policy(), previous));
  return grpc::Status::OK;
}

grpc::Status AdminService::ResetStatistics(grpc::ServerContext* context,
                                           const v1::ResetStatisticsRequest*,
                                           v1::ResetStatisticsResponse*) {
  if (auto s = PassRpc("ResetStatistics"); !s.ok()) return ToGrpc(s, context);
  for (const auto& event : context_->ekt->events()) event->stages().Reset();
  changes_->Tell(*context, "ResetStatistics", "the latencies so far");
  return grpc::Status::OK;
}

grpc::Status AdminService::SetTracing(grpc::ServerContext* context,
                                      const v1::SetTracingRequest* request,
                                      v1::SetTracingResponse*) {
  if (auto s = PassRpc("SetTracing"); !s.ok()) return ToGrpc(s, context);
  context_->backend->paths().SetTracing(request->on());
  // A path whose doorbells a GPU polls does not tell the devices.
  for (const auto& session : sessions_->All()) session->TellTracing();
  changes_->Tell(*context, "SetTracing", request->on() ? "on" : "off");
  return grpc::Status::OK;
}

uint64_t AdminService::InFlight() const {
  uint64_t in_flight = 0;
  for (const auto& event : context_->ekt->events()) {
    in_flight += event->busy();
  }
  return in_flight;
}

grpc::Status AdminService::Drain(grpc::ServerContext* context,
                                 const v1::DrainRequest* request,
                                 v1::DrainResponse*) {
  if (auto s = PassRpc("Drain"); !s.ok()) return ToGrpc(s, context);
  const uint32_t others = drains_.fetch_add(1, std::memory_order_relaxed);
  const absl::Cleanup leave = [this] {
    drains_.fetch_sub(1, std::memory_order_relaxed);
  };
  if (others >= kMaxDrains) {
    return ToGrpc(Error(absl::StatusCode::kResourceExhausted,
                        fmt::format("{} calls wait for a drain already: that "
                                    "is the limit",
                                    kMaxDrains),
                        reason::kTooMany, "drains"),
                  context);
  }
  const std::chrono::milliseconds limit = DrainLimit(request->timeout_ms());
  changes_->Tell(*context, "Drain",
                 fmt::format("for {} ms at most", limit.count()));
  uint64_t in_flight = 0;
  bool idle = false;
  const DrainOutcome outcome = WaitUntilDrained(
      [&] {
        in_flight = InFlight();
        idle = context_->backend->idle();
        return in_flight == 0 && idle;
      },
      limit, [context] { return context->IsCancelled(); });
  switch (outcome) {
    case DrainOutcome::kDrained:
      break;
    case DrainOutcome::kGivenUp:
      return ToGrpc(absl::CancelledError("the caller gave up"), context);
    case DrainOutcome::kTimedOut:
      return ToGrpc(
          Error(absl::StatusCode::kDeadlineExceeded,
                fmt::format("{} events are in flight and kernels {} after {} "
                            "ms; stop the devices that ring, or wait longer",
                            in_flight, idle ? "do not run" : "still run",
                            limit.count()),
                reason::kNotDrained, "timeout_ms", "carillon rings"),
          context);
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::Shutdown(grpc::ServerContext* context,
                                    const v1::ShutdownRequest*,
                                    v1::ShutdownResponse*) {
  if (auto s = PassRpc("Shutdown"); !s.ok()) return ToGrpc(s, context);
  changes_->Tell(*context, "Shutdown", "the testbed goes down");
  request_shutdown_();
  return grpc::Status::OK;
}

grpc::Status AdminService::RegisterModule(
    grpc::ServerContext* context, const v1::RegisterModuleRequest* request,
    v1::RegisterModuleResponse* response) {
  if (auto s = PassRpc("RegisterModule"); !s.ok()) return ToGrpc(s, context);
  const auto source = ReadModuleRequest(*request);
  if (!source.ok()) return ToGrpc(source.status(), context);
  const auto loaded = context_->kernels->Load(*source, *context_->backend);
  if (!loaded.ok()) {
    return ToGrpc(
        WithDetail(loaded.status(), ReasonOf(loaded.status()), source->file),
        context);
  }
  for (const simt::KernelInfo* kernel : *loaded) {
    Describe(*kernel, response->add_kernels());
  }
  changes_->Tell(*context, "RegisterModule",
                 fmt::format("{} from {}, '{}' the first",
                             FormatPlural(loaded->size(), "kernel"),
                             source->file, loaded->front()->name));
  if (const auto kept = context_->modules->Keep(*request); !kept.ok()) {
    spdlog::warn("{}: the next gpud will not have its kernels: {}",
                 source->file, std::string(kept.message()));
  }
  return grpc::Status::OK;
}

}  // namespace carillon::gpud
