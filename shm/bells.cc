#include "shm/bells.h"

#include <unistd.h>

namespace carillon::shm {

void CompletionBell::Wake(uint32_t armed) const {
  if ((armed & kArmedFutexMask) != 0) BumpAndWake(summary_);
  if ((armed & kArmedEventFd) != 0 && event_fd_ >= 0) {
    const uint64_t one = 1;
    // The only way to fail is a counter that is full: then the fd is readable
    // already.
    [[maybe_unused]] const ssize_t written =
        write(event_fd_, &one, sizeof(one));
  }
}

CloseReason CompletionWaiter::close_reason() const {
  const uint32_t reason =
      std::atomic_ref<uint32_t>(const_cast<uint32_t&>(control_->closed))
          .load(std::memory_order_seq_cst);
  if (reason != 0) return static_cast<CloseReason>(reason);
  return closed_->closed() ? CloseReason::kPeerDied : CloseReason::kOpen;
}

}  // namespace carillon::shm
