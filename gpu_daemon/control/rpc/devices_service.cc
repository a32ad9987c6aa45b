#include "gpu_daemon/control/rpc/devices_service.h"

#include <utility>

#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/rpc/rpc_faults.h"

namespace carillon::gpud {

grpc::Status DevicesService::Attach(grpc::ServerContext* context,
                                    const v1::AttachRequest* request,
                                    v1::AttachResponse* response) {
  auto peer = callers_->PeerOf(*context);
  if (!peer.ok()) return ToGrpc(peer.status(), context);
  if (auto s = PassRpc("Attach", request->name()); !s.ok()) {
    return ToGrpc(s, context);
  }
  if (auto s = PassRoom(faults::Point::kGpudAttach, request->name(),
                        reason::kMemoryBudget);
      !s.ok()) {
    return ToGrpc(s, context);
  }
  auto attached = sessions_->Attach(*request, *peer);
  if (!attached.ok()) return ToGrpc(attached.status(), context);
  *response = *std::move(attached);
  return grpc::Status::OK;
}

grpc::Status DevicesService::ReportReady(grpc::ServerContext* context,
                                         const v1::ReportReadyRequest* request,
                                         v1::ReportReadyResponse*) {
  return callers_->InSession(
      context, *request, "ReportReady",
      [&](Session& session) { return session.ReportReady(request->note()); });
}

grpc::Status DevicesService::Detach(grpc::ServerContext* context,
                                    const v1::DetachRequest* request,
                                    v1::DetachResponse* response) {
  auto session = callers_->SessionOf(*context, request->session(), "Detach");
  if (!session.ok()) return ToGrpc(session.status(), context);
  response->set_aborted(
      request->link_lost()
          ? sessions_->End(*session, SessionEnd::kLinkLost, "linkd says so")
          : sessions_->End(*session, SessionEnd::kDetached));
  return grpc::Status::OK;
}

}  // namespace carillon::gpud
