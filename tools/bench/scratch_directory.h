// A temporary directory for one measurement.
#ifndef CARILLON_TOOLS_BENCH_SCRATCH_DIRECTORY_H_
#define CARILLON_TOOLS_BENCH_SCRATCH_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

namespace carillon::bench {

// A new empty directory, which the destructor removes with all its contents.
class ScratchDirectory {
 public:
  static absl::StatusOr<ScratchDirectory> Make() {
    std::string path =
        (std::filesystem::temp_directory_path() / "carillon-bench-XXXXXX")
            .string();
    if (mkdtemp(path.data()) == nullptr) {
      return absl::InternalError(
          fmt::format("cannot make a directory in {}",
                      std::filesystem::temp_directory_path().string()));
    }
    return ScratchDirectory(std::move(path));
  }
  ScratchDirectory(ScratchDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})) {}
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_SCRATCH_DIRECTORY_H_
