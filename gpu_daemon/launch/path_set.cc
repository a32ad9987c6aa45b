#include "gpu_daemon/launch/path_set.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace carillon::gpud {

PathSet::PathSet(std::vector<Entry> entries, bool tracing)
    : entries_(std::move(entries)),
      paths_(entries_.size()),
      unavailable_(entries_.size()),
      tracing_(tracing) {}

std::vector<PathSet::Description> PathSet::Describe() const {
  std::lock_guard lock(mutex_);
  std::vector<Description> descriptions;
  for (size_t i = 0; i < entries_.size(); ++i) {
    descriptions.push_back({entries_[i].info, unavailable_[i], {}});
    if (paths_[i] != nullptr) {
      descriptions.back().counters = paths_[i]->counters();
    }
  }
  return descriptions;
}

absl::StatusOr<StartedPath> PathSet::Find(std::string_view name) {
  std::lock_guard lock(mutex_);
  if (stopped_) return absl::UnavailableError("gpud goes down");
  absl::Status first_error;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!name.empty() && entries_[i].info.name != name) continue;
    auto path = Start(i);
    if (path.ok() || !name.empty()) return path;
    if (first_error.ok()) first_error = path.status();
  }
  if (name.empty()) return first_error;
  std::vector<std::string_view> names;
  for (const Entry& entry : entries_) names.push_back(entry.info.name);
  return absl::NotFoundError(
      fmt::format("this back-end has no launch path '{}'; there are: {}", name,
                  fmt::join(names, ", ")));
}

absl::StatusOr<StartedPath> PathSet::Start(size_t index) {
  const std::string_view name = entries_[index].info.name;
  if (paths_[index] == nullptr) {
    auto path = entries_[index].start(tracing_);
    if (!path.ok()) {
      const std::string why(path.status().message());
      if (unavailable_[index] != why) {
        spdlog::warn("launch path {} cannot be used: {}", name, why);
      }
      unavailable_[index] = why;
      return path.status();
    }
    unavailable_[index].clear();
    paths_[index] = *std::move(path);
  }
  return StartedPath{name, paths_[index].get()};
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

void PathSet::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  for (LaunchPath* path : started()) path->Stop();
}

}  // namespace carillon::gpud
