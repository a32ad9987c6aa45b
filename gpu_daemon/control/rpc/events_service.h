// The gRPC service Events: devices allocate buffers, register event kernels and
// launch background kernels (the EDGE API).
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_EVENTS_SERVICE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_EVENTS_SERVICE_H_

#include "gpu_daemon/control/rpc/caller.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "proto/events.grpc.pb.h"

namespace carillon::gpud {

// Implements carillon.v1.Events; proto/events.proto describes the calls.
class EventsService final : public v1::Events::Service {
 public:
  EventsService(const Callers* callers, const KernelCatalog* kernels)
      : callers_(callers), kernels_(kernels) {}

  grpc::Status ListKernels(grpc::ServerContext* context,
                           const v1::ListKernelsRequest* request,
                           v1::ListKernelsResponse* response) override;
  grpc::Status AllocateBuffer(grpc::ServerContext* context,
                              const v1::AllocateBufferRequest* request,
                              v1::AllocateBufferResponse* response) override;
  grpc::Status FreeBuffer(grpc::ServerContext* context,
                          const v1::FreeBufferRequest* request,
                          v1::FreeBufferResponse* response) override;
  grpc::Status RegisterEvent(grpc::ServerContext* context,
                             const v1::RegisterEventRequest* request,
                             v1::RegisterEventResponse* response) override;
  grpc::Status UnregisterEvent(grpc::ServerContext* context,
                               const v1::UnregisterEventRequest* request,
                               v1::UnregisterEventResponse* response) override;
  grpc::Status ScheduleEvent(grpc::ServerContext* context,
                             const v1::ScheduleEventRequest* request,
                             v1::ScheduleEventResponse* response) override;
  grpc::Status ReleaseBarrier(grpc::ServerContext* context,
                              const v1::ReleaseBarrierRequest* request,
                              v1::ReleaseBarrierResponse* response) override;
  grpc::Status LaunchKernel(grpc::ServerContext* context,
                            const v1::LaunchKernelRequest* request,
                            v1::LaunchKernelResponse* response) override;
  grpc::Status Copy(grpc::ServerContext* context,
                    const v1::CopyRequest* request,
                    v1::CopyResponse* response) override;

 private:
  const Callers* const callers_;
  const KernelCatalog* const kernels_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_EVENTS_SERVICE_H_
