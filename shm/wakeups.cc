#include "shm/wakeups.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace carillon::shm {

absl::StatusOr<CompletionEvent> CompletionEvent::Create() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot make a completion event: {}; raise the limit on "
                    "open files (ulimit -n)",
                    std::strerror(errno)));
  }
  return CompletionEvent{.writer = UniqueFd(ends[1]),
                         .reader = UniqueFd(ends[0])};
}

void DrainCompletionEvent(int reader) {
  std::array<char, 512> wakes;
  ssize_t got;
  do {
    got = read(reader, wakes.data(), wakes.size());
  } while (got == static_cast<ssize_t>(wakes.size()) ||
           (got < 0 && errno == EINTR));
}

void CompletionBell::Wake(uint32_t armed) const {
  if ((armed & kArmedFutexMask) != 0) BumpAndWake(summary_);
  if ((armed & kArmedCompletionEvent) != 0 && event_writer_ >= 0) {
    // Fails only when the pipe is full: then it is readable already.
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written =
        write(event_writer_, &one, sizeof(one));
  }
}

CloseReason CompletionWaiter::close_reason() const {
  const uint32_t reason =
      LoadShared(control_->closed, std::memory_order_seq_cst);
  if (reason != 0) return static_cast<CloseReason>(reason);
  return closed_->closed() ? CloseReason::kPeerDied : CloseReason::kOpen;
}

}  // namespace carillon::shm
