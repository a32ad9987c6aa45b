#include "gpu_daemon/control/rpc/device_gate.h"

#include <utility>

#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/rpc/roles.h"

namespace carillon::gpud {
namespace {

// Ends a call, and itself.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(grpc::Status status) { Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* DeviceGate::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  const auto peer = peers_->Find(context->peer());
  const absl::Status refusal =
      DeviceRefusal(context->method(), peer == nullptr ? 0 : peer->pid,
                    peer == nullptr ? 0 : peer->uid, operator_socket_);
  if (absl::IsPermissionDenied(refusal)) {
    refused_.Add(std::string(refusal.message()));
  }
  return new Refusal(ToGrpc(refusal, context));
}

}  // namespace carillon::gpud
