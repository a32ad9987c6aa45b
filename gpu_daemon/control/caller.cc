#include "gpu_daemon/control/caller.h"

#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/rpc_faults.h"

namespace carillon::gpud {

absl::StatusOr<std::shared_ptr<const Peer>> Callers::PeerOf(
    const grpc::ServerContext& context) const {
  auto peer = peers_->Find(context.peer());
  if (peer == nullptr) {
    return Error(absl::StatusCode::kPermissionDenied,
                 "the calling process is not known; it must connect to the "
                 "testbed's control socket itself",
                 reason::kUnknownPeer);
  }
  return peer;
}

absl::StatusOr<std::shared_ptr<Session>> Callers::SessionOf(
    const grpc::ServerContext& context, const std::string& token,
    std::string_view method) const {
  auto peer = PeerOf(context);
  if (!peer.ok()) return peer.status();
  auto session = sessions_->Find(token, **peer);
  if (!session.ok()) return session;
  auto struck = PassRpc(method, (*session)->identity().name);
  if (!struck.ok()) return struck;
  return session;
}

}  // namespace carillon::gpud
