// The registers of a warp that wait for a result.
#ifndef CARILLON_SIM_TIMING_SCOREBOARD_H_
#define CARILLON_SIM_TIMING_SCOREBOARD_H_

#include <array>
#include <cstdint>

#include "sim/exec/program.h"
#include "sim/timing/op_table.h"

namespace carillon::sim::timing {

enum class Hazard : uint8_t { kNone, kRegister, kLoad };

class Scoreboard {
 public:
  // A register's bit. Two registers share one only in functions with more than
  // 448 registers of 32 bits or 64 predicates. Then one waits for the other,
  // which costs time but is never wrong, as nobody may take a bit that is
  // taken.
  static constexpr uint16_t kRegisters = 448;
  static constexpr uint16_t Place(uint16_t reg) {
    return reg >= kPredicateRegisters
               ? static_cast<uint16_t>(kRegisters +
                                       (reg - kPredicateRegisters) % 64)
               : static_cast<uint16_t>(reg % kRegisters);
  }

  // What keeps the operation from being issued.
  Hazard Check(const OpTiming& op) const {
    Hazard hazard = Hazard::kNone;
    for (uint32_t i = 0; i < op.places_used; ++i) {
      const uint16_t place = op.places[i];
      if ((pending_[place / 64] >> (place % 64) & 1) == 0) continue;
      if (loads_[place / 64] >> (place % 64) & 1) return Hazard::kLoad;
      hazard = Hazard::kRegister;
    }
    return hazard;
  }

  void Reserve(const OpTiming& op, bool load) {
    for (uint32_t i = 0; i < op.writes; ++i) {
      const uint16_t place = op.places[i];
      pending_[place / 64] |= uint64_t{1} << (place % 64);
      if (load) loads_[place / 64] |= uint64_t{1} << (place % 64);
    }
  }
  void Release(const OpTiming& op) {
    for (uint32_t i = 0; i < op.writes; ++i) {
      const uint16_t place = op.places[i];
      pending_[place / 64] &= ~(uint64_t{1} << (place % 64));
      loads_[place / 64] &= ~(uint64_t{1} << (place % 64));
    }
  }

  bool empty() const {
    uint64_t any = 0;
    for (const uint64_t word : pending_) any |= word;
    return any == 0;
  }
  void Clear() { *this = {}; }

 private:
  std::array<uint64_t, 8> pending_{};
  std::array<uint64_t, 8> loads_{};  // those of pending_ that memory delivers
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_SCOREBOARD_H_
