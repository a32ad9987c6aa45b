#include "devices/sdk/cancelled_call.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

#include "devices/sdk/cancel_calls.h"

namespace carillon::edge {
namespace {

thread_local int wish = -1;

}  // namespace

CancelCalls::CancelCalls(int fd) { wish = fd; }

CancelCalls::~CancelCalls() { wish = -1; }

int CancelCalls::fd() { return wish; }

CancelledCall::CancelledCall(grpc::ClientContext* context) {
  const int fd = CancelCalls::fd();
  if (fd < 0) return;
  over_.reset(eventfd(0, EFD_CLOEXEC));
  if (!over_) return;  // then the call's deadline ends it
  try {
    watcher_ = std::thread([context, fd, over = over_.get()] {
      pollfd fds[] = {{fd, POLLIN, 0}, {over, POLLIN, 0}};
      while (poll(fds, 2, -1) < 0 && errno == EINTR) {
      }
      if (fds[0].revents != 0) context->TryCancel();
    });
  } catch (const std::system_error&) {
    // No more threads: as without a descriptor.
  }
}

CancelledCall::~CancelledCall() {
  if (!watcher_.joinable()) return;
  eventfd_write(over_.get(), 1);
  watcher_.join();
}

}  // namespace carillon::edge
