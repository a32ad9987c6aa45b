#include "tools/testbed/client/snapshot_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace carillon::testbed {
namespace {

using Histograms = google::protobuf::RepeatedPtrField<v1::Histogram>;

absl::Status Unknown(const char* what, uint64_t id) {
  return absl::DataLossError(
      fmt::format("a snapshot has changes of {} {}, which it lacks", what, id));
}

// Puts the buckets that have changed in their places.
absl::Status Apply(const v1::Histogram& changes, Histograms* histograms) {
  const auto histogram =
      std::ranges::find(*histograms, changes.name(), &v1::Histogram::name);
  if (histogram == histograms->end()) {
    return absl::DataLossError(
        fmt::format("a snapshot has changes of a histogram '{}', which it "
                    "lacks",
                    changes.name()));
  }
  std::map<uint32_t, uint64_t> counts;
  const auto add = [&](const v1::Histogram& from) {
    const int size = std::min(from.bucket_size(), from.count_size());
    for (int i = 0; i < size; ++i) counts[from.bucket(i)] = from.count(i);
  };
  add(*histogram);
  add(changes);
  histogram->clear_bucket();
  histogram->clear_count();
  for (const auto& [bucket, count] : counts) {
    if (count == 0) continue;
    histogram->add_bucket(bucket);
    histogram->add_count(count);
  }
  histogram->set_sum_ns(changes.sum_ns());
  return absl::OkStatus();
}

}  // namespace

absl::Status SnapshotPicture::Apply(const v1::Snapshot& message) {
  if (message.whole()) {
    *this = {};
  } else if (number_ == 0) {
    return absl::DataLossError("a stream of snapshots began with changes");
  }
  number_ = message.number();
  monotonic_ns_ = message.monotonic_ns();
  time_ns_ = message.time_ns();
  totals_ = message.totals();
  for (const v1::Queue& queue : message.queues()) {
    const auto known = std::ranges::find_if(queues_, [&](const v1::Queue& one) {
      return one.name() == queue.name() && one.priority() == queue.priority();
    });
    *(known != queues_.end() ? known : queues_.emplace(known)) = queue;
  }
  for (const v1::LaunchPath& path : message.launch_paths()) {
    const auto known =
        std::ranges::find(launch_paths_, path.name(), &v1::LaunchPath::name);
    *(known != launch_paths_.end() ? known : launch_paths_.emplace(known)) =
        path;
  }
  for (const uint32_t id : message.devices_gone()) {
    devices_.erase(id);
    since_.erase(id);
  }
  for (const v1::Device& device : message.devices()) ApplyDescription(device);
  for (const v1::DeviceFigures& figures : message.device_figures()) {
    RETURN_IF_ERROR(ApplyFigures(figures));
  }
  for (auto& [id, device] : devices_) {
    const Since& since = since_[id];
    device.set_attached_ns_ago(monotonic_ns_ - since.attached_ns);
    device.set_silent_ns(
        since.silent_ns == 0 ? 0 : monotonic_ns_ - since.silent_ns);
  }
  for (const uint32_t index : message.event_kernels_gone()) {
    event_kernels_.erase(index);
    stages_.erase(index);
  }
  for (const v1::SnapshotEventKernel& event : message.event_kernels()) {
    ApplyDescription(event);
  }
  for (const v1::RingFigures& figures : message.ring_figures()) {
    RETURN_IF_ERROR(ApplyFigures(figures));
  }
  return absl::OkStatus();
}

// What has figures keeps them.
void SnapshotPicture::ApplyDescription(const v1::Device& device) {
  const auto [place, is_new] = devices_.try_emplace(device.device_id(), device);
  if (!is_new) {
    v1::Device next = device;
    next.mutable_counters()->Swap(place->second.mutable_counters());
    next.mutable_histograms()->Swap(place->second.mutable_histograms());
    place->second = std::move(next);
  }
  since_[device.device_id()].attached_ns =
      monotonic_ns_ - device.attached_ns_ago();
}

absl::Status SnapshotPicture::ApplyFigures(const v1::DeviceFigures& figures) {
  const auto place = devices_.find(figures.device_id());
  if (place == devices_.end()) return Unknown("device", figures.device_id());
  v1::Device& device = place->second;
  since_[figures.device_id()].silent_ns = figures.silent_since_ns();
  const int size = std::min(figures.counter_size(), figures.value_size());
  for (int i = 0; i < size; ++i) {
    const auto index = static_cast<int>(figures.counter(i));
    if (index < 0 || index >= device.counters_size()) {
      return Unknown("counter", figures.counter(i));
    }
    device.mutable_counters(index)->set_value(figures.value(i));
  }
  for (const v1::Histogram& changes : figures.histograms()) {
    RETURN_IF_ERROR(testbed::Apply(changes, device.mutable_histograms()));
  }
  return absl::OkStatus();
}

void SnapshotPicture::ApplyDescription(const v1::SnapshotEventKernel& event) {
  const uint32_t index = event.entry().ekt_index();
  const auto [place, is_new] = event_kernels_.try_emplace(index);
  EventKernel& shown = place->second;
  const v1::EktEntry last = std::exchange(shown.entry, event.entry());
  shown.entry.clear_stages();
  const v1::Ring figures = std::exchange(shown.ring, event.ring());
  if (is_new) {
    stages_[index] = event.entry().stages();
    return;
  }
  *shown.entry.mutable_counts() = last.counts();
  *shown.entry.mutable_stages() = last.stages();
  shown.ring.set_doorbell(figures.doorbell());
  shown.ring.set_launched(figures.launched());
  shown.ring.set_completed(figures.completed());
  shown.ring.set_consumed(figures.consumed());
}

absl::Status SnapshotPicture::ApplyFigures(const v1::RingFigures& figures) {
  const auto place = event_kernels_.find(figures.ekt_index());
  if (place == event_kernels_.end()) {
    return Unknown("event kernel", figures.ekt_index());
  }
  EventKernel& shown = place->second;
  shown.ring.set_doorbell(figures.doorbell());
  shown.ring.set_launched(figures.launched());
  shown.ring.set_completed(figures.completed());
  shown.ring.set_consumed(figures.consumed());
  shown.peak = figures.peak();
  shown.life = figures.life();
  *shown.entry.mutable_counts() = figures.counts();
  if (figures.stages().empty()) return absl::OkStatus();
  auto& stages = stages_[figures.ekt_index()];
  for (const v1::Histogram& changes : figures.stages()) {
    RETURN_IF_ERROR(testbed::Apply(changes, &stages));
  }
  shown.entry.clear_stages();
  for (const v1::Histogram& stage : stages) {
    if (stage.bucket_size() != 0) *shown.entry.add_stages() = stage;
  }
  return absl::OkStatus();
}

}  // namespace carillon::testbed
