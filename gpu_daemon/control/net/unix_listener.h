// A listening Unix socket that gpud owns: private to its user, and gone when
// gpud is.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_UNIX_LISTENER_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_UNIX_LISTENER_H_

#include <sys/types.h>

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace carillon::gpud {

// Unlinks a socket that a dead process left behind. `type` is SOCK_STREAM or
// SOCK_SEQPACKET. Errors: AlreadyExists when somebody answers on it;
// FailedPrecondition when it is no socket.
absl::Status RemoveStaleSocket(const std::string& path, int type);

// Move-only. Unlinks its path when destroyed, if that is still its own socket.
class UnixListener {
 public:
  // Binds with mode 0600, removing a stale socket first; non-blocking,
  // close-on-exec. `users` may connect, too. Errors: as RemoveStaleSocket() and
  // LetUsers(); Unavailable with the system's reason.
  static absl::StatusOr<UnixListener> Listen(const std::string& path, int type,
                                             std::span<const uid_t> users = {});

  UnixListener() = default;
  UnixListener(UnixListener&&) = default;
  UnixListener& operator=(UnixListener&& other) noexcept;
  ~UnixListener() { Close(); }

  int fd() const { return fd_.get(); }
  // As AcceptConnection().
  UniqueFd Accept();
  void Close();

 private:
  std::string path_;
  UniqueFd fd_;
  UniqueFd reserve_;  // given up for a moment to refuse a connection
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_UNIX_LISTENER_H_
