#include "shm/waiting.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

namespace carillon::shm {

WaitResult FutexWait(std::span<const FutexWord> words,
                     std::chrono::nanoseconds timeout) {
  std::array<futex_waitv, kMaxFutexWords> waiters;
  const size_t count =
      words.size() < kMaxFutexWords ? words.size() : kMaxFutexWords;
  for (size_t i = 0; i < count; ++i) {
    waiters[i] = {
        .val = words[i].expected,
        .uaddr = reinterpret_cast<uintptr_t>(words[i].word),
        .flags =
            FUTEX_32,  // not private: the word is shared with other processes
        .__reserved = 0};
  }
  timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  const auto total = std::chrono::nanoseconds(deadline.tv_nsec) + timeout;
  deadline.tv_sec += total / std::chrono::seconds(1);
  deadline.tv_nsec = (total % std::chrono::seconds(1)).count();
  const long result = syscall(SYS_futex_waitv, waiters.data(), count, 0,
                              &deadline, CLOCK_MONOTONIC);
  return result < 0 && errno == ETIMEDOUT ? WaitResult::kTimedOut
                                          : WaitResult::kWoken;
}

void FutexWakeAll(const uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool FutexWaitvSupported() {
  return syscall(SYS_futex_waitv, nullptr, 0, 0, nullptr, 0) < 0 &&
         errno != ENOSYS;
}

}  // namespace carillon::shm
