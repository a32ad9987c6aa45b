#include "base/testbed_paths.h"

#include <fmt/format.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace carillon {
namespace {

// One spelling for one place: paths are compared as text (the mark of a
// testbed's processes), and a process may change its working directory.
std::string Normal(const std::string& directory) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(directory, error);
  if (error) path = directory;
  path = path.lexically_normal();
  // "x/" has an empty last part.
  if (!path.has_filename() && path.has_relative_path()) {
    path = path.parent_path();
  }
  return path;
}

}  // namespace

static_assert(kMaxSocketPath == sizeof(sockaddr_un::sun_path) - 1);

absl::Status CheckSocketPath(const std::string& path) {
  if (path.size() <= kMaxSocketPath) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the socket's path {} has {} bytes: the limit is {}; choose "
                  "a shorter directory for the testbed",
                  path, path.size(), kMaxSocketPath));
}

std::string RuntimeDirectory() {
  if (const char* own = std::getenv("CARILLON_RUNTIME_DIR");
      own != nullptr && *own != '\0') {
    return Normal(own);
  }
  if (const char* xdg = std::getenv("XDG_RUNTIME_DIR");
      xdg != nullptr && *xdg != '\0') {
    return Normal(std::string(xdg) + "/carillon");
  }
  return "/tmp/carillon-" + std::to_string(getuid());
}

}  // namespace carillon
