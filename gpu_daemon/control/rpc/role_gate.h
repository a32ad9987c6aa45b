// Judges every call that comes over TCP before gpud reads its message: one
// place for all services, streams included (these at their start).
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_ROLE_GATE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_ROLE_GATE_H_

#include <grpcpp/security/auth_metadata_processor.h>

#include <memory>
#include <string>
#include <utility>

#include "gpu_daemon/control/rpc/refused_calls.h"
#include "gpu_daemon/control/rpc/unread_calls.h"

namespace carillon::gpud {

// Thread safe.
class RoleGate final : public grpc::AuthMetadataProcessor {
 public:
  explicit RoleGate(std::shared_ptr<UnreadCalls> unread)
      : unread_(std::move(unread)) {}

  bool IsBlocking() const override { return false; }
  // Called by gRPC, with the connection's certificate in `context`. Status:
  // as CheckRole(); ResourceExhausted for a connection with too many unread
  // calls.
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context,
                       OutputMetadata* consumed_metadata,
                       OutputMetadata* response_metadata) override;

  RefusedCalls& refused() { return refused_; }

 private:
  grpc::Status Refuse(grpc::StatusCode code, const std::string& message);

  const std::shared_ptr<UnreadCalls> unread_;
  RefusedCalls refused_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_ROLE_GATE_H_
