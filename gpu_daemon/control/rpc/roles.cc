#include "gpu_daemon/control/rpc/roles.h"

#include <algorithm>
#include <array>

#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

constexpr std::string_view kAdmin = "carillon.v1.Admin";
constexpr std::string_view kDevices = "carillon.v1.Devices";
constexpr std::string_view kEvents = "carillon.v1.Events";
constexpr std::string_view kFaults = "carillon.v1.Faults";
constexpr std::string_view kHealth = "grpc.health.v1.Health";
constexpr std::string_view kReflection =
    "grpc.reflection.v1alpha.ServerReflection";

constexpr MethodRole kMethods[] = {
    {kAdmin, "GetStatus", Role::kViewer},
    {kAdmin, "ListDevices", Role::kViewer},
    {kAdmin, "ListEkt", Role::kViewer},
    {kAdmin, "ListRings", Role::kViewer},
    {kAdmin, "ListQueues", Role::kViewer},
    {kAdmin, "Watch", Role::kViewer},
    {kAdmin, "StreamSnapshots", Role::kViewer},
    {kAdmin, "SetPolicy", Role::kOperator},
    {kAdmin, "ResetStatistics", Role::kOperator},
    {kAdmin, "SetTracing", Role::kOperator},
    {kAdmin, "Drain", Role::kOperator},
    {kAdmin, "Shutdown", Role::kOperator},
    {kAdmin, "RegisterModule", Role::kOperator},
    {kDevices, "Attach", Role::kDevice},
    {kDevices, "ReportReady", Role::kDevice},
    {kDevices, "Detach", Role::kDevice},
    {kEvents, "ListKernels", Role::kViewer},
    {kEvents, "AllocateBuffer", Role::kDevice},
    {kEvents, "FreeBuffer", Role::kDevice},
    {kEvents, "RegisterEvent", Role::kDevice},
    {kEvents, "UnregisterEvent", Role::kDevice},
    {kEvents, "ScheduleEvent", Role::kDevice},
    {kEvents, "ReleaseBarrier", Role::kDevice},
    {kEvents, "LaunchKernel", Role::kDevice},
    {kEvents, "Copy", Role::kDevice},
    {kFaults, "Inject", Role::kFaultInjector},
    {kFaults, "List", Role::kViewer},
    {kFaults, "Clear", Role::kFaultInjector},
    {kHealth, "Check", Role::kViewer},
    {kHealth, "Watch", Role::kViewer},
    // Each call holds one of gRPC's threads for as long as its caller likes.
    {kReflection, "ServerReflectionInfo", Role::kOperator},
};

struct NamedRole {
  Role role;
  std::string_view name;
};
constexpr std::array kRoles = {
    NamedRole{Role::kViewer, "viewer"},
    NamedRole{Role::kOperator, "operator"},
    NamedRole{Role::kDevice, "device"},
    NamedRole{Role::kFaultInjector, "fault-injector"},
};

constexpr size_t kMaxName = 64;
constexpr size_t kMaxText = 256;

const MethodRole* FindMethod(std::string_view path) {
  for (const MethodRole& method : kMethods) {
    const size_t size = method.service.size();
    if (path.size() == size + method.method.size() + 2 && path[0] == '/' &&
        path[size + 1] == '/' && path.substr(1, size) == method.service &&
        path.substr(size + 2) == method.method) {
      return &method;
    }
  }
  return nullptr;
}

// "Admin.SetPolicy"
std::string NameOf(const MethodRole& method) {
  return fmt::format("{}.{}",
                     method.service.substr(method.service.rfind('.') + 1),
                     method.method);
}

bool Includes(Role has, Role needed) {
  return has == needed || (has == Role::kOperator && needed == Role::kViewer);
}

// "viewer, unknown role 'admin'", or "no role".
std::string RolesText(const Identity& caller) {
  std::string text;
  for (const std::string_view uri : caller.uris) {
    if (!uri.starts_with(kRoleUriPrefix)) continue;
    const std::string_view name = uri.substr(std::size(kRoleUriPrefix) - 1);
    if (!text.empty()) text += ", ";
    text += RoleOf(name)
                ? std::string(name)
                : fmt::format("unknown role '{}'", Printable(name, kMaxName));
  }
  return text.empty() ? "no role" : Printable(text, kMaxText);
}

}  // namespace

std::string_view RoleName(Role role) {
  return std::find_if(kRoles.begin(), kRoles.end(),
                      [&](const NamedRole& each) { return each.role == role; })
      ->name;
}

std::optional<Role> RoleOf(std::string_view name) {
  for (const NamedRole& each : kRoles) {
    if (each.name == name && each.role != Role::kDevice) return each.role;
  }
  return std::nullopt;
}

std::span<const MethodRole> MethodRoles() { return kMethods; }

absl::Status CheckRole(std::string_view path, const Identity& caller) {
  const MethodRole* const method = FindMethod(path);
  if (method == nullptr) {
    return absl::PermissionDeniedError(
        fmt::format("no role may call {}", Printable(path, kMaxText)));
  }
  for (const std::string_view uri : caller.uris) {
    if (!uri.starts_with(kRoleUriPrefix)) continue;
    const auto role = RoleOf(uri.substr(std::size(kRoleUriPrefix) - 1));
    if (role && Includes(*role, method->role)) return absl::OkStatus();
  }
  const std::string name = NameOf(*method);
  const std::string common_name = Printable(caller.common_name, kMaxName);
  if (method->role == Role::kDevice) {
    return absl::PermissionDeniedError(fmt::format(
        "{} is for devices, which run on gpud's machine and call over the "
        "testbed's control.sock: no certificate is good for it, nor is that "
        "of CN={}",
        name, common_name));
  }
  return absl::PermissionDeniedError(fmt::format(
      "{} needs the role {}; the certificate of CN={} carries {}: ask the "
      "owner of the CA for one with URI:{}{}",
      name, RoleName(method->role), common_name, RolesText(caller),
      kRoleUriPrefix, RoleName(method->role)));
}

absl::Status DeviceRefusal(std::string_view path, pid_t pid, uid_t uid,
                           const std::string& operator_socket) {
  const MethodRole* const method = FindMethod(path);
  if (method == nullptr) {
    return absl::UnimplementedError(
        fmt::format("gpud has no method {}: is the caller, process {}, of "
                    "another version?",
                    Printable(path, kMaxText), pid));
  }
  return Error(
      absl::StatusCode::kPermissionDenied,
      fmt::format("{} needs the role {}; process {} of uid {} calls over "
                  "control.sock, where every caller is a device: the testbed's "
                  "user may call over {}",
                  NameOf(*method), RoleName(method->role), pid, uid,
                  operator_socket),
      reason::kNotForDevices);
}

}  // namespace carillon::gpud
