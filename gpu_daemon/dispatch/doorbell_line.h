// A line of 32 doorbells of one device, compared as vectors with what they have
// shown before.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_DOORBELL_LINE_H_
#define CARILLON_GPU_DAEMON_DISPATCH_DOORBELL_LINE_H_

#include <array>
#include <cstdint>
#include <memory>

#include "gpu_daemon/event/event_kernel.h"
#include "shm/layout.h"

namespace carillon::gpud {

// One thread at a time.
class DoorbellLine {
 public:
  static constexpr uint32_t kDoorbells = shm::kDoorbellsPerLine;

  // The line with the event kernel's doorbell, which it does not have yet.
  explicit DoorbellLine(const EventKernel& event)
      : memory_(&event.memory()), doorbells_(FirstOf(event)) {}

  // Of an event kernel's line.
  static const uint32_t* FirstOf(const EventKernel& event) {
    return &event.memory()
                .submission()
                .doorbells()[event.event_id() - IndexOf(event)];
  }
  // In its line.
  static uint32_t IndexOf(const EventKernel& event) {
    return event.event_id() % kDoorbells;
  }

  const uint32_t* first() const { return doorbells_; }
  const DeviceMemory* memory() const { return memory_; }
  // Null where no event kernel is.
  const std::shared_ptr<EventKernel>& event(uint32_t index) const {
    return events_[index];
  }
  bool empty() const { return registered_ == 0; }
  bool Has(const EventKernel& event) const {
    return events_[IndexOf(event)].get() == &event;
  }

  // To be looked at next time, whatever its doorbell shows.
  void Add(const std::shared_ptr<EventKernel>& event);
  void Remove(uint32_t index);
  void MarkRung(uint32_t index) { marked_ |= 1u << index; }
  // The event kernel was looked at, when its doorbell showed this; to be looked
  // at again next time if it has `more`.
  void Looked(uint32_t index, uint32_t shown, bool more);

  // A bit for each event kernel to look at: its doorbell has changed, or it was
  // marked. It is a hint, whose reads are no atomic ones: it may come late by a
  // look, and what it says is judged by DoorbellCursor, which loads the doorbell
  // itself.
  uint32_t Changed() const;
  // Whether any event kernel has rings that were not launched, by atomic reads:
  // the sleeper's second look (shm/waiting.h).
  bool AnyRung() const;

 private:
  // As a vector unit that every x86-64 and aarch64 has takes them.
  static constexpr uint32_t kWide = 4;
  typedef uint32_t Words
      __attribute__((vector_size(kWide * sizeof(uint32_t)), may_alias));

  const DeviceMemory* const memory_;
  const uint32_t* const doorbells_;  // writer: the device
  alignas(Words) std::array<uint32_t, kDoorbells> shown_{};
  uint32_t registered_ = 0;  // a bit each
  uint32_t marked_ = 0;
  std::array<std::shared_ptr<EventKernel>, kDoorbells> events_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_DOORBELL_LINE_H_
