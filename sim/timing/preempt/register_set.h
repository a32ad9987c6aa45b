// A set of a warp's physical registers: the dirty bits of PEP, one a register.
#ifndef CARILLON_SIM_TIMING_PREEMPT_REGISTER_SET_H_
#define CARILLON_SIM_TIMING_PREEMPT_REGISTER_SET_H_

#include <array>
#include <bit>
#include <cstdint>

#include "sim/timing/op_table.h"
#include "sim/timing/scoreboard.h"

namespace carillon::sim::timing {

class RegisterSet {
 public:
  // Adds those that the operation writes, of a warp that has so many. Registers
  // of 32 and of 64 bits have places of their own, more together than are live
  // at once, so that several places share a register. Predicates are not among
  // them: they are part of a warp's control state (preemption.control_lines).
  void AddWrites(const OpTiming& op, uint32_t registers) {
    for (uint32_t i = 0; i < op.writes; ++i) {
      const uint16_t place = op.places[i];
      if (place < Scoreboard::kRegisters) Add(place % registers);
    }
  }
  void AddFirst(uint32_t count) {
    for (uint32_t i = 0; i < count && i < Scoreboard::kRegisters; ++i) Add(i);
  }
  void AddAll(const RegisterSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  uint32_t count() const {
    int count = 0;
    for (const uint64_t word : words_) count += std::popcount(word);
    return static_cast<uint32_t>(count);
  }
  bool operator==(const RegisterSet&) const = default;

 private:
  void Add(uint32_t place) { words_[place / 64] |= uint64_t{1} << place % 64; }

  std::array<uint64_t, Scoreboard::kRegisters / 64> words_{};
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_PREEMPT_REGISTER_SET_H_
