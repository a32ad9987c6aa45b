// What is known of each kernel's blocks from those that have ended, and what it
// says of one that runs (PEP 3.2, Chimera).
#ifndef CARILLON_SIM_TIMING_PREEMPT_BLOCK_PROFILES_H_
#define CARILLON_SIM_TIMING_PREEMPT_BLOCK_PROFILES_H_

#include <algorithm>
#include <cstdint>
#include <map>

#include "sim/exec/program.h"
#include "sim/timing/config.h"

namespace carillon::sim::timing {

// Means over so many of a kernel's blocks; 0: not known.
struct BlockProfile {
  Cycle cycles = 0;  // from its start to its end
  uint64_t instructions = 0;
  uint64_t blocks = 1;
};

class BlockProfiles {
 public:
  // From now on the kernel's means are these, together with what Add() says.
  void Set(const ProgramFunction* kernel, const BlockProfile& profile) {
    sums_[kernel] = {
        .cycles = profile.cycles * profile.blocks,
        .instructions = profile.instructions * profile.blocks,
        .timed = profile.cycles == 0 ? 0 : profile.blocks,
        .counted = profile.instructions == 0 ? 0 : profile.blocks};
  }
  // A block has ended.
  void Add(const ProgramFunction* kernel, Cycle cycles, uint64_t instructions) {
    Sums& sums = sums_[kernel];
    sums.cycles += cycles;
    sums.instructions += instructions;
    ++sums.timed;
    ++sums.counted;
  }
  BlockProfile Of(const ProgramFunction* kernel) const {
    const auto found = sums_.find(kernel);
    if (found == sums_.end()) return {};
    const Sums& sums = found->second;
    return {sums.timed == 0 ? 0 : sums.cycles / sums.timed,
            sums.counted == 0 ? 0 : sums.instructions / sums.counted,
            std::max(sums.timed, sums.counted)};
  }

  // How long a block still takes that has run so long: what is left of the mean
  // time. kNever: nothing is known.
  Cycle LeftByTime(const ProgramFunction* kernel, Cycle ran) const {
    const BlockProfile profile = Of(kernel);
    if (profile.cycles == 0) return kNever;
    return profile.cycles > ran ? profile.cycles - ran : 0;
  }
  // The same by Chimera's rule: what is left of the mean count of instructions,
  // times the cycles that the block has taken for each so far.
  Cycle LeftByInstructions(const ProgramFunction* kernel, Cycle ran,
                           uint64_t instructions) const {
    const BlockProfile profile = Of(kernel);
    if (profile.instructions == 0 || instructions == 0) return kNever;
    if (profile.instructions <= instructions) return 0;
    return (profile.instructions - instructions) * ran / instructions;
  }

 private:
  struct Sums {
    Cycle cycles = 0;
    uint64_t instructions = 0;
    uint64_t timed = 0;  // blocks
    uint64_t counted = 0;
  };
  std::map<const ProgramFunction*, Sums> sums_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_PREEMPT_BLOCK_PROFILES_H_
