#include "tools/testbed/client/admin_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "proto/admin.grpc.pb.h"
#include "proto/events.grpc.pb.h"
#include "tools/testbed/client/gpud_channel.h"
#include "tools/testbed/client/health.grpc.pb.h"

namespace carillon::testbed {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kProbeTimeout{1000};
constexpr milliseconds kConnectTime{20};
constexpr milliseconds kWatchTick{100};
constexpr milliseconds kLoadTimeout{60'000};

using Admin = v1::Admin::Stub;

}  // namespace

struct AdminClient::Channel : GpudChannel {
  template <class Where>
  Channel(Where where, milliseconds limit)
      : GpudChannel(std::move(where)),
        timeout(limit),
        admin(v1::Admin::NewStub(channel())),
        events(v1::Events::NewStub(channel())) {}

  template <class Stub, class Request, class Response>
  absl::StatusOr<Response> Ask(
      Stub& stub,
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      std::string_view name, const Request& request, milliseconds limit) const {
    Response response;
    RETURN_IF_ERROR(Call(stub, method, name, request, &response, limit));
    return response;
  }
  template <class Request, class Response>
  absl::StatusOr<Response> Ask(
      grpc::Status (Admin::*method)(grpc::ClientContext*, const Request&,
                                    Response*),
      std::string_view name, const Request& request = Request()) const {
    return Ask(*admin, method, name, request, timeout);
  }

  // Calls `on_message` until it returns false (then OK) or the stream ends; with
  // a null pointer about every 100 ms.
  template <class Request, class Message>
  absl::Status Follow(
      std::unique_ptr<grpc::ClientAsyncReader<Message>> (Admin::*method)(
          grpc::ClientContext*, const Request&, grpc::CompletionQueue*, void*),
      std::string_view name, const Request& request,
      const std::function<bool(const Message*)>& on_message) const {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto stream = (*admin.*method)(&context, request, &queue, nullptr);
    Message message;
    bool started = false;
    bool wanted = true;
    for (;;) {
      void* tag;
      bool ok = false;
      const auto next = queue.AsyncNext(
          &tag, &ok, std::chrono::system_clock::now() + kWatchTick);
      if (next == grpc::CompletionQueue::TIMEOUT) {
        if (wanted && !on_message(nullptr)) {
          wanted = false;
          context.TryCancel();
        }
        continue;
      }
      if (!ok) break;
      if (started && wanted && !on_message(&message)) {
        wanted = false;
        context.TryCancel();
      }
      started = true;
      stream->Read(&message, nullptr);
    }
    grpc::Status status;
    stream->Finish(&status, nullptr);
    void* tag;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!wanted) return absl::OkStatus();
    return ToStatus(status, context, name, milliseconds(0));
  }

  const milliseconds timeout;
  const std::unique_ptr<v1::Admin::Stub> admin;
  const std::unique_ptr<v1::Events::Stub> events;
};

AdminClient::AdminClient(const TestbedPaths& paths, milliseconds timeout)
    : channel_(std::make_unique<Channel>(paths.operator_socket(), timeout)) {}

AdminClient::AdminClient(RemoteGpud gpud, milliseconds timeout)
    : channel_(std::make_unique<Channel>(std::move(gpud), timeout)) {}

AdminClient::~AdminClient() = default;

absl::Status AdminClient::CheckHealth() {
  // Do not ask as long as there is no socket: a failed attempt to connect costs
  // a back-off.
  if (!channel_->remote() && access(channel_->where().c_str(), F_OK) != 0) {
    return absl::UnavailableError(
        fmt::format("there is no {}", channel_->where()));
  }
  // gpud may be another process than before. A call on a channel that
  // reconnects fails at once, and gRPC reads the server's answer to the
  // connection only while somebody waits for it, otherwise every five seconds.
  channel_->channel()->WaitForConnected(std::chrono::system_clock::now() +
                                        kConnectTime);
  using grpc::health::v1::Health;
  const auto stub = Health::NewStub(channel_->channel());
  ASSIGN_OR_RETURN(
      const auto response,
      channel_->Ask(*stub, &Health::Stub::Check, "Check",
                    grpc::health::v1::HealthCheckRequest(), channel_->timeout));
  if (response.status() != grpc::health::v1::HealthCheckResponse::SERVING) {
    return absl::UnavailableError("gpud answers that it does not serve");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::GetStatusResponse> AdminClient::GetStatus() {
  return channel_->Ask(&Admin::GetStatus, "GetStatus");
}

absl::StatusOr<v1::ListDevicesResponse> AdminClient::ListDevices() {
  return channel_->Ask(&Admin::ListDevices, "ListDevices");
}

absl::StatusOr<v1::ListEktResponse> AdminClient::ListEkt() {
  return channel_->Ask(&Admin::ListEkt, "ListEkt");
}

absl::StatusOr<v1::ListRingsResponse> AdminClient::ListRings() {
  return channel_->Ask(&Admin::ListRings, "ListRings");
}

absl::StatusOr<v1::ListQueuesResponse> AdminClient::ListQueues() {
  return channel_->Ask(&Admin::ListQueues, "ListQueues");
}

absl::StatusOr<v1::ListKernelsResponse> AdminClient::ListKernels() {
  return channel_->Ask(*channel_->events, &v1::Events::Stub::ListKernels,
                       "ListKernels", v1::ListKernelsRequest(),
                       channel_->timeout);
}

absl::StatusOr<std::string> AdminClient::SetPolicy(const std::string& policy) {
  v1::SetPolicyRequest request;
  request.set_policy(policy);
  ASSIGN_OR_RETURN(const auto response,
                   channel_->Ask(&Admin::SetPolicy, "SetPolicy", request));
  return response.previous();
}

absl::Status AdminClient::SetShare(const v1::DeviceShare& share) {
  v1::SetPolicyRequest request;
  *request.mutable_share() = share;
  return channel_->Ask(&Admin::SetPolicy, "SetPolicy", request).status();
}

absl::StatusOr<v1::RegisterModuleResponse> AdminClient::RegisterModule(
    const v1::RegisterModuleRequest& request) {
  // One that is stopped is not waited for as long as one that loads.
  RETURN_IF_ERROR(GetStatus().status());
  return channel_->Ask(*channel_->admin, &Admin::RegisterModule,
                       "RegisterModule", request,
                       std::max(channel_->timeout, kLoadTimeout));
}

absl::Status AdminClient::SetTracing(bool on) {
  v1::SetTracingRequest request;
  request.set_on(on);
  return channel_->Ask(&Admin::SetTracing, "SetTracing", request).status();
}

absl::Status AdminClient::ResetStatistics() {
  return channel_->Ask(&Admin::ResetStatistics, "ResetStatistics").status();
}

absl::Status AdminClient::Drain(milliseconds limit) {
  v1::DrainRequest request;
  request.set_timeout_ms(static_cast<uint32_t>(limit.count()));
  return channel_
      ->Ask(*channel_->admin, &Admin::Drain, "Drain", request,
            limit + channel_->timeout)
      .status();
}

absl::Status AdminClient::Watch(
    const std::function<bool(const v1::TelemetryEvent*)>& on_event) {
  return channel_->Follow(&Admin::AsyncWatch, "Watch", v1::WatchRequest(),
                          on_event);
}

absl::Status AdminClient::StreamSnapshots(
    const v1::StreamSnapshotsRequest& request,
    const std::function<bool(const v1::Snapshot*)>& on_snapshot) {
  return channel_->Follow(&Admin::AsyncStreamSnapshots, "StreamSnapshots",
                          request, on_snapshot);
}

GrpcReadinessProbe::GrpcReadinessProbe(const TestbedPaths& paths)
    : client_(paths, kProbeTimeout) {}

absl::Status GrpcReadinessProbe::Gpud(std::string* note) {
  RETURN_IF_ERROR(client_.CheckHealth());
  ASSIGN_OR_RETURN(const auto status, client_.GetStatus());
  // What changes is for `status`: the note stays as long as gpud does.
  const std::string& description = status.backend_description();
  *note = fmt::format("{} back-end: {}", status.backend(),
                      description.substr(0, description.find(", now ")));
  if (!status.listen().empty()) {
    *note += fmt::format("; listens on {}, with TLS", status.listen());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, DeviceReadiness>>
GrpcReadinessProbe::Devices() {
  ASSIGN_OR_RETURN(const auto devices, client_.ListDevices());
  std::map<std::string, DeviceReadiness> readiness;
  for (const v1::Device& device : devices.devices()) {
    readiness[device.name()] = {device.state() == "ready", device.note(),
                                static_cast<pid_t>(device.pid())};
  }
  return readiness;
}

absl::Status GrpcReadinessProbe::Link() {
  const auto status = client_.GetStatus();
  const std::string state = status.ok() ? LinkStateOf(*status) : "";
  return state.starts_with("down") ? absl::UnavailableError(state)
                                   : absl::OkStatus();
}

std::string LinkStateOf(const v1::GetStatusResponse& status) {
  if (status.backend() != "remote") return "";
  // "by link to b (10.0.0.6:4711), now down: Connection refused", or, in
  // simulated time, "in the simulated time of b (10.0.0.6:4711), now up"
  constexpr std::string_view kNow = "), now ";
  const std::string& said = status.backend_description();
  const size_t at = said.find(kNow);
  return at == said.npos ? said : said.substr(at + kNow.size());
}

uint64_t InFlight(const v1::EventCounts& counts) {
  const uint64_t ended = counts.done() + counts.failed() + counts.aborted();
  return counts.rung() > ended ? counts.rung() - ended : 0;
}

absl::Status CheckLedger(const v1::EventCounts& counts) {
  const uint64_t ended = counts.done() + counts.failed() + counts.aborted();
  if (ended <= counts.rung()) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "the ledger is wrong: {} events rung, but {} ended ({} done, {} failed, "
      "{} aborted)",
      counts.rung(), ended, counts.done(), counts.failed(), counts.aborted()));
}

}  // namespace carillon::testbed
