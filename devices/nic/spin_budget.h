// How long to look for work before going to sleep.
#ifndef CARILLON_DEVICES_NIC_SPIN_BUDGET_H_
#define CARILLON_DEVICES_NIC_SPIN_BUDGET_H_

#include <algorithm>

#include "shm/types.h"

namespace carillon::nic {

// Learns from the waits that ended in a sleep, as KVM's halt polling does: a
// sleep that was over before `most` would better have been spent spinning, a
// longer one shows that spinning is in vain. An idle NIC spins for no time.
class SpinBudget {
 public:
  explicit SpinBudget(shm::Nanoseconds most) : most_(most) {}

  shm::Nanoseconds budget() const { return budget_; }

  // A wait is over that took `waited` in all, sleep included.
  void Slept(shm::Nanoseconds waited) {
    if (waited > most_) {
      budget_ = budget_ / 2 < kLeast ? 0 : budget_ / 2;
    } else {
      budget_ = std::min(most_, std::max(kLeast, budget_ * 2));
    }
  }

 private:
  static constexpr shm::Nanoseconds kLeast = 4000;
  const shm::Nanoseconds most_;
  shm::Nanoseconds budget_ = 0;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_SPIN_BUDGET_H_
