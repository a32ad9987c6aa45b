// The pool of a program's constants.
#ifndef CARILLON_SIM_LOWER_CONSTANTS_H_
#define CARILLON_SIM_LOWER_CONSTANTS_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "sim/exec/aligned_bytes.h"
#include "sim/exec/program.h"

namespace carillon::sim {

// Stores each constant once. The first is 0, in every size.
class Constants {
 public:
  explicit Constants(AlignedBytes* to) : to_(to) {
    to_->Grow(kLanes * sizeof(uint64_t));
  }

  // Returns the slot of 32 equal values of 2, 4 or 8 bytes.
  Slot Value(uint32_t bytes, uint64_t value) {
    if (bytes < 8) value &= (uint64_t{1} << (8 * bytes)) - 1;
    if (value == 0) return Slot::Constant(0);
    const auto [found, added] =
        places_.try_emplace({bytes, value}, static_cast<uint32_t>(to_->size()));
    if (added) {
      to_->Grow(to_->size() + kLanes * bytes);
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        std::memcpy(to_->data() + found->second + lane * bytes, &value, bytes);
      }
    }
    return Slot::Constant(found->second);
  }
  Slot Predicate(bool value) {
    return value ? Value(4, kAllLanes) : Slot::Constant(0);
  }

 private:
  AlignedBytes* const to_;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> places_;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_LOWER_CONSTANTS_H_
