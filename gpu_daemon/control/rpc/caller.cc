#include "gpu_daemon/control/rpc/caller.h"

#include "base/status.h"
#include "gpu_daemon/control/rpc/rpc_faults.h"

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
  ASSIGN_OR_RETURN(auto peer, PeerOf(context));
  auto session = sessions_->Find(token, *peer);
  if (!session.ok()) return session;
  RETURN_IF_ERROR(PassRpc(method, (*session)->identity().name));
  return session;
}

}  // namespace carillon::gpud
