#include "gpu_daemon/launch/path_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace carillon::gpud {

PathSet::PathSet(std::vector<Entry> entries, bool tracing)
    : entries_(std::move(entries)),
      paths_(entries_.size()),
      tracing_(tracing) {}

std::vector<LaunchPathInfo> PathSet::infos() const {
  std::vector<LaunchPathInfo> infos;
  for (const Entry& entry : entries_) infos.push_back(entry.info);
  return infos;
}

absl::StatusOr<StartedPath> PathSet::Find(std::string_view name) {
  size_t index = 0;
  while (!name.empty() && index < entries_.size() &&
         entries_[index].info.name != name) {
    ++index;
  }
  if (index == entries_.size()) {
    std::vector<std::string_view> names;
    for (const Entry& entry : entries_) names.push_back(entry.info.name);
    return absl::NotFoundError(
        fmt::format("this back-end has no launch path '{}'; there are: {}",
                    name, fmt::join(names, ", ")));
  }
  std::lock_guard lock(mutex_);
  if (stopped_) return absl::UnavailableError("gpud goes down");
  if (paths_[index] == nullptr) {
    auto path = entries_[index].start(tracing_);
    if (!path.ok()) return path.status();
    paths_[index] = *std::move(path);
  }
  return StartedPath{entries_[index].info.name, paths_[index].get()};
}

std::vector<LaunchPath*> PathSet::started() const {
  std::lock_guard lock(mutex_);
  std::vector<LaunchPath*> started;
  for (const auto& path : paths_) {
    if (path != nullptr) started.push_back(path.get());
  }
  return started;
}

void PathSet::RemoveDevice(const DeviceMemory* memory) {
  for (LaunchPath* path : started()) path->RemoveDevice(memory);
}

void PathSet::SetTracing(bool on) {
  {
    std::lock_guard lock(mutex_);
    tracing_ = on;
  }
  for (LaunchPath* path : started()) path->SetTracing(on);
}

bool PathSet::tracing() const {
  std::lock_guard lock(mutex_);
  return tracing_;
}

PathFigures PathSet::figures() const {
  PathFigures sum;
  for (const LaunchPath* path : started()) {
    const PathFigures figures = path->figures();
    sum.polls += figures.polls;
    sum.sleeps += figures.sleeps;
  }
  return sum;
}

void PathSet::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  for (LaunchPath* path : started()) path->Stop();
}

}  // namespace carillon::gpud
