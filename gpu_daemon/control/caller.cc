#include "gpu_daemon/control/caller.h"

#include "gpu_daemon/control/error_detail.h"

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
    const grpc::ServerContext& context, const std::string& token) const {
  auto peer = PeerOf(context);
  if (!peer.ok()) return peer.status();
  return sessions_->Find(token, **peer);
}

}  // namespace carillon::gpud
