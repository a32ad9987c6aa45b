#include "shm/waiting.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace carillon::shm {

WaitResult FutexWait(std::span<const FutexWord> words,
                     std::chrono::nanoseconds timeout) {
  if (words.empty() || words.size() > kMaxFutexWords) {
    return WaitResult::kWoken;
  }
  std::array<futex_waitv, kMaxFutexWords> waiters;
  for (size_t i = 0; i < words.size(); ++i) {
    // Not FUTEX_PRIVATE_FLAG: other processes wake these words.
    waiters[i] = {.val = words[i].expected,
                  .uaddr = reinterpret_cast<uintptr_t>(words[i].word),
                  .flags = FUTEX_32,
                  .__reserved = 0};
  }
  // Seconds and nanoseconds apart, so that no timeout overflows; an absolute
  // deadline, so that a kernel-side restart does not prolong it.
  timeout = std::max(timeout, std::chrono::nanoseconds(0));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
  timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += seconds.count();
  deadline.tv_nsec += (timeout - seconds).count();
  if (deadline.tv_nsec >= 1'000'000'000) {
    deadline.tv_nsec -= 1'000'000'000;
    ++deadline.tv_sec;
  }
  const long result = syscall(SYS_futex_waitv, waiters.data(), words.size(), 0,
                              &deadline, CLOCK_MONOTONIC);
  return result < 0 && errno == ETIMEDOUT ? WaitResult::kTimedOut
                                          : WaitResult::kWoken;
}

void FutexWakeAll(const uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool FutexWaitvSupported() {
  // No words: EINVAL from a kernel that has it, ENOSYS from one that has not,
  // and whatever a seccomp filter likes from a sandbox.
  return syscall(SYS_futex_waitv, nullptr, 0, 0, nullptr, 0) < 0 &&
         errno == EINVAL;
}

}  // namespace carillon::shm
