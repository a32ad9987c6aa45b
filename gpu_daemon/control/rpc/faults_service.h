// The gRPC service Faults: puts faults on the board that every process of the
// testbed reads.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_FAULTS_SERVICE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_FAULTS_SERVICE_H_

#include "absl/status/status.h"
#include "gpu_daemon/control/rpc/change_log.h"
#include "proto/faults.grpc.pb.h"
#include "shm/faults/board.h"

namespace carillon::gpud {

// Implements carillon.v1.Faults; proto/faults.proto describes the calls.
class FaultsService final : public v1::Faults::Service {
 public:
  explicit FaultsService(ChangeLog* changes) : changes_(changes) {}

  // Must come before the first call. Null means that there is no board.
  void UseBoard(faults::Board* board) { board_ = board; }

  grpc::Status Inject(grpc::ServerContext* context,
                      const v1::InjectRequest* request,
                      v1::InjectResponse* response) override;
  grpc::Status List(grpc::ServerContext* context,
                    const v1::ListFaultsRequest* request,
                    v1::ListFaultsResponse* response) override;
  grpc::Status Clear(grpc::ServerContext* context,
                     const v1::ClearFaultsRequest* request,
                     v1::ClearFaultsResponse* response) override;

 private:
  absl::Status CheckBoard() const;

  ChangeLog* const changes_;
  faults::Board* board_ = nullptr;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_FAULTS_SERVICE_H_
