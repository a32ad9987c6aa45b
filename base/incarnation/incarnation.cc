#include "base/incarnation/incarnation.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"

namespace carillon {

absl::StatusOr<uint64_t> NextIncarnation(const std::string& file) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return NextIncarnation(file,
                         static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u +
                             static_cast<uint64_t>(now.tv_nsec));
}

absl::StatusOr<uint64_t> NextIncarnation(const std::string& file,
                                         uint64_t now) {
  const UniqueFd fd(
      open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd || flock(fd.get(), LOCK_EX) != 0) {
    return absl::PermissionDeniedError(
        fmt::format("cannot open {}: {}", file, std::strerror(errno)));
  }
  // One that was killed while it wrote has left less than a number.
  uint64_t last = 0;
  if (pread(fd.get(), &last, sizeof(last), 0) !=
      static_cast<ssize_t>(sizeof(last))) {
    last = 0;
  }
  const uint64_t next = std::max(now, last + kIncarnationRoom);
  if (pwrite(fd.get(), &next, sizeof(next), 0) !=
      static_cast<ssize_t>(sizeof(next))) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot write {}: {}", file, std::strerror(errno)));
  }
  return next;
}

}  // namespace carillon
