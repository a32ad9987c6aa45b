// Events ordered by the cycle in which they are due: a calendar queue.
#ifndef CARILLON_SIM_TIMING_EVENT_WHEEL_H_
#define CARILLON_SIM_TIMING_EVENT_WHEEL_H_

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/timing/config.h"

namespace carillon::sim::timing {

// Events of one cycle come out in the order in which they went in. Allocates
// only while more events are under way than ever before.
template <class Event>
class EventWheel {
 public:
  EventWheel() { heads_.fill(kNone); }

  // `at` must be later than the cycle of the last Advance().
  void Schedule(Cycle at, const Event& event) {
    const uint32_t node = NewNode();
    nodes_[node].event = event;
    nodes_[node].at = at;
    Append(at % kBuckets, node);
    ++size_;
  }

  // Calls handle(event) for all that are due at `now`; it may schedule more.
  // Must be called for every cycle that next() names.
  template <class Handle>
  void Advance(Cycle now, Handle handle) {
    const size_t bucket = now % kBuckets;
    uint32_t node = heads_[bucket];
    if (node == kNone) return;
    heads_[bucket] = kNone;
    Unmark(bucket);
    while (node != kNone) {
      const uint32_t next = nodes_[node].next;
      if (nodes_[node].at != now) {
        Append(bucket, node);  // a later turn of the wheel
      } else {
        const Event event = nodes_[node].event;
        nodes_[node].next = free_;
        free_ = node;
        --size_;
        handle(event);
      }
      node = next;
    }
  }

  // Whether Advance(now) may have something to do.
  bool MayBeDue(Cycle now) const { return heads_[now % kBuckets] != kNone; }
  // The next cycle after `now` in which an event may be due; kNever if there
  // are none.
  Cycle next(Cycle now) const {
    if (size_ == 0) return kNever;
    const size_t first = (now + 1) % kBuckets;
    uint64_t word = marks_[first / 64] >> (first % 64);
    if (word != 0) return now + 1 + static_cast<Cycle>(std::countr_zero(word));
    for (size_t i = 1; i <= kWords; ++i) {
      const size_t at = (first / 64 + i) % kWords;
      if (marks_[at] == 0) continue;
      const size_t bucket =
          at * 64 + static_cast<size_t>(std::countr_zero(marks_[at]));
      return now + 1 + (bucket + kBuckets - first) % kBuckets;
    }
    return kNever;
  }

  size_t size() const { return size_; }

 private:
  static constexpr size_t kBuckets = 1024;
  static constexpr size_t kWords = kBuckets / 64;
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Node {
    Event event{};
    Cycle at = 0;
    uint32_t next = kNone;
  };

  uint32_t NewNode() {
    if (free_ == kNone) {
      nodes_.emplace_back();
      return static_cast<uint32_t>(nodes_.size() - 1);
    }
    const uint32_t node = free_;
    free_ = nodes_[node].next;
    return node;
  }
  void Append(size_t bucket, uint32_t node) {
    nodes_[node].next = kNone;
    if (heads_[bucket] == kNone) {
      heads_[bucket] = node;
      marks_[bucket / 64] |= uint64_t{1} << (bucket % 64);
    } else {
      nodes_[tails_[bucket]].next = node;
    }
    tails_[bucket] = node;
  }
  void Unmark(size_t bucket) {
    marks_[bucket / 64] &= ~(uint64_t{1} << (bucket % 64));
  }

  std::vector<Node> nodes_;
  uint32_t free_ = kNone;
  size_t size_ = 0;
  std::array<uint32_t, kBuckets> heads_;
  std::array<uint32_t, kBuckets> tails_{};
  std::array<uint64_t, kWords> marks_{};
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_EVENT_WHEEL_H_
