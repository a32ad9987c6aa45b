#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_FAULTS_SERVICE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_FAULTS_SERVICE_H_

#include "absl/status/status.h"
#include "proto/faults.grpc.pb.h"
#include "shm/faults/board.h"

namespace carillon::gpud {

// carillon.v1.Faults: see proto/faults.proto.
class FaultsService final : public v1::Faults::Service {
 public:
  // Before the first call; null: there is none.
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

  faults::Board* board_ = nullptr;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_FAULTS_SERVICE_H_
