// What every handler asks first: who calls, and for which session?
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_CALLER_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_CALLER_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/sessions/session_table.h"

namespace carillon::gpud {

// Thread safe.
class Callers {
 public:
  Callers(const PeerTable* peers, const SessionTable* sessions)
      : peers_(peers), sessions_(sessions) {}

  // The process that calls over the control socket. Errors: PermissionDenied
  // UNKNOWN_PEER; NOT_LOCAL: the call comes over TCP, where there are no
  // processes, and so no sessions: memory is handed over on the same machine.
  absl::StatusOr<std::shared_ptr<const Peer>> PeerOf(
      const grpc::ServerContext& context) const;
  // Of `method`. Errors: as above and as SessionTable::Find(); an injected
  // fault's.
  absl::StatusOr<std::shared_ptr<Session>> SessionOf(
      const grpc::ServerContext& context, const std::string& token,
      std::string_view method) const;

 private:
  const PeerTable* const peers_;
  const SessionTable* const sessions_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_CALLER_H_
