// Measures when a process's death becomes known: a thread polls its pidfd and
// does nothing else.
#ifndef CARILLON_INTEGRATION_TESTS_SOAK_DEATH_WATCH_H_
#define CARILLON_INTEGRATION_TESTS_SOAK_DEATH_WATCH_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace carillon::soak {

// One thread.
class DeathWatch {
 public:
  explicit DeathWatch(pid_t pid);
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  pid_t pid() const { return pid_; }
  // When the thread learned of the death; waits for that for at most `bound`.
  // Nothing if it did not.
  std::optional<Nanoseconds> Told(std::chrono::milliseconds bound);

 private:
  const pid_t pid_;
  const UniqueFd pidfd_;
  const UniqueFd stop_;  // eventfd: ends the thread
  const UniqueFd done_;  // eventfd: the thread was told
  // Writer: the thread, before done_. Reader: the owner, after it.
  std::atomic<Nanoseconds> told_ns_{0};
  std::thread thread_;
};

// The time from a SIGKILL to a process with one thread until a DeathWatch
// learns of its end: what the machine itself takes. Nothing if the process
// cannot be started.
std::optional<Nanoseconds> BareWake();

}  // namespace carillon::soak

#endif  // CARILLON_INTEGRATION_TESTS_SOAK_DEATH_WATCH_H_
