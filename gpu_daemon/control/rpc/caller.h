// Finds the process that calls, and the session that it calls for: every
// handler asks for them first.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_CALLER_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_CALLER_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/sessions/session_table.h"

namespace carillon::gpud {

// Thread safe.
class Callers {
 public:
  Callers(const PeerTable* peers, const SessionTable* sessions)
      : peers_(peers), sessions_(sessions) {}
  virtual ~Callers() = default;

  // Returns the process that calls over one of the testbed's sockets. A fuzzer,
  // which calls without one, has an answer of its own. Errors: PermissionDenied
  // UNKNOWN_PEER.
  virtual absl::StatusOr<std::shared_ptr<const Peer>> PeerOf(
      const grpc::ServerContext& context) const;
  // Returns the caller's session with that token. `method` is the one that was
  // called, for injected faults. Errors: those of PeerOf() and of
  // SessionTable::Find(); an injected fault's.
  absl::StatusOr<std::shared_ptr<Session>> SessionOf(
      const grpc::ServerContext& context, const std::string& token,
      std::string_view method) const;
  // Answers a call by call(session), whose Status it returns.
  template <class Request, class Call>
  grpc::Status InSession(grpc::ServerContext* context, const Request& request,
                         std::string_view method, Call call) const {
    const auto session = SessionOf(*context, request.session(), method);
    return ToGrpc(session.ok() ? call(**session) : session.status(), context);
  }

 private:
  const PeerTable* const peers_;
  const SessionTable* const sessions_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_CALLER_H_
