// The 8 bytes in shared memory on which mbarrier instructions work (PTX ISA
// 9.7.13.15). PTX leaves their layout open; this is ours:
//
//    63   62 61    60       40 39      20 19      0
//   +-----+-+-----+-----------+----------+---------+
//   |valid|0|phase|   bytes   | expected | pending |
//   +-----+-+-----+-----------+----------+---------+
//
// Zeros, as shared memory begins, are no mbarrier. A state that an arrive
// returns is what the bytes were before.
#ifndef CARILLON_SIM_EXEC_MBARRIER_H_
#define CARILLON_SIM_EXEC_MBARRIER_H_

#include <cstdint>
#include <optional>
#include <string>

namespace carillon::sim {

class Mbarrier {
 public:
  static constexpr uint32_t kMaxCount = (1u << 20) - 1;

  // The first phase waits for `count` arrivals, 1 to kMaxCount.
  explicit Mbarrier(uint32_t count) : expected_(count), pending_(count) {}
  // Returns nothing if these are no mbarrier's bits.
  static std::optional<Mbarrier> Of(uint64_t bits);
  uint64_t bits() const;

  // Changes with each phase that completes, from false on.
  bool phase() const { return phase_; }
  uint32_t pending() const { return pending_; }

  // All return why the program must not do it, or an empty string. The phase
  // completes when no arrivals and no bytes are pending.

  // `drop`: and those arrivals are not expected in later phases. `completes`:
  // whether it may complete the phase.
  std::string Arrive(uint32_t count, bool drop, bool completes);
  // This phase also waits for so many bytes; negative ones have come.
  std::string Expect(int64_t bytes);

  // "is in an odd phase, and waits for 3 of 64 arrivals and 128 bytes".
  std::string Describe() const;

 private:
  Mbarrier() = default;
  void CompleteIfDone();

  uint32_t expected_ = 0;
  uint32_t pending_ = 0;
  int32_t bytes_ = 0;  // they may come before they are expected
  bool phase_ = false;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_MBARRIER_H_
