#include "tools/testbed/supervisor/dashboard_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/status.h"
#include "base/unique_fd.h"

namespace carillon::testbed {
namespace {

absl::Status Write(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  const UniqueFd fd(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) {
    return absl::PermissionDeniedError(
        fmt::format("cannot write {}: {}", temporary, std::strerror(errno)));
  }
  if (write(fd.get(), text.data(), text.size()) !=
          static_cast<ssize_t>(text.size()) ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string LinkOf(const std::string& url, const std::string& token) {
  return fmt::format("{}#token={}", url, token);
}

std::string DashboardTokenFile(const TestbedPaths& paths) {
  return paths.directory() + "/dashboard.token";
}

std::string DashboardAddressFile(const TestbedPaths& paths) {
  return paths.directory() + "/dashboard.url";
}

absl::Status WriteDashboardLink(const TestbedPaths& paths, DashboardLink link) {
  RETURN_IF_ERROR(Write(DashboardTokenFile(paths), link.token));
  return Write(DashboardAddressFile(paths),
               fmt::format("{}\n{}\n", link.url, getpid()));
}

absl::StatusOr<DashboardLink> ReadDashboardLink(const TestbedPaths& paths) {
  DashboardLink link;
  std::ifstream address(DashboardAddressFile(paths));
  std::ifstream token(DashboardTokenFile(paths));
  if (!address || !token) {
    return absl::NotFoundError(
        fmt::format("there is no {}", DashboardAddressFile(paths)));
  }
  if (!(address >> link.url >> link.pid) || !(token >> link.token)) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is not what a dashboard writes", DashboardAddressFile(paths)));
  }
  return link;
}

}  // namespace carillon::testbed
