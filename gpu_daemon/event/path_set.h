// The launch paths of one back-end.
#ifndef CARILLON_GPU_DAEMON_EVENT_PATH_SET_H_
#define CARILLON_GPU_DAEMON_EVENT_PATH_SET_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/event/launch_path.h"

namespace carillon::gpud {

struct StartedPath {
  std::string_view name;  // its LaunchPathInfo's
  LaunchPath* path = nullptr;
};

// Thread safe. A path starts when it is first asked for: one that nobody uses
// costs nothing.
class PathSet {
 public:
  struct Entry {
    LaunchPathInfo info;
    std::function<absl::StatusOr<std::unique_ptr<LaunchPath>>(bool tracing)>
        start;
  };

  // A path that other back-ends have, and what this one lacks for it.
  struct Absent {
    std::string_view name;
    std::string_view why;
  };

  // The default first, then what takes its place where it cannot start.
  PathSet(std::vector<Entry> entries, bool tracing,
          std::vector<Absent> absent = {});
  // One path, which has started.
  PathSet(LaunchPathInfo info, std::unique_ptr<LaunchPath> path, bool tracing);

  struct Description {
    LaunchPathInfo info;
    // Why it could not start when it was asked for; empty: nobody knows of a
    // reason.
    std::string unavailable;
    // Once it has started:
    std::string notice;  // LaunchPath::notice()
    std::vector<PathCounter> counters;
  };
  std::vector<Description> Describe() const;
  // The path of that name; if it is empty, the first that this machine can
  // start. It lives as long as this object. Errors: NotFound, naming those there
  // are; Unimplemented (Absent); Unavailable after Stop(); what keeps the path from
  // starting.
  absl::StatusOr<StartedPath> Find(std::string_view name);

  // Gives an event kernel to the path of that name; if it is empty, to the first
  // of those that this machine can start that takes it. `add` is
  // LaunchPath::Add() and what belongs to it, for one path after the other, each
  // with a new EventKernel; the lock is not held. Returns who has taken it.
  // Errors: as Find; the first path's refusal.
  using Add = std::function<absl::Status(const StartedPath& path)>;
  absl::StatusOr<StartedPath> Serve(std::string_view name, const Add& add);

  // Of every path that has started:
  void RemoveDevice(const DeviceMemory* memory);
  void SetTracing(bool on);
  void Stop();

  bool tracing() const;

 private:
  // Of entries_, all or the one of that name. Errors: NotFound, Unimplemented.
  absl::StatusOr<std::vector<size_t>> Candidates(std::string_view name) const;
  absl::StatusOr<StartedPath> Start(size_t index);
  std::vector<LaunchPath*> started() const;

  const std::vector<Entry> entries_;
  const std::vector<Absent> absent_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<LaunchPath>> paths_
      ABSL_GUARDED_BY(mutex_);  // of entries_, or nullptr
  std::vector<std::string> unavailable_ ABSL_GUARDED_BY(mutex_);  // of entries_
  bool tracing_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_PATH_SET_H_
