#include "base/results/whole_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/status.h"
#include "base/unique_fd.h"

namespace carillon {
namespace {

absl::Status Failed(const std::string& path) {
  return absl::PermissionDeniedError(
      fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

// Beside the file, under a name that nobody else has.
class Part {
 public:
  explicit Part(const std::string& path) : path_(path + ".XXXXXX") {
    fd_.reset(mkstemp(path_.data()));
  }
  ~Part() {
    if (fd_) unlink(path_.c_str());
  }

  const char* path() const { return path_.c_str(); }
  bool Write(std::string_view text, unsigned mode) {
    if (!fd_ || fchmod(fd_.get(), mode) != 0) return false;
    std::ofstream file(path_);
    file << text;
    file.close();
    return !file.fail();
  }

 private:
  std::string path_;
  UniqueFd fd_;
};

}  // namespace

absl::Status ReplaceFile(const std::string& path, std::string_view text,
                         unsigned mode) {
  Part part(path);
  if (part.Write(text, mode) && std::rename(part.path(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  return Failed(path);
}

absl::StatusOr<bool> MakeFile(const std::string& path, std::string_view text) {
  Part part(path);
  if (!part.Write(text, 0644)) return Failed(path);
  if (link(part.path(), path.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  return Failed(path);
}

}  // namespace carillon
