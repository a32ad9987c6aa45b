// A lock on a testbed's directory, so that only one gpud runs in it.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_DAEMON_LOCK_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_DAEMON_LOCK_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace carillon::gpud {

// Makes the directory (mode 0700) if it is missing. Errors: FailedPrecondition
// when it belongs to somebody else or others may write to it; Unavailable with
// the system's reason.
absl::Status PrepareDirectory(const std::string& directory);

// Holds <directory>/gpud.lock until destroyed; the kernel gives it back when
// the process dies.
class DaemonLock {
 public:
  // Errors: AlreadyExists "testbed NAME is already up (pid N)"; Unavailable
  // with the system's reason.
  static absl::StatusOr<DaemonLock> Take(const std::string& directory,
                                         const std::string& testbed);

  // How many gpuds have died in this directory, or have made way for the next,
  // since one went down for good.
  uint32_t deaths() const { return deaths_; }
  // The next one shall count this one.
  void KeepFile() { path_.clear(); }

  DaemonLock(DaemonLock&&) = default;
  DaemonLock& operator=(DaemonLock&&) = default;
  ~DaemonLock();

 private:
  DaemonLock(std::string path, UniqueFd file, uint32_t deaths)
      : path_(std::move(path)), file_(std::move(file)), deaths_(deaths) {}
  std::string path_;
  UniqueFd file_;
  uint32_t deaths_ = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_DAEMON_LOCK_H_
