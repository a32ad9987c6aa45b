#include "integration_tests/soak/death_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/subprocess.h"

namespace carillon::soak {
namespace {

void Raise(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
}

}  // namespace

DeathWatch::DeathWatch(pid_t pid)
    : pid_(pid),
      pidfd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
      stop_(eventfd(0, EFD_CLOEXEC)),
      done_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] {
        pollfd watched[] = {{pidfd_.get(), POLLIN, 0},
                            {stop_.get(), POLLIN, 0}};
        while (poll(watched, 2, -1) < 0) {
        }
        if ((watched[0].revents & POLLIN) == 0) return;
        told_ns_.store(NowNs(), std::memory_order_release);
        Raise(done_.get());
      }) {}

DeathWatch::~DeathWatch() {
  Raise(stop_.get());
  thread_.join();
}

std::optional<Nanoseconds> DeathWatch::Told(std::chrono::milliseconds bound) {
  pollfd waiter{done_.get(), POLLIN, 0};
  if (poll(&waiter, 1, static_cast<int>(bound.count())) <= 0) {
    return std::nullopt;
  }
  return told_ns_.load(std::memory_order_acquire);
}

std::optional<Nanoseconds> BareWake() {
  auto sleeper = Subprocess::Start({.argv = {"sleep", "infinity"}});
  if (!sleeper.ok()) return std::nullopt;
  std::optional<Nanoseconds> told;
  Nanoseconds killed = 0;
  {
    DeathWatch watch(sleeper->pid());
    (void)watch.Told(std::chrono::milliseconds(2));  // so that it sleeps
    killed = NowNs();
    sleeper->Signal(SIGKILL);
    told = watch.Told(std::chrono::seconds(10));
  }
  if (!told) return std::nullopt;
  return *told - killed;
}

}  // namespace carillon::soak
