#include "gpu_daemon/control/rpc/caller.h"

#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/rpc/rpc_faults.h"

namespace carillon::gpud {

absl::StatusOr<std::shared_ptr<const Peer>> Callers::PeerOf(
    const grpc::ServerContext& context) const {
  const std::string name = context.peer();
  if (name.starts_with("ipv4:") || name.starts_with("ipv6:")) {
    return Error(absl::StatusCode::kPermissionDenied,
                 "this call is a device's, which runs on gpud's machine and "
                 "calls over the testbed's control socket: its memory is "
                 "handed over there, and its sessions belong to its process",
                 reason::kNotLocal);
  }
  auto peer = peers_->Find(name);
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
