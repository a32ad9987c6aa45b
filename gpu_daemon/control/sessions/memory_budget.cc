#include "gpu_daemon/control/sessions/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {

absl::StatusOr<MemoryBudget::Reservation> MemoryBudget::Reserve(
    uint64_t bytes, std::string_view what) {
  MutexLock lock(mutex_);
  const uint64_t left = total_ - used_;
  if (bytes > left) {
    return Error(absl::StatusCode::kResourceExhausted,
                 fmt::format("{} needs {} bytes: {} of the testbed's {} are "
                             "left; ask for less, free something, or start "
                             "gpud with a larger --memory",
                             what, bytes, left, total_),
                 reason::kMemoryBudget, what, "gpud --memory BYTES");
  }
  used_ += bytes;
  return Reservation(this, bytes);
}

uint64_t MemoryBudget::used() const {
  MutexLock lock(mutex_);
  return used_;
}

void MemoryBudget::Release(uint64_t bytes) {
  MutexLock lock(mutex_);
  used_ -= bytes;
}

uint64_t DefaultMemoryBudget() {
  constexpr uint64_t kMaxDefault = uint64_t{4} << 30;
  constexpr uint64_t kUnknown = uint64_t{512} << 20;
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kilobytes = 0;
  std::string unit;
  while (meminfo >> name >> kilobytes) {
    if (name == "MemAvailable:")
      return std::min(kMaxDefault, kilobytes * 1024 / 2);
    std::getline(meminfo, unit);
  }
  return kUnknown;
}

}  // namespace carillon::gpud
