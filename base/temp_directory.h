// A directory for one run or one test.
#ifndef CARILLON_BASE_TEMP_DIRECTORY_H_
#define CARILLON_BASE_TEMP_DIRECTORY_H_

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

namespace carillon {

// A new empty directory, removed with all that is in it at the end.
class TempDirectory {
 public:
  // Errors: Internal.
  static absl::StatusOr<TempDirectory> Make(std::string_view parent = "/tmp") {
    std::string path = fmt::format("{}/carillon-XXXXXX", parent);
    if (mkdtemp(path.data()) != nullptr) return TempDirectory(std::move(path));
    return absl::InternalError(fmt::format("cannot make a directory in {}: {}",
                                           parent, std::strerror(errno)));
  }
  // For tests: in /tmp, as the path of a socket has 107 characters at most.
  // Ends the process if there is no room.
  TempDirectory() : TempDirectory(*Make()) {}
  TempDirectory(TempDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})) {}
  TempDirectory& operator=(TempDirectory&&) = delete;
  ~TempDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  explicit TempDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace carillon

#endif  // CARILLON_BASE_TEMP_DIRECTORY_H_
