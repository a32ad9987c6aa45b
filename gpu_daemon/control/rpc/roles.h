// Who may call what over TCP (docs/security.md). A client's certificate carries
// its roles as URIs among its subject alternative names: "carillon:role:viewer".
// Callers on the control socket have every role: its file's mode is the guard.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_ROLES_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_ROLES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace carillon::gpud {

enum class Role : uint8_t {
  kViewer,         // looks
  kOperator,       // changes the testbed; may do what a viewer may
  kDevice,         // is a device
  kFaultInjector,  // breaks it on purpose
};

inline constexpr char kRoleUriPrefix[] = "carillon:role:";

// As in the URI: "fault-injector".
std::string_view RoleName(Role role);
std::optional<Role> RoleOf(std::string_view name);

// What a method needs.
struct MethodRole {
  std::string_view service;  // "carillon.v1.Admin"
  std::string_view method;
  Role role;
};

// Every method that gpud serves has one row; what has none is refused.
std::span<const MethodRole> MethodRoles();

// What a certificate that gpud's client CA vouches for says of its owner.
struct Identity {
  std::string common_name;
  std::vector<std::string> uris;
};

// `path`: as HTTP/2 has it, "/carillon.v1.Admin/GetStatus".
// Errors: PermissionDenied, with what is needed and what there is.
absl::Status CheckRole(std::string_view path, const Identity& caller);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_ROLES_H_
