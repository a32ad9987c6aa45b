#include "gpu_daemon/control/rpc/snapshot_changes.h"

#include <algorithm>
#include <string>

namespace carillon::gpud {
namespace {

template <class Message>
bool Same(const Message& a, const Message& b) {
  return &a == &b || a.SerializeAsString() == b.SerializeAsString();
}

uint32_t KeyOf(const DeviceSample& device) {
  return device.device->device_id();
}
uint32_t KeyOf(const RingSample& ring) { return ring.figures->ekt_index(); }

// By their keys, which rise.
template <class Element>
const Element* Find(const std::vector<Element>& all, uint32_t key) {
  const auto found = std::ranges::lower_bound(
      all, key, {}, [](const Element& one) { return KeyOf(one); });
  return found == all.end() || KeyOf(*found) != key ? nullptr : &*found;
}

// Null: not the same event kernel, or none.
const RingSample* FindSame(const std::vector<RingSample>& all,
                           const RingSample& ring) {
  const RingSample* const found = Find(all, KeyOf(ring));
  return found != nullptr && found->generation() == ring.generation() ? found
                                                                      : nullptr;
}

// Adds those buckets whose counts differ. Buckets of both rise.
void AddChanged(const v1::Histogram& from, const v1::Histogram& to,
                Histograms* changes) {
  v1::Histogram changed;
  int i = 0;
  int j = 0;
  while (i < from.bucket_size() || j < to.bucket_size()) {
    const uint32_t old = i < from.bucket_size() ? from.bucket(i) : ~0u;
    const uint32_t now = j < to.bucket_size() ? to.bucket(j) : ~0u;
    const uint32_t bucket = std::min(old, now);
    const uint64_t before = old == bucket ? from.count(i++) : 0;
    const uint64_t after = now == bucket ? to.count(j++) : 0;
    if (before == after) continue;
    changed.add_bucket(bucket);
    changed.add_count(after);
  }
  if (changed.bucket_size() == 0 && from.sum_ns() == to.sum_ns()) return;
  changed.set_name(to.name());
  changed.set_sum_ns(to.sum_ns());
  *changes->Add() = std::move(changed);
}

// Of one device or ring, in which they have the same names and order.
void AddChanged(const std::map<uint32_t, SharedHistograms>* from,
                const std::map<uint32_t, SharedHistograms>& to, uint32_t key,
                Histograms* changes) {
  const auto after = to.find(key);
  if (after == to.end()) return;
  const Histograms* before = nullptr;
  if (from != nullptr) {
    const auto found = from->find(key);
    if (found != from->end()) before = found->second.get();
  }
  if (before == after->second.get()) return;
  static const v1::Histogram kEmpty;
  for (int i = 0; i < after->second->size(); ++i) {
    AddChanged(before == nullptr ? kEmpty : before->Get(i),
               after->second->Get(i), changes);
  }
}

class Difference {
 public:
  Difference(const Sample& from, const Sample& to) : from_(from), to_(to) {}

  v1::Snapshot Take() {
    message_.set_monotonic_ns(now().common.monotonic_ns());
    message_.set_time_ns(now().common.time_ns());
    message_.set_whole(from_.picture == nullptr);
    *message_.mutable_totals() = now().common.totals();
    AddQueues(before().common, now().common);
    AddPaths(before().common, now().common);
    AddDevices();
    AddEventKernels();
    return std::move(message_);
  }

 private:
  const PictureSample& before() const {
    static const PictureSample kNothing;
    return from_.picture == nullptr ? kNothing : *from_.picture;
  }
  const PictureSample& now() const { return *to_.picture; }
  static uint32_t PeakOf(const Sample& sample, uint32_t generation) {
    const auto found = sample.peaks.find(generation);
    return found == sample.peaks.end() ? 0 : found->second;
  }

  // Those of a back-end are always the same ones.
  void AddQueues(const v1::Snapshot& from, const v1::Snapshot& to) {
    for (int i = 0; i < to.queues_size(); ++i) {
      const uint32_t kernels =
          i < from.queues_size() ? from.queues(i).kernels() : 0;
      if (to.queues(i).kernels() != kernels) {
        *message_.add_queues() = to.queues(i);
      }
    }
  }
  void AddPaths(const v1::Snapshot& from, const v1::Snapshot& to) {
    for (int i = 0; i < to.launch_paths_size(); ++i) {
      if (i >= from.launch_paths_size() ||
          !Same(from.launch_paths(i), to.launch_paths(i))) {
        *message_.add_launch_paths() = to.launch_paths(i);
      }
    }
  }

  void AddDevices() {
    for (const DeviceSample& device : before().devices) {
      if (Find(now().devices, KeyOf(device)) == nullptr) {
        message_.add_devices_gone(KeyOf(device));
      }
    }
    for (const DeviceSample& device : now().devices) {
      const DeviceSample* const last = Find(before().devices, KeyOf(device));
      if (last == nullptr || !Same(*last->device, *device.device)) {
        v1::Device* const shown = message_.add_devices();
        *shown = *device.device;
        // It may have come after the moment was read.
        const Nanoseconds moment = now().common.monotonic_ns();
        shown->set_attached_ns_ago(moment -
                                   std::min(moment, device.attached_ns));
      }
      AddFigures(last, device);
    }
  }
  void AddFigures(const DeviceSample* last, const DeviceSample& device) {
    const v1::DeviceFigures& now = *device.figures;
    v1::DeviceFigures changed;
    if (to_.histograms != from_.histograms) {
      AddChanged(
          from_.histograms == nullptr ? nullptr : &from_.histograms->of_device,
          to_.histograms->of_device, KeyOf(device),
          changed.mutable_histograms());
    }
    if (last != nullptr && changed.histograms_size() == 0 &&
        last->figures == device.figures) {
      return;
    }
    for (int i = 0; i < now.value_size(); ++i) {
      if (last != nullptr && last->figures->value(i) == now.value(i)) continue;
      changed.add_counter(now.counter(i));
      changed.add_value(now.value(i));
    }
    if (last != nullptr &&
        last->figures->silent_since_ns() == now.silent_since_ns() &&
        changed.value_size() == 0 && changed.histograms_size() == 0) {
      return;
    }
    changed.set_device_id(now.device_id());
    changed.set_silent_since_ns(now.silent_since_ns());
    *message_.add_device_figures() = std::move(changed);
  }

  void AddEventKernels() {
    for (const RingSample& ring : before().rings) {
      if (FindSame(now().rings, ring) == nullptr) {
        message_.add_event_kernels_gone(KeyOf(ring));
      }
    }
    for (const RingSample& ring : now().rings) {
      const RingSample* const last = FindSame(before().rings, ring);
      if (last == nullptr || !Same(*last->event_kernel, *ring.event_kernel)) {
        *message_.add_event_kernels() = *ring.event_kernel;
      }
      AddFigures(last, ring);
    }
  }
  void AddFigures(const RingSample* last, const RingSample& ring) {
    const uint32_t generation = ring.generation();
    const uint32_t peak = PeakOf(to_, generation);
    Histograms stages;
    if (to_.histograms != from_.histograms) {
      AddChanged(
          from_.histograms == nullptr ? nullptr : &from_.histograms->of_ring,
          to_.histograms->of_ring, generation, &stages);
    }
    if (last != nullptr && stages.empty() &&
        peak == PeakOf(from_, generation) &&
        Same(*last->figures, *ring.figures)) {
      return;
    }
    v1::RingFigures* const changed = message_.add_ring_figures();
    *changed = *ring.figures;
    changed->set_peak(peak);
    changed->mutable_stages()->Swap(&stages);
  }

  const Sample& from_;
  const Sample& to_;
  v1::Snapshot message_;
};

}  // namespace

bool SameHistograms(const Histograms& a, const Histograms& b) {
  return std::ranges::equal(
      a, b, [](const v1::Histogram& one, const v1::Histogram& other) {
        return one.sum_ns() == other.sum_ns() &&
               std::ranges::equal(one.bucket(), other.bucket()) &&
               std::ranges::equal(one.count(), other.count());
      });
}

v1::Snapshot ChangesBetween(const Sample& from, const Sample& to) {
  return Difference(from, to).Take();
}

}  // namespace carillon::gpud
