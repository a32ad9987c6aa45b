#include "gpu_daemon/backends/cuda/paths/ptb_sizes.h"

#include <algorithm>

namespace carillon::gpud::cuda {

uint32_t PtbSizes::Resident(const KernelMetadata& kmd) const {
  const BlockCost cost = CostOf(kmd.threads(), kmd.kernel->registers_per_thread,
                                kmd.total_shared());
  const uint64_t held = std::max<uint64_t>(SmOccupancy(gpu_).Capacity(cost), 1);
  return static_cast<uint32_t>(std::min(held, kmd.blocks()));
}

uint32_t PtbSizes::First(const KernelMetadata& kmd, uint32_t priority,
                         bool has_form) {
  const uint32_t resident = Resident(kmd);
  MutexLock lock(mutex_);
  uint64_t* const whole = kmd.kernel->is_users() ? &figures_.whole_users_kernel
                          : !has_form            ? &figures_.whole_barriers
                          : priority + 1 >= kPriorities
                              ? &figures_.whole_most_urgent
                          : kmd.blocks() <= resident ? &figures_.whole_all_fit
                                                     : nullptr;
  ++(whole != nullptr ? *whole : figures_.persistent);
  return whole != nullptr ? 0 : resident;
}

}  // namespace carillon::gpud::cuda
