// Chooses the warp that a scheduler issues from.
#ifndef CARILLON_SIM_TIMING_SCHEDULER_H_
#define CARILLON_SIM_TIMING_SCHEDULER_H_

#include <bit>
#include <cstdint>

#include "sim/timing/config.h"
#include "sim/timing/warp_context.h"

namespace carillon::sim::timing {

// The first bit after `last`, wrapping around.
inline uint32_t NextInTurn(WarpMask mask, uint32_t last) {
  const WarpMask after = last >= 63 ? 0 : mask & (~WarpMask{0} << (last + 1));
  return static_cast<uint32_t>(std::countr_zero(after != 0 ? after : mask));
}

class Scheduler {
 public:
  // `of` is the set of its warps' slots.
  Scheduler(SchedulerPolicy policy, WarpMask of) : policy_(policy), of_(of) {}

  WarpMask of() const { return of_; }

  // Chooses one of `ready`, which must not be empty.
  uint32_t Choose(WarpMask ready, const SmWarps& warps) {
    for (const WarpMask of_class : warps.of_class) {
      if ((ready & of_class) == 0) continue;
      ready &= of_class;
      break;
    }
    if (policy_ == SchedulerPolicy::kLrr) {
      last_ = NextInTurn(ready, last_);
    } else if ((ready >> last_ & 1) == 0 ||
               warps.slots[last_].generation != generation_) {
      last_ = Oldest(ready, warps);
      generation_ = warps.slots[last_].generation;
    }
    return last_;
  }

 private:
  static uint32_t Oldest(WarpMask ready, const SmWarps& warps) {
    auto oldest = static_cast<uint32_t>(std::countr_zero(ready));
    for (WarpMask left = ready & (ready - 1); left != 0; left &= left - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(left));
      if (warps.slots[slot].age < warps.slots[oldest].age) oldest = slot;
    }
    return oldest;
  }

  SchedulerPolicy policy_;
  WarpMask of_;
  uint32_t last_ = 63;
  uint32_t generation_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_SCHEDULER_H_
