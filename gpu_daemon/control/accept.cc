#include "gpu_daemon/control/accept.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

namespace carillon::gpud {

shm::UniqueFd OpenReserve() {
  return shm::UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

shm::UniqueFd AcceptConnection(int listener, shm::UniqueFd* reserve) {
  shm::UniqueFd connection(
      accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection && (errno == EMFILE || errno == ENFILE)) {
    reserve->reset();
    shm::UniqueFd refused(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    refused.reset();
    *reserve = OpenReserve();
  }
  return connection;
}

}  // namespace carillon::gpud
