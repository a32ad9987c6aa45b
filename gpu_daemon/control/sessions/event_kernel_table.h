// The event kernel table (EDGE III-C) as the control plane keeps it. It knows
// which entries are taken and by which event kernel, makes none, and polls none:
// registered_event.cc and the front-ends do.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_EVENT_KERNEL_TABLE_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_EVENT_KERNEL_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/control/sessions/number_pool.h"
#include "gpu_daemon/event/event_kernel.h"

namespace carillon::gpud {

// Thread safe. Must outlive its slots.
class EventKernelTable {
 public:
  // One entry, empty again when this object goes away. Move-only.
  class Slot {
   public:
    Slot() = default;
    Slot(Slot&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), index_(other.index_) {}
    Slot& operator=(Slot&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(index_, other.index_);
      return *this;
    }
    ~Slot() {
      if (table_ != nullptr) table_->Release(index_);
    }
    uint32_t index() const { return index_; }
    // Shows the event kernel in the table, and keeps its ledger in the totals
    // for ever.
    void Fill(std::shared_ptr<EventKernel> event);

   private:
    friend class EventKernelTable;
    Slot(EventKernelTable* table, uint32_t index)
        : table_(table), index_(index) {}
    EventKernelTable* table_ = nullptr;
    uint32_t index_ = 0;
  };

  // 1 to shm::kMaxDoorbells entries.
  explicit EventKernelTable(uint32_t capacity)
      : capacity_(capacity), numbers_(capacity), entries_(capacity) {}

  // The lowest free entry. Errors: ResourceExhausted EKT_FULL.
  absl::StatusOr<Slot> Reserve();
  // What Reserve() says when there is none.
  absl::Status Full() const;

  uint32_t capacity() const { return capacity_; }
  uint32_t used() const;
  // The filled entries in the order of the table.
  std::vector<std::shared_ptr<EventKernel>> events() const;
  // Over all event kernels that were ever filled in.
  EventCounts totals() const;

 private:
  void Release(uint32_t index);

  const uint32_t capacity_;
  mutable Mutex mutex_;
  NumberPool numbers_ ABSL_GUARDED_BY(mutex_);
  // Null: free, or not filled yet.
  std::vector<std::shared_ptr<EventKernel>> entries_ ABSL_GUARDED_BY(mutex_);
  EventCounts retired_ ABSL_GUARDED_BY(mutex_);  // of released entries
};

EventCounts operator+(const EventCounts& a, const EventCounts& b);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_EVENT_KERNEL_TABLE_H_
