// How long to look for work before going to sleep.
#ifndef CARILLON_SHM_SPIN_BUDGET_H_
#define CARILLON_SHM_SPIN_BUDGET_H_

#include <algorithm>

#include "base/clock.h"
#include "shm/types.h"

namespace carillon::shm {

// Learns from the waits that ended in a sleep, as KVM's halt polling does: a
// sleep that was over before `most` would better have been spent spinning, a
// longer one shows that spinning is in vain. Who is idle spins for no time.
class SpinBudget {
 public:
  explicit SpinBudget(Nanoseconds most) : most_(most) {}

  Nanoseconds budget() const { return budget_; }

  // A wait has ended that took `waited` in all: spin and sleep.
  void Slept(Nanoseconds waited) {
    if (waited > most_) {
      budget_ = budget_ / 2 < kLeast ? 0 : budget_ / 2;
    } else {
      budget_ = std::min(most_, std::max(kLeast, budget_ * 2));
    }
  }

 private:
  static constexpr Nanoseconds kLeast = 4000;
  const Nanoseconds most_;
  Nanoseconds budget_ = 0;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_SPIN_BUDGET_H_
