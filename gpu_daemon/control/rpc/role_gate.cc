#include "gpu_daemon/control/rpc/role_gate.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <string_view>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/rpc/roles.h"

namespace carillon::gpud {
namespace {

std::string Text(grpc::string_ref text) {
  return std::string(text.data(), text.size());
}

// URIs only: a DNS name may spell anything.
Identity IdentityOf(const grpc::AuthContext& context) {
  Identity identity;
  for (const grpc::string_ref& name :
       context.FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME)) {
    identity.common_name = Text(name);
  }
  for (const grpc::string_ref& uri :
       context.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    identity.uris.push_back(Text(uri));
  }
  return identity;
}

}  // namespace

grpc::Status RoleGate::Process(const InputMetadata& metadata,
                               grpc::AuthContext* context, OutputMetadata*,
                               OutputMetadata*) {
  const auto path = metadata.find(":path");
  const std::string_view method =
      path == metadata.end()
          ? std::string_view()
          : std::string_view(path->second.data(), path->second.size());
  const Identity caller = IdentityOf(*context);
  if (const absl::Status status = CheckRole(method, caller); !status.ok()) {
    return Refuse(grpc::StatusCode::PERMISSION_DENIED,
                  std::string(status.message()));
  }
  if (!unread_->Begin(context)) {
    return Refuse(
        grpc::StatusCode::RESOURCE_EXHAUSTED,
        fmt::format("{} calls of one connection of CN={} have begun and their "
                    "messages have not come: that is the limit; connect again",
                    UnreadCalls::kMaxUnread,
                    Printable(caller.common_name, 64)));
  }
  return grpc::Status::OK;
}

grpc::Status RoleGate::Refuse(grpc::StatusCode code,
                              const std::string& message) {
  refused_.Add(message);
  return grpc::Status(code, message);
}

}  // namespace carillon::gpud
