// The lanes of a warp, and where they have a value.
#ifndef CARILLON_SIM_EXEC_SLOT_H_
#define CARILLON_SIM_EXEC_SLOT_H_

#include <cstdint>

namespace carillon::sim {

inline constexpr uint32_t kLanes = 32;  // per warp
// Bit i is lane i.
using LaneMask = uint32_t;
inline constexpr LaneMask kAllLanes = ~LaneMask{0};

// 32 values, one per lane, in the registers of a function's frame or among the
// program's constants. A predicate is one LaneMask.
class Slot {
 public:
  constexpr Slot() = default;
  static constexpr Slot Register(uint32_t byte) { return Slot(byte); }
  static constexpr Slot Constant(uint32_t byte) { return Slot(byte | kBit); }

  constexpr bool is_constant() const { return (bits_ & kBit) != 0; }
  constexpr uint32_t byte() const { return bits_ & ~kBit; }
  bool operator==(const Slot&) const = default;

 private:
  static constexpr uint32_t kBit = 1u << 31;
  constexpr explicit Slot(uint32_t bits) : bits_(bits) {}
  uint32_t bits_ = kBit;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_SLOT_H_
