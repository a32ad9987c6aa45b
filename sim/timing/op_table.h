// What each operation costs, computed once for a program.
#ifndef CARILLON_SIM_TIMING_OP_TABLE_H_
#define CARILLON_SIM_TIMING_OP_TABLE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/exec/program.h"
#include "sim/timing/config.h"

namespace carillon::sim::timing {

enum class Unit : uint8_t { kNone, kSp, kDp, kSfu, kTensor, kMemory };
inline constexpr size_t kUnits = 6;

// What issuing it involves besides its unit.
enum class OpKind : uint8_t {
  kArithmetic,
  kControl,  // branches, calls, returns
  kExit,
  kBarrier,
  kFence,
  kSleep,
  kLoad,
  kStore,
  kAtomic,
  kCommitCopies,  // cp.async.commit_group
  kAwaitCopies,   // waits until few enough copies are under way
};

struct OpTiming {
  Unit unit = Unit::kNone;
  OpKind kind = OpKind::kArithmetic;
  bool past_l1 = false;  // volatile and its like: memory's value, not L1's
  bool copies = false;   // a load into shared memory
  // Of kAwaitCopies: the groups that it does not wait for, or kCopyWaitAll.
  uint8_t groups = 0;
  uint8_t writes = 0;  // the first of places
  uint8_t places_used = 0;
  uint16_t latency = 1;   // cycles from issue to write-back, or to the LSU
  uint16_t interval = 1;  // cycles that the unit is taken
  // Scoreboard places: of the registers that it writes, then of those that it
  // reads.
  // mma.m16n8k16 of f64 has the most.
  std::array<uint16_t, 42> places{};
};

// Errors: Internal (an operation with more registers than there are places).
absl::StatusOr<std::vector<OpTiming>> BuildOpTable(const Program& program,
                                                   const Config& config);

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_OP_TABLE_H_
