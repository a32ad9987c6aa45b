#include "gpu_daemon/control/net/daemon_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/testbed_paths.h"
#include "fmt/format.h"

namespace carillon::gpud {
namespace {

// The text of the file, which its holder writes: its pid, and how many gpuds
// have died here before it.
struct Holder {
  long pid = 0;  // 0: it has not written it yet
  uint32_t deaths = 0;

  std::string ToString() const {
    return pid == 0 ? "?" : fmt::format("{}", pid);
  }
};

Holder ReadHolder(int fd) {
  char text[64] = {};
  Holder holder;
  if (pread(fd, text, sizeof(text) - 1, 0) <= 0 ||
      std::sscanf(text, "%ld %u", &holder.pid, &holder.deaths) < 1 ||
      holder.pid < 0) {
    return {};
  }
  return holder;
}

bool IsAt(int fd, const std::string& path) {
  struct stat open_file;
  struct stat named;
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

}  // namespace

absl::Status PrepareDirectory(const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(
        fmt::format("cannot make the testbed's directory {}: {}", directory,
                    std::strerror(errno)));
  }
  struct stat info;
  if (stat(directory.c_str(), &info) != 0) {
    return absl::UnavailableError(
        fmt::format("cannot look at the testbed's directory {}: {}", directory,
                    std::strerror(errno)));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("{} is not a directory", directory));
  }
  if (info.st_uid != geteuid() || (info.st_mode & 0022) != 0) {
    return absl::FailedPreconditionError(fmt::format(
        "the testbed's directory {} belongs to uid {} with mode {:o}: it must "
        "be uid {}'s own and writable to nobody else (chmod 700)",
        directory, info.st_uid, info.st_mode & 07777, geteuid()));
  }
  return absl::OkStatus();
}

absl::StatusOr<DaemonLock> DaemonLock::Take(const std::string& directory,
                                            const std::string& testbed) {
  const std::string path = TestbedPaths(directory).gpud_lock();
  UniqueFd file;
  // The one who had the lock removes the file: what was opened may be gone by
  // the time it is locked, and the next gpud would lock another one.
  do {
    file.reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file) {
      return absl::UnavailableError(
          fmt::format("cannot open {}: {}", path, std::strerror(errno)));
    }
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) {
        return absl::UnavailableError(
            fmt::format("cannot lock {}: {}", path, std::strerror(errno)));
      }
      return absl::AlreadyExistsError(
          fmt::format("testbed {} is already up (pid {}) in {}", testbed,
                      ReadHolder(file.get()).ToString(), directory));
    }
  } while (!IsAt(file.get(), path));
  // A gpud that goes down for good removes the file; one that dies or restarts
  // leaves it.
  const Holder before = ReadHolder(file.get());
  const uint32_t deaths = before.pid == 0 ? 0 : before.deaths + 1;
  const std::string text = fmt::format("{} {}\n", getpid(), deaths);
  if (ftruncate(file.get(), 0) != 0 ||
      pwrite(file.get(), text.data(), text.size(), 0) !=
          static_cast<ssize_t>(text.size())) {
    return absl::UnavailableError(
        fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  return DaemonLock(path, std::move(file), deaths);
}

DaemonLock::~DaemonLock() {
  if (file_ && !path_.empty() && IsAt(file_.get(), path_))
    unlink(path_.c_str());
}

}  // namespace carillon::gpud
