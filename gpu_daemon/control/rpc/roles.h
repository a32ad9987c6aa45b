// Decides which caller may call which method over TCP (docs/security.md). A
// client's certificate carries its roles as URIs among its subject alternative
// names: "carillon:role:viewer". Callers on the control socket have every role:
// the mode of its file is the guard.
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
  kViewer,         // may look
  kOperator,       // may look and change the testbed
  kDevice,         // may be a device
  kFaultInjector,  // may break the testbed on purpose
};

inline constexpr char kRoleUriPrefix[] = "carillon:role:";

// Returns the name that the URI has: "fault-injector".
std::string_view RoleName(Role role);
std::optional<Role> RoleOf(std::string_view name);

// The role that a method needs.
struct MethodRole {
  std::string_view service;  // "carillon.v1.Admin"
  std::string_view method;
  Role role;
};

// Has one row for every method that gpud serves. A method without a row is
// refused.
std::span<const MethodRole> MethodRoles();

// The owner of a certificate that gpud's client CA has signed.
struct Identity {
  std::string common_name;
  std::vector<std::string> uris;
};

// `path` is the one of HTTP/2, "/carillon.v1.Admin/GetStatus". Errors:
// PermissionDenied, naming the role that is needed and those that there are.
absl::Status CheckRole(std::string_view path, const Identity& caller);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_ROLES_H_
