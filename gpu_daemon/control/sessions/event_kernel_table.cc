#include "gpu_daemon/control/sessions/event_kernel_table.h"

#include <algorithm>

#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {

EventCounts operator+(const EventCounts& a, const EventCounts& b) {
  return {.rung = a.rung + b.rung,
          .done = a.done + b.done,
          .failed = a.failed + b.failed,
          .aborted = a.aborted + b.aborted,
          .refused = a.refused + b.refused};
}

absl::StatusOr<EventKernelTable::Slot> EventKernelTable::Reserve() {
  MutexLock lock(mutex_);
  const auto free = std::find_if(entries_.begin(), entries_.end(),
                                 [](const Entry& e) { return !e.taken; });
  if (free == entries_.end()) return Full();
  free->taken = true;
  return Slot(this, static_cast<uint32_t>(free - entries_.begin()));
}

absl::Status EventKernelTable::Full() const {
  return Error(absl::StatusCode::kResourceExhausted,
               fmt::format("the event kernel table is full: all {} entries "
                           "are taken; unregister an event kernel or start "
                           "gpud with more --ekt-entries (at most {})",
                           capacity_, shm::kMaxDoorbells),
               reason::kEktFull, "ekt_entries", "carillon ekt");
}

void EventKernelTable::Slot::Fill(std::shared_ptr<EventKernel> event) {
  MutexLock lock(table_->mutex_);
  table_->entries_[index_].event = std::move(event);
}

void EventKernelTable::Release(uint32_t index) {
  std::shared_ptr<EventKernel> event;  // may free memory: not under the lock
  MutexLock lock(mutex_);
  Entry& entry = entries_[index];
  if (entry.event != nullptr) retired_ = retired_ + entry.event->counts();
  event = std::move(entry.event);
  entry = {};
}

uint32_t EventKernelTable::used() const {
  MutexLock lock(mutex_);
  return static_cast<uint32_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [](const Entry& e) { return e.taken; }));
}

std::vector<std::shared_ptr<EventKernel>> EventKernelTable::events() const {
  std::vector<std::shared_ptr<EventKernel>> events;
  MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.event != nullptr) events.push_back(entry.event);
  }
  return events;
}

EventCounts EventKernelTable::totals() const {
  MutexLock lock(mutex_);
  EventCounts totals = retired_;
  for (const Entry& entry : entries_) {
    if (entry.event != nullptr) totals = totals + entry.event->counts();
  }
  return totals;
}

}  // namespace carillon::gpud
