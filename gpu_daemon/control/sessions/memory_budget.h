// How much memory all devices together may take: apertures and GPU memory.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MEMORY_BUDGET_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MEMORY_BUDGET_H_

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace carillon::gpud {

// Thread safe. Must outlive its reservations.
class MemoryBudget {
 public:
  // Bytes that are taken until this object goes away. Move-only.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Reservation() {
      if (budget_ != nullptr) budget_->Release(bytes_);
    }
    uint64_t bytes() const { return bytes_; }
    // Takes over another one of the same budget, or of none.
    void Add(Reservation other) {
      if (budget_ == nullptr) budget_ = other.budget_;
      bytes_ += std::exchange(other.bytes_, 0);
    }
    // Gives back what is more than `bytes`.
    void ReduceTo(uint64_t bytes) {
      if (bytes >= bytes_) return;
      budget_->Release(bytes_ - bytes);
      bytes_ = bytes;
    }

   private:
    friend class MemoryBudget;
    Reservation(MemoryBudget* budget, uint64_t bytes)
        : budget_(budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    uint64_t bytes_ = 0;
  };

  explicit MemoryBudget(uint64_t total) : total_(total) {}

  // `what` names the use in the error. Errors: ResourceExhausted MEMORY_BUDGET,
  // naming what was asked and what is left.
  absl::StatusOr<Reservation> Reserve(uint64_t bytes, std::string_view what);

  uint64_t total() const { return total_; }
  uint64_t used() const;

 private:
  void Release(uint64_t bytes);

  const uint64_t total_;
  mutable Mutex mutex_;
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
};

// min(4 GiB, half of /proc/meminfo's MemAvailable).
uint64_t DefaultMemoryBudget();

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MEMORY_BUDGET_H_
