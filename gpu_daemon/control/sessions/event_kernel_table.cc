#include "gpu_daemon/control/sessions/event_kernel_table.h"

#include <utility>

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
  const auto free = numbers_.LowestFree();
  if (!free) return Full();
  numbers_.Take(*free);
  return Slot(this, *free);
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
  table_->entries_[index_] = std::move(event);
}

void EventKernelTable::Release(uint32_t index) {
  std::shared_ptr<EventKernel> event;  // may free memory: not under the lock
  MutexLock lock(mutex_);
  event = std::exchange(entries_[index], nullptr);
  if (event != nullptr) retired_ = retired_ + event->counts();
  numbers_.GiveBack(index);
}

uint32_t EventKernelTable::used() const {
  MutexLock lock(mutex_);
  return numbers_.used();
}

std::vector<std::shared_ptr<EventKernel>> EventKernelTable::events() const {
  std::vector<std::shared_ptr<EventKernel>> events;
  MutexLock lock(mutex_);
  for (const auto& event : entries_) {
    if (event != nullptr) events.push_back(event);
  }
  return events;
}

EventCounts EventKernelTable::totals() const {
  MutexLock lock(mutex_);
  EventCounts totals = retired_;
  for (const auto& event : entries_) {
    if (event != nullptr) totals = totals + event->counts();
  }
  return totals;
}

}  // namespace carillon::gpud
