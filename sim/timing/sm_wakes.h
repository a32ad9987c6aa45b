// Which SMs are to be ticked, and when.
#ifndef CARILLON_SIM_TIMING_SM_WAKES_H_
#define CARILLON_SIM_TIMING_SM_WAKES_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/timing/config.h"

namespace carillon::sim::timing {

// Most SMs that wake do so in this cycle or in the next, so these have a bit
// each. Only the others' cycles must be searched for the first.
class SmWakes {
 public:
  explicit SmWakes(size_t sms) : soon_((sms + 63) / 64), at_(sms, kNever) {}

  // Ticks the SM in this cycle if its turn is still to come there, and otherwise
  // in the next.
  void Wake(uint32_t sm) { soon_[sm / 64] |= uint64_t{1} << (sm % 64); }
  // Ticks the SM, which is being ticked, in that cycle or in the next one if
  // that has come, unless Wake() comes after this; kNever: only then.
  void Sleep(uint32_t sm, Cycle until) {
    if (until <= now_ + 1) return Wake(sm);
    soon_[sm / 64] &= ~(uint64_t{1} << (sm % 64));
    at_[sm] = until;
    first_ = std::min(first_, until);
  }

  // Calls tick(sm) for all whose cycle has come, in the order of their numbers.
  template <class Tick>
  void Advance(Cycle now, Tick tick) {
    now_ = now;
    if (now >= first_) WakeDue();
    if (!any_soon()) return;
    for (size_t word = 0; word < soon_.size(); ++word) {
      uint64_t to_come = ~uint64_t{0};
      while ((soon_[word] & to_come) != 0) {
        const int bit = std::countr_zero(soon_[word] & to_come);
        to_come = ~uint64_t{1} << bit;
        soon_[word] &= ~(uint64_t{1} << bit);
        const auto sm =
            static_cast<uint32_t>(word * 64) + static_cast<uint32_t>(bit);
        const Cycle planned = std::exchange(at_[sm], kNever);
        stale_ |= planned != kNever && planned == first_;
        tick(sm);
      }
    }
    if (stale_ && !any_soon()) WakeDue();
  }

  // The first cycle after `now`, the last one that has passed, in which an SM is
  // to be ticked; kNever if none is.
  Cycle next(Cycle now) const { return any_soon() ? now + 1 : first_; }

 private:
  bool any_soon() const {
    return std::ranges::any_of(soon_, [](uint64_t word) { return word != 0; });
  }
  // Wakes those whose cycle has come, and finds the first of the others.
  void WakeDue() {
    first_ = kNever;
    stale_ = false;
    for (size_t sm = 0; sm < at_.size(); ++sm) {
      if (at_[sm] > now_) {
        first_ = std::min(first_, at_[sm]);
      } else {
        Wake(static_cast<uint32_t>(sm));
        at_[sm] = kNever;
      }
    }
  }

  std::vector<uint64_t> soon_;  // a bit for each SM
  std::vector<Cycle> at_;       // of each SM that sleeps; else kNever
  Cycle first_ = kNever;        // of at_, or an earlier one if stale_
  bool stale_ = false;          // that SM was woken before
  Cycle now_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_SM_WAKES_H_
