#include "gpu_daemon/control/net/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/testbed_paths.h"
#include "fmt/format.h"
#include "gpu_daemon/control/net/accept.h"
#include "gpu_daemon/control/net/user_access.h"

namespace carillon::gpud {
namespace {

constexpr int kBacklog = 128;

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

absl::Status SystemError(std::string_view what, const std::string& path) {
  return absl::UnavailableError(
      fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

}  // namespace

absl::Status RemoveStaleSocket(const std::string& path, int type) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return SystemError("cannot look at", path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("{} is in the way and is not a socket; remove it", path));
  }
  const UniqueFd probe(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return SystemError("cannot make a socket to probe", path);
  const sockaddr_un address = AddressOf(path);
  // Only a refusal shows that nobody listens: EAGAIN, for one, is a full
  // backlog.
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0 ||
      errno != ECONNREFUSED) {
    return absl::AlreadyExistsError(
        fmt::format("another process serves on {}; stop it first", path));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return SystemError("cannot remove the stale socket", path);
  }
  return absl::OkStatus();
}

absl::StatusOr<UnixListener> UnixListener::Listen(
    const std::string& path, int type, std::span<const uid_t> users) {
  RETURN_IF_ERROR(CheckSocketPath(path));
  RETURN_IF_ERROR(RemoveStaleSocket(path, type));
  UnixListener listener;
  listener.fd_.reset(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.fd_) return SystemError("cannot make a socket for", path);
  // On Linux, bind() gives the file the mode of the socket: no moment is left
  // in which others could connect.
  const sockaddr_un address = AddressOf(path);
  if (fchmod(listener.fd(), 0600) != 0 ||
      bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0) {
    return SystemError("cannot bind", path);
  }
  struct stat info;
  absl::Status status;
  if (!users.empty()) status = LetUsers(path, users, UserAccess::kReadAndWrite);
  if (status.ok() && (lstat(path.c_str(), &info) != 0 ||
                      listen(listener.fd(), kBacklog) != 0)) {
    status = SystemError("cannot listen on", path);
  }
  if (!status.ok()) {
    unlink(path.c_str());
    return status;
  }
  listener.path_ = path;
  listener.device_ = info.st_dev;
  listener.inode_ = info.st_ino;
  listener.reserve_ = OpenReserve();
  return listener;
}

UnixListener& UnixListener::operator=(UnixListener&& other) noexcept {
  if (this != &other) {
    Close();
    path_ = std::exchange(other.path_, {});
    fd_ = std::move(other.fd_);
    reserve_ = std::move(other.reserve_);
    device_ = other.device_;
    inode_ = other.inode_;
  }
  return *this;
}

UniqueFd UnixListener::Accept() {
  return AcceptConnection(fd_.get(), &reserve_);
}

void UnixListener::Close() {
  if (!fd_) return;
  struct stat info;
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
      info.st_ino == inode_) {
    unlink(path_.c_str());
  }
  fd_.reset();
  reserve_.reset();
}

}  // namespace carillon::gpud
