#include "gpu_daemon/control/rpc/events_service.h"

#include <string>
#include <utility>

#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/rpc/describe.h"
#include "gpu_daemon/control/rpc/rpc_faults.h"

namespace carillon::gpud {
grpc::Status EventsService::ListKernels(grpc::ServerContext* context,
                                        const v1::ListKernelsRequest*,
                                        v1::ListKernelsResponse* response) {
  if (auto s = PassRpc("ListKernels"); !s.ok()) return ToGrpc(s, context);
  for (const simt::KernelInfo* info : kernels_->All()) {
    Describe(*info, response->add_kernels());
  }
  return grpc::Status::OK;
}

grpc::Status EventsService::AllocateBuffer(
    grpc::ServerContext* context, const v1::AllocateBufferRequest* request,
    v1::AllocateBufferResponse* response) {
  auto session =
      callers_->SessionOf(*context, request->session(), "AllocateBuffer");
  if (!session.ok()) return ToGrpc(session.status(), context);
  if (auto s = PassRoom(faults::Point::kGpudAllocate,
                        (*session)->identity().name, reason::kMemoryBudget);
      !s.ok()) {
    return ToGrpc(s, context);
  }
  auto allocated = (*session)->AllocateBuffer(*request);
  if (!allocated.ok()) return ToGrpc(allocated.status(), context);
  *response = *std::move(allocated);
  return grpc::Status::OK;
}

grpc::Status EventsService::FreeBuffer(grpc::ServerContext* context,
                                       const v1::FreeBufferRequest* request,
                                       v1::FreeBufferResponse*) {
  auto session =
      callers_->SessionOf(*context, request->session(), "FreeBuffer");
  if (!session.ok()) return ToGrpc(session.status(), context);
  return ToGrpc((*session)->FreeBuffer(request->buffer_id()), context);
}

grpc::Status EventsService::RegisterEvent(
    grpc::ServerContext* context, const v1::RegisterEventRequest* request,
    v1::RegisterEventResponse* response) {
  auto session =
      callers_->SessionOf(*context, request->session(), "RegisterEvent");
  if (!session.ok()) return ToGrpc(session.status(), context);
  if (auto s = PassRoom(faults::Point::kGpudRegister,
                        (*session)->identity().name, reason::kEktFull);
      !s.ok()) {
    return ToGrpc(s, context);
  }
  auto registered = (*session)->RegisterEvent(*request);
  if (!registered.ok()) return ToGrpc(registered.status(), context);
  *response = *std::move(registered);
  return grpc::Status::OK;
}

grpc::Status EventsService::UnregisterEvent(
    grpc::ServerContext* context, const v1::UnregisterEventRequest* request,
    v1::UnregisterEventResponse* response) {
  auto session =
      callers_->SessionOf(*context, request->session(), "UnregisterEvent");
  if (!session.ok()) return ToGrpc(session.status(), context);
  auto aborted =
      (*session)->UnregisterEvent(request->event_id(), request->drain_ms(),
                                  [context] { return context->IsCancelled(); });
  if (!aborted.ok()) return ToGrpc(aborted.status(), context);
  response->set_aborted(*aborted);
  return grpc::Status::OK;
}

grpc::Status EventsService::ScheduleEvent(
    grpc::ServerContext* context, const v1::ScheduleEventRequest* request,
    v1::ScheduleEventResponse*) {
  auto session =
      callers_->SessionOf(*context, request->session(), "ScheduleEvent");
  if (!session.ok()) return ToGrpc(session.status(), context);
  return ToGrpc(
      (*session)->ScheduleEvent(request->event_id(), request->through()),
      context);
}

grpc::Status EventsService::ReleaseBarrier(
    grpc::ServerContext* context, const v1::ReleaseBarrierRequest* request,
    v1::ReleaseBarrierResponse*) {
  auto session =
      callers_->SessionOf(*context, request->session(), "ReleaseBarrier");
  if (!session.ok()) return ToGrpc(session.status(), context);
  return ToGrpc((*session)->ReleaseBarrier(request->event_id()), context);
}

grpc::Status EventsService::LaunchKernel(grpc::ServerContext* context,
                                         const v1::LaunchKernelRequest* request,
                                         v1::LaunchKernelResponse* response) {
  auto session =
      callers_->SessionOf(*context, request->session(), "LaunchKernel");
  if (!session.ok()) return ToGrpc(session.status(), context);
  auto result = (*session)->LaunchKernel(
      *request, [context] { return context->IsCancelled(); });
  if (!result.ok()) return ToGrpc(result.status(), context);
  response->set_dispatched_ns(result->dispatched_ns - result->queued_ns);
  response->set_finished_ns(result->finished_ns - result->queued_ns);
  response->set_status(result->status);
  return grpc::Status::OK;
}

}  // namespace carillon::gpud
