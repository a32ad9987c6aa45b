#include "gpu_daemon/event/path_set.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gpu_daemon/event/refusal.h"

namespace carillon::gpud {
namespace {

absl::Status Annotate(const absl::Status& status, std::string_view more) {
  absl::Status annotated(status.code(),
                         fmt::format("{}{}", status.message(), more));
  status.ForEachPayload([&](auto url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

}  // namespace

PathSet::PathSet(std::vector<Entry> entries, bool tracing,
                 std::vector<Absent> absent)
    : entries_(std::move(entries)),
      absent_(std::move(absent)),
      paths_(entries_.size()),
      unavailable_(entries_.size()),
      tracing_(tracing) {}

PathSet::PathSet(LaunchPathInfo info, std::unique_ptr<LaunchPath> path,
                 bool tracing)
    : PathSet({{.info = std::move(info), .start = nullptr}}, tracing) {
  paths_.front() = std::move(path);
}

std::vector<PathSet::Description> PathSet::Describe() const {
  MutexLock lock(mutex_);
  std::vector<Description> descriptions;
  for (size_t i = 0; i < entries_.size(); ++i) {
    descriptions.push_back({entries_[i].info, unavailable_[i], {}, {}});
    if (paths_[i] != nullptr) {
      descriptions.back().notice = paths_[i]->notice();
      descriptions.back().counters = paths_[i]->counters();
    }
  }
  return descriptions;
}

absl::StatusOr<std::vector<size_t>> PathSet::Candidates(
    std::string_view name) const {
  std::vector<size_t> candidates;
  std::vector<std::string_view> names;
  for (size_t i = 0; i < entries_.size(); ++i) {
    names.push_back(entries_[i].info.name);
    if (name.empty() || names.back() == name) candidates.push_back(i);
  }
  if (!candidates.empty()) return candidates;
  for (const Absent& absent : absent_) {
    if (absent.name != name) continue;
    return absl::UnimplementedError(
        fmt::format("this back-end has no launch path '{}' yet: {}; there are: "
                    "{}",
                    name, absent.why, fmt::join(names, ", ")));
  }
  return absl::NotFoundError(
      fmt::format("this back-end has no launch path '{:.64}'; there are: {}",
                  name, fmt::join(names, ", ")));
}

absl::StatusOr<StartedPath> PathSet::Find(std::string_view name) {
  ASSIGN_OR_RETURN(const auto candidates, Candidates(name));
  absl::Status error;
  for (const size_t index : candidates) {
    auto path = Start(index);
    if (path.ok()) return path;
    error.Update(path.status());
  }
  return error;
}

absl::StatusOr<StartedPath> PathSet::Serve(std::string_view name,
                                           const Add& add) {
  ASSIGN_OR_RETURN(const auto candidates, Candidates(name));
  absl::Status not_started;
  absl::Status refused;
  for (const size_t index : candidates) {
    auto path = Start(index);
    if (!path.ok()) {
      not_started.Update(path.status());
      continue;
    }
    const absl::Status status = add(*path);
    if (status.ok()) return path;
    if (!name.empty() || !AnotherPathMayServe(status)) return status;
    spdlog::info("launch path {} does not take an event kernel: {}", path->name,
                 status.message());
    refused.Update(status);
  }
  if (refused.ok()) return not_started;
  return Annotate(refused,
                  "; nor does another launch path take it: gpud's log "
                  "says why");
}

absl::StatusOr<StartedPath> PathSet::Start(size_t index) {
  MutexLock lock(mutex_);
  if (stopped_) return absl::UnavailableError("gpud goes down");
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
  MutexLock lock(mutex_);
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
    MutexLock lock(mutex_);
    tracing_ = on;
  }
  for (LaunchPath* path : started()) path->SetTracing(on);
}

bool PathSet::tracing() const {
  MutexLock lock(mutex_);
  return tracing_;
}

void PathSet::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  for (LaunchPath* path : started()) path->Stop();
}

}  // namespace carillon::gpud
