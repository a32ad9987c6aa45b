#include "tools/testbed/client/admin_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
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
}  // namespace

struct AdminClient::Channel : GpudChannel {
  template <class Where>
  explicit Channel(Where where)
      : GpudChannel(std::move(where)),
        admin(v1::Admin::NewStub(channel())),
        events(v1::Events::NewStub(channel())) {}

  const std::unique_ptr<v1::Admin::Stub> admin;
  const std::unique_ptr<v1::Events::Stub> events;
};

AdminClient::AdminClient(const TestbedPaths& paths, milliseconds timeout)
    : timeout_(timeout),
      channel_(std::make_unique<Channel>(paths.control_socket())) {}

AdminClient::AdminClient(RemoteGpud gpud, milliseconds timeout)
    : timeout_(timeout), channel_(std::make_unique<Channel>(std::move(gpud))) {}

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
  grpc::health::v1::HealthCheckResponse response;
  const absl::Status status = channel_->Call(
      *stub, &Health::Stub::Check, "Check",
      grpc::health::v1::HealthCheckRequest(), &response, timeout_);
  if (!status.ok()) return status;
  if (response.status() != grpc::health::v1::HealthCheckResponse::SERVING) {
    return absl::UnavailableError("gpud answers that it does not serve");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::GetStatusResponse> AdminClient::GetStatus() {
  v1::GetStatusResponse response;
  RETURN_IF_ERROR(channel_->Call(*channel_->admin, &v1::Admin::Stub::GetStatus,
                                 "GetStatus", v1::GetStatusRequest(), &response,
                                 timeout_));
  return response;
}

absl::StatusOr<v1::ListDevicesResponse> AdminClient::ListDevices() {
  v1::ListDevicesResponse response;
  RETURN_IF_ERROR(channel_->Call(
      *channel_->admin, &v1::Admin::Stub::ListDevices, "ListDevices",
      v1::ListDevicesRequest(), &response, timeout_));
  return response;
}

absl::StatusOr<v1::ListEktResponse> AdminClient::ListEkt() {
  v1::ListEktResponse response;
  RETURN_IF_ERROR(channel_->Call(*channel_->admin, &v1::Admin::Stub::ListEkt,
                                 "ListEkt", v1::ListEktRequest(), &response,
                                 timeout_));
  return response;
}

absl::StatusOr<v1::ListRingsResponse> AdminClient::ListRings() {
  v1::ListRingsResponse response;
  RETURN_IF_ERROR(channel_->Call(*channel_->admin, &v1::Admin::Stub::ListRings,
                                 "ListRings", v1::ListRingsRequest(), &response,
                                 timeout_));
  return response;
}

absl::StatusOr<v1::ListQueuesResponse> AdminClient::ListQueues() {
  v1::ListQueuesResponse response;
  RETURN_IF_ERROR(channel_->Call(*channel_->admin, &v1::Admin::Stub::ListQueues,
                                 "ListQueues", v1::ListQueuesRequest(),
                                 &response, timeout_));
  return response;
}

absl::StatusOr<v1::ListKernelsResponse> AdminClient::ListKernels() {
  v1::ListKernelsResponse response;
  RETURN_IF_ERROR(channel_->Call(
      *channel_->events, &v1::Events::Stub::ListKernels, "ListKernels",
      v1::ListKernelsRequest(), &response, timeout_));
  return response;
}

absl::StatusOr<std::string> AdminClient::SetPolicy(const std::string& policy) {
  v1::SetPolicyRequest request;
  request.set_policy(policy);
  v1::SetPolicyResponse response;
  RETURN_IF_ERROR(channel_->Call(*channel_->admin, &v1::Admin::Stub::SetPolicy,
                                 "SetPolicy", request, &response, timeout_));
  return response.previous();
}

absl::StatusOr<v1::RegisterModuleResponse> AdminClient::RegisterModule(
    const v1::RegisterModuleRequest& request) {
  v1::RegisterModuleResponse response;
  RETURN_IF_ERROR(channel_->Call(
      *channel_->admin, &v1::Admin::Stub::RegisterModule, "RegisterModule",
      request, &response, std::max(timeout_, kLoadTimeout)));
  return response;
}

absl::Status AdminClient::SetTracing(bool on) {
  v1::SetTracingRequest request;
  request.set_on(on);
  v1::SetTracingResponse response;
  return channel_->Call(*channel_->admin, &v1::Admin::Stub::SetTracing,
                        "SetTracing", request, &response, timeout_);
}

absl::Status AdminClient::ResetStatistics() {
  v1::ResetStatisticsResponse response;
  return channel_->Call(*channel_->admin, &v1::Admin::Stub::ResetStatistics,
                        "ResetStatistics", v1::ResetStatisticsRequest(),
                        &response, timeout_);
}

absl::Status AdminClient::Drain(milliseconds limit) {
  v1::DrainRequest request;
  request.set_timeout_ms(static_cast<uint32_t>(limit.count()));
  v1::DrainResponse response;
  return channel_->Call(*channel_->admin, &v1::Admin::Stub::Drain, "Drain",
                        request, &response, limit + timeout_);
}

absl::Status AdminClient::Watch(
    const std::function<bool(const v1::TelemetryEvent*)>& on_event) {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto stream = channel_->admin->AsyncWatch(&context, v1::WatchRequest(),
                                                  &queue, nullptr);
  v1::TelemetryEvent event;
  bool started = false;
  bool wanted = true;
  for (;;) {
    void* tag;
    bool ok = false;
    const auto next = queue.AsyncNext(
        &tag, &ok, std::chrono::system_clock::now() + kWatchTick);
    if (next == grpc::CompletionQueue::TIMEOUT) {
      if (wanted && !on_event(nullptr)) {
        wanted = false;
        context.TryCancel();
      }
      continue;
    }
    if (!ok) break;
    if (started && wanted && !on_event(&event)) {
      wanted = false;
      context.TryCancel();
    }
    started = true;
    stream->Read(&event, nullptr);
  }
  grpc::Status status;
  stream->Finish(&status, nullptr);
  void* tag;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!wanted) return absl::OkStatus();
  return channel_->ToStatus(status, context, "Watch", milliseconds(0));
}

GrpcReadinessProbe::GrpcReadinessProbe(const TestbedPaths& paths)
    : paths_(paths), client_(paths, kProbeTimeout) {}

absl::Status GrpcReadinessProbe::Gpud(std::string* note) {
  RETURN_IF_ERROR(client_.CheckHealth());
  ASSIGN_OR_RETURN(const auto status, client_.GetStatus());
  *note = fmt::format("{} back-end: {}; policy {}", status.backend(),
                      status.backend_description(), status.policy());
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

}  // namespace carillon::testbed
