#include "gpu_daemon/control/net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"

namespace carillon::gpud {
namespace {

constexpr uint64_t kWakeId = 0;

absl::Status NoDescriptors(std::string_view what) {
  return absl::ResourceExhaustedError(
      fmt::format("{}: {}; raise the descriptor limit (ulimit -n)", what,
                  std::strerror(errno)));
}

bool AddToEpoll(int epoll, int fd, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = id;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

EventLoop::EventLoop(UniqueFd epoll, UniqueFd wake)
    : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll || !wake || !AddToEpoll(epoll.get(), wake.get(), kWakeId)) {
    return NoDescriptors("epoll");
  }
  return std::unique_ptr<EventLoop>(
      new EventLoop(std::move(epoll), std::move(wake)));
}

absl::StatusOr<EventLoop::WatchId> EventLoop::Watch(int fd, Callback callback) {
  MutexLock lock(mutex_);
  const WatchId id = next_id_++;
  watched_[id] = {fd, std::make_shared<Callback>(std::move(callback))};
  if (!AddToEpoll(epoll_.get(), fd, id)) {
    watched_.erase(id);
    return NoDescriptors("epoll_ctl");
  }
  return id;
}

void EventLoop::Unwatch(WatchId id) {
  MutexLock lock(mutex_);
  const auto found = watched_.find(id);
  if (found == watched_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  watched_.erase(found);
}

absl::Status EventLoop::Every(std::chrono::milliseconds period,
                              Callback callback) {
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return NoDescriptors("timerfd");
  const timespec every{.tv_sec = period.count() / 1000,
                       .tv_nsec = period.count() % 1000 * 1'000'000};
  const itimerspec setting{.it_interval = every, .it_value = every};
  timerfd_settime(timer.get(), 0, &setting, nullptr);
  const int fd = timer.get();
  auto watch = Watch(fd, [fd, callback = std::move(callback)] {
    uint64_t turns = 0;
    if (read(fd, &turns, sizeof(turns)) == sizeof(turns)) callback();
  });
  if (!watch.ok()) return watch.status();
  MutexLock lock(mutex_);
  timers_.push_back(std::move(timer));
  return absl::OkStatus();
}

void EventLoop::Post(Callback callback) {
  {
    MutexLock lock(mutex_);
    posted_.push_back(std::move(callback));
  }
  eventfd_write(wake_.get(), 1);
}

void EventLoop::RunPosted() {
  eventfd_t count;
  eventfd_read(wake_.get(), &count);
  std::vector<Callback> posted;
  {
    MutexLock lock(mutex_);
    posted.swap(posted_);
  }
  for (const Callback& callback : posted) callback();
}

void EventLoop::Run() {
  std::array<epoll_event, 64> events;
  while (true) {
    {
      MutexLock lock(mutex_);
      if (stop_) return;
    }
    const int ready =
        epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    for (int i = 0; i < ready; ++i) {
      // A copy, because epoll_event is packed and a reference into it
      // unaligned.
      const WatchId id = events[i].data.u64;
      if (id == kWakeId) {
        RunPosted();
        continue;
      }
      // Held while it runs: a callback may unwatch itself.
      std::shared_ptr<Callback> callback;
      {
        MutexLock lock(mutex_);
        const auto found = watched_.find(id);
        if (found != watched_.end()) callback = found->second.callback;
      }
      if (callback != nullptr) (*callback)();
    }
  }
}

void EventLoop::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  eventfd_write(wake_.get(), 1);
}

}  // namespace carillon::gpud
