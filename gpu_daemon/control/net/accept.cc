#include "gpu_daemon/control/net/accept.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>

namespace carillon::gpud {

UniqueFd OpenReserve() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

UniqueFd AcceptConnection(int listener, UniqueFd* reserve) {
  UniqueFd connection(
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection && (errno == EMFILE || errno == ENFILE)) {
    reserve->reset();
    UniqueFd refused(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    refused.reset();
    *reserve = OpenReserve();
  }
  return connection;
}

ino_t InodeOf(int connection) {
  struct stat info {};
  return fstat(connection, &info) == 0 ? info.st_ino : 0;
}

}  // namespace carillon::gpud
