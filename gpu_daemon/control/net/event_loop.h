// gpud's main loop: one thread in epoll for sockets, deaths and the clock.
// Nothing of an event's life passes through it.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_EVENT_LOOP_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_EVENT_LOOP_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace carillon::gpud {

// Thread safe; callbacks run on the thread that is in Run(), and must not
// block.
class EventLoop {
 public:
  using Callback = std::function<void()>;
  // Names one Watch(). It is never used twice, so a late Unwatch() hits no
  // other watch.
  using WatchId = uint64_t;

  // Errors: ResourceExhausted (no descriptors).
  static absl::StatusOr<std::unique_ptr<EventLoop>> Create();

  // Calls back whenever `fd` is readable or at its end (level-triggered), until
  // Unwatch(), which must come before the descriptor is closed. Errors:
  // ResourceExhausted.
  absl::StatusOr<WatchId> Watch(int fd, Callback callback);
  // If called on the loop's thread, the callback never runs again. If called on
  // another thread, it may be running.
  void Unwatch(WatchId id);

  // Calls back about every `period`; missed turns are not made up for. Errors:
  // ResourceExhausted.
  absl::Status Every(std::chrono::milliseconds period, Callback callback);

  // Runs `callback` soon. Does not block; for any thread.
  void Post(Callback callback);

  // Runs until Stop(), and returns at once if Stop() came first.
  void Run();
  void Stop();

 private:
  struct Watched {
    int fd = -1;
    std::shared_ptr<Callback> callback;
  };

  EventLoop(UniqueFd epoll, UniqueFd wake);
  void RunPosted();

  const UniqueFd epoll_;
  const UniqueFd wake_;
  Mutex mutex_;
  WatchId next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<WatchId, Watched> watched_ ABSL_GUARDED_BY(mutex_);
  std::vector<UniqueFd> timers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Callback> posted_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_EVENT_LOOP_H_
