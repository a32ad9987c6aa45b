// Decides which caller may call which method (docs/security.md). On
// operator.sock every caller has every role: the mode of its file is the guard.
// On control.sock every caller is a device. Over TCP a client's certificate
// carries its roles as URIs among its subject alternative names:
// "carillon:role:viewer".
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_ROLES_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_ROLES_H_

#include <sys/types.h>

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
  kDevice,         // may be a device; no certificate carries it
  kFaultInjector,  // may break the testbed on purpose
};

inline constexpr char kRoleUriPrefix[] = "carillon:role:";

// Returns the name that the URI has: "fault-injector".
std::string_view RoleName(Role role);
// The role that a certificate can carry under that name.
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

// Why a process may not call `path` on control.sock: PermissionDenied, naming
// the process, the role that is needed, and the socket where it can be had; or
// Unimplemented for a method that gpud does not have.
absl::Status DeviceRefusal(std::string_view path, pid_t pid, uid_t uid,
                           const std::string& operator_socket);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_ROLES_H_
