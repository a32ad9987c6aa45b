#include "gpu_daemon/control/rpc/snapshot_changes.h"

#include <algorithm>
#include <string>

namespace carillon::gpud {
namespace {

using Histograms = HistogramSample::Histograms;
using google::protobuf::RepeatedPtrField;

template <class Message>
bool Same(const Message& a, const Message& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

// By their keys, which rise.
template <class Element, class Key>
const Element* Find(const RepeatedPtrField<Element>& all, uint32_t key,
                    Key key_of) {
  const auto found = std::lower_bound(
      all.begin(), all.end(), key,
      [&](const Element& one, uint32_t k) { return key_of(one) < k; });
  return found == all.end() || key_of(*found) != key ? nullptr : &*found;
}

uint32_t KeyOf(const v1::Device& device) { return device.device_id(); }
uint32_t KeyOf(const v1::DeviceFigures& figures) { return figures.device_id(); }
uint32_t KeyOf(const v1::RingFigures& figures) { return figures.ekt_index(); }
uint32_t KeyOf(const v1::SnapshotEventKernel& event) {
  return event.entry().ekt_index();
}

template <class Element>
const Element* Find(const RepeatedPtrField<Element>& all, uint32_t key) {
  return Find(all, key, [](const Element& one) { return KeyOf(one); });
}

// Null: not the same event kernel, or none.
const v1::SnapshotEventKernel* FindSame(const v1::Snapshot& from,
                                        const v1::SnapshotEventKernel& event) {
  const auto* before = Find(from.event_kernels(), KeyOf(event));
  return before != nullptr &&
                 before->ring().generation() == event.ring().generation()
             ? before
             : nullptr;
}

bool SameDevice(v1::Device a, v1::Device b) {
  a.clear_attached_ns_ago();
  b.clear_attached_ns_ago();
  return Same(a, b);
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
void AddChanged(const std::map<uint32_t, Histograms>* from,
                const std::map<uint32_t, Histograms>& to, uint32_t key,
                Histograms* changes) {
  const auto after = to.find(key);
  if (after == to.end()) return;
  const Histograms* before = nullptr;
  if (from != nullptr) {
    const auto found = from->find(key);
    if (found != from->end()) before = &found->second;
  }
  static const v1::Histogram kEmpty;
  for (int i = 0; i < after->second.size(); ++i) {
    AddChanged(before == nullptr ? kEmpty : before->Get(i),
               after->second.Get(i), changes);
  }
}

class Difference {
 public:
  Difference(const Sample& from, const Sample& to) : from_(from), to_(to) {}

  v1::Snapshot Take() {
    message_.set_monotonic_ns(now().monotonic_ns());
    message_.set_time_ns(now().time_ns());
    message_.set_whole(from_.picture == nullptr);
    *message_.mutable_totals() = now().totals();
    AddQueues();
    AddPaths();
    AddDevices();
    AddEventKernels();
    return std::move(message_);
  }

 private:
  const v1::Snapshot& before() const {
    static const v1::Snapshot kNothing;
    return from_.picture == nullptr ? kNothing : *from_.picture;
  }
  const v1::Snapshot& now() const { return *to_.picture; }
  static uint32_t PeakOf(const Sample& sample, uint32_t generation) {
    const auto found = sample.peaks.find(generation);
    return found == sample.peaks.end() ? 0 : found->second;
  }

  // Those of a back-end are always the same ones.
  void AddQueues() {
    for (int i = 0; i < now().queues_size(); ++i) {
      const uint32_t kernels =
          i < before().queues_size() ? before().queues(i).kernels() : 0;
      if (now().queues(i).kernels() != kernels) {
        *message_.add_queues() = now().queues(i);
      }
    }
  }
  void AddPaths() {
    for (int i = 0; i < now().launch_paths_size(); ++i) {
      if (i >= before().launch_paths_size() ||
          !Same(before().launch_paths(i), now().launch_paths(i))) {
        *message_.add_launch_paths() = now().launch_paths(i);
      }
    }
  }

  void AddDevices() {
    for (const v1::Device& device : before().devices()) {
      if (Find(now().devices(), KeyOf(device)) == nullptr) {
        message_.add_devices_gone(KeyOf(device));
      }
    }
    for (const v1::Device& device : now().devices()) {
      const v1::Device* const last = Find(before().devices(), KeyOf(device));
      if (last == nullptr || !SameDevice(*last, device)) {
        *message_.add_devices() = device;
      }
    }
    for (const v1::DeviceFigures& figures : now().device_figures()) {
      AddFigures(Find(before().device_figures(), KeyOf(figures)), figures);
    }
  }
  void AddFigures(const v1::DeviceFigures* last, const v1::DeviceFigures& now) {
    v1::DeviceFigures changed;
    for (int i = 0; i < now.value_size(); ++i) {
      if (last != nullptr && last->value(i) == now.value(i)) continue;
      changed.add_counter(now.counter(i));
      changed.add_value(now.value(i));
    }
    if (to_.histograms != from_.histograms) {
      AddChanged(
          from_.histograms == nullptr ? nullptr : &from_.histograms->of_device,
          to_.histograms->of_device, now.device_id(),
          changed.mutable_histograms());
    }
    if (last != nullptr && last->silent_since_ns() == now.silent_since_ns() &&
        changed.value_size() == 0 && changed.histograms_size() == 0) {
      return;
    }
    changed.set_device_id(now.device_id());
    changed.set_silent_since_ns(now.silent_since_ns());
    *message_.add_device_figures() = std::move(changed);
  }

  void AddEventKernels() {
    for (const v1::SnapshotEventKernel& event : before().event_kernels()) {
      if (FindSame(now(), event) == nullptr) {
        message_.add_event_kernels_gone(KeyOf(event));
      }
    }
    for (const v1::SnapshotEventKernel& event : now().event_kernels()) {
      const v1::SnapshotEventKernel* const last = FindSame(before(), event);
      if (last == nullptr || !Same(*last, event)) {
        *message_.add_event_kernels() = event;
      }
      const auto* const figures = Find(now().ring_figures(), KeyOf(event));
      if (figures == nullptr) continue;
      AddFigures(last == nullptr ? nullptr
                                 : Find(before().ring_figures(), KeyOf(event)),
                 *figures, event.ring().generation());
    }
  }
  void AddFigures(const v1::RingFigures* last, const v1::RingFigures& now,
                  uint32_t generation) {
    const uint32_t peak = PeakOf(to_, generation);
    Histograms stages;
    if (to_.histograms != from_.histograms) {
      AddChanged(
          from_.histograms == nullptr ? nullptr : &from_.histograms->of_ring,
          to_.histograms->of_ring, generation, &stages);
    }
    if (last != nullptr && Same(*last, now) && stages.empty() &&
        peak == PeakOf(from_, generation)) {
      return;
    }
    v1::RingFigures* const changed = message_.add_ring_figures();
    *changed = now;
    changed->set_peak(peak);
    changed->mutable_stages()->Swap(&stages);
  }

  const Sample& from_;
  const Sample& to_;
  v1::Snapshot message_;
};

}  // namespace

v1::Snapshot ChangesBetween(const Sample& from, const Sample& to) {
  return Difference(from, to).Take();
}

}  // namespace carillon::gpud
