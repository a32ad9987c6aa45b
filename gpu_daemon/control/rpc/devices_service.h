// The gRPC service Devices: a device attaches, says that it is ready, detaches.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_DEVICES_SERVICE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_DEVICES_SERVICE_H_

#include "gpu_daemon/control/rpc/caller.h"
#include "gpu_daemon/control/sessions/session_table.h"
#include "proto/devices.grpc.pb.h"

namespace carillon::gpud {

// Implements carillon.v1.Devices; proto/devices.proto describes the calls.
class DevicesService final : public v1::Devices::Service {
 public:
  DevicesService(const Callers* callers, SessionTable* sessions)
      : callers_(callers), sessions_(sessions) {}

  grpc::Status Attach(grpc::ServerContext* context,
                      const v1::AttachRequest* request,
                      v1::AttachResponse* response) override;
  grpc::Status ReportReady(grpc::ServerContext* context,
                           const v1::ReportReadyRequest* request,
                           v1::ReportReadyResponse* response) override;
  grpc::Status Detach(grpc::ServerContext* context,
                      const v1::DetachRequest* request,
                      v1::DetachResponse* response) override;

 private:
  const Callers* const callers_;
  SessionTable* const sessions_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_DEVICES_SERVICE_H_
