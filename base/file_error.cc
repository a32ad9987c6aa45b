#include "base/file_error.h"

#include <cerrno>
#include <cstring>

#include "fmt/format.h"

namespace carillon {

absl::Status FileError(std::string_view what, std::string_view thing,
                       const std::string& path) {
  const int error = errno;
  const std::string message = fmt::format("cannot {} the {} {}: {}", what,
                                          thing, path, strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case ELOOP:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace carillon
