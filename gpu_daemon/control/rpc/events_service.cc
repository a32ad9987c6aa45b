#include "gpu_daemon/control/rpc/events_service.h"

#include "base/status.h"
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
  return callers_->InSession(
      context, *request, "AllocateBuffer",
      [&](Session& session) -> absl::Status {
        RETURN_IF_ERROR(PassRoom(faults::Point::kGpudAllocate,
                                 session.identity().name,
                                 reason::kMemoryBudget));
        ASSIGN_OR_RETURN(*response, session.AllocateBuffer(*request));
        return absl::OkStatus();
      });
}

grpc::Status EventsService::FreeBuffer(grpc::ServerContext* context,
                                       const v1::FreeBufferRequest* request,
                                       v1::FreeBufferResponse*) {
  return callers_->InSession(context, *request, "FreeBuffer",
                             [&](Session& session) {
                               return session.FreeBuffer(request->buffer_id());
                             });
}

grpc::Status EventsService::RegisterEvent(
    grpc::ServerContext* context, const v1::RegisterEventRequest* request,
    v1::RegisterEventResponse* response) {
  return callers_->InSession(
      context, *request, "RegisterEvent",
      [&](Session& session) -> absl::Status {
        RETURN_IF_ERROR(PassRoom(faults::Point::kGpudRegister,
                                 session.identity().name, reason::kEktFull,
                                 [&] { return session.EktFull(); }));
        ASSIGN_OR_RETURN(*response, session.RegisterEvent(*request));
        return absl::OkStatus();
      });
}

grpc::Status EventsService::UnregisterEvent(
    grpc::ServerContext* context, const v1::UnregisterEventRequest* request,
    v1::UnregisterEventResponse* response) {
  return callers_->InSession(
      context, *request, "UnregisterEvent",
      [&](Session& session) -> absl::Status {
        ASSIGN_OR_RETURN(const uint64_t aborted,
                         session.UnregisterEvent(
                             request->event_id(), request->drain_ms(),
                             [context] { return context->IsCancelled(); }));
        response->set_aborted(aborted);
        return absl::OkStatus();
      });
}

grpc::Status EventsService::ScheduleEvent(
    grpc::ServerContext* context, const v1::ScheduleEventRequest* request,
    v1::ScheduleEventResponse*) {
  return callers_->InSession(
      context, *request, "ScheduleEvent", [&](Session& session) {
        return session.ScheduleEvent(request->event_id(), request->through());
      });
}

grpc::Status EventsService::ReleaseBarrier(
    grpc::ServerContext* context, const v1::ReleaseBarrierRequest* request,
    v1::ReleaseBarrierResponse*) {
  return callers_->InSession(
      context, *request, "ReleaseBarrier", [&](Session& session) {
        return session.ReleaseBarrier(request->event_id());
      });
}

grpc::Status EventsService::LaunchKernel(grpc::ServerContext* context,
                                         const v1::LaunchKernelRequest* request,
                                         v1::LaunchKernelResponse* response) {
  return callers_->InSession(
      context, *request, "LaunchKernel", [&](Session& session) -> absl::Status {
        ASSIGN_OR_RETURN(const auto result,
                         session.LaunchKernel(*request, [context] {
                           return context->IsCancelled();
                         }));
        response->set_dispatched_ns(result.dispatched_ns - result.queued_ns);
        response->set_finished_ns(result.finished_ns - result.queued_ns);
        response->set_status(result.status);
        return absl::OkStatus();
      });
}

grpc::Status EventsService::Copy(grpc::ServerContext* context,
                                 const v1::CopyRequest* request,
                                 v1::CopyResponse* response) {
  return callers_->InSession(
      context, *request, "Copy", [&](Session& session) -> absl::Status {
        ASSIGN_OR_RETURN(const auto result, session.Copy(*request, [context] {
          return context->IsCancelled();
        }));
        response->set_started_ns(result.dispatched_ns - result.queued_ns);
        response->set_finished_ns(result.finished_ns - result.queued_ns);
        return absl::OkStatus();
      });
}

}  // namespace carillon::gpud
