// Reports what happens to blocks, warps and events, for timelines.
#ifndef CARILLON_SIM_TIMING_OBSERVER_H_
#define CARILLON_SIM_TIMING_OBSERVER_H_

#include <cstdint>
#include <functional>

#include "sim/timing/config.h"

namespace carillon::sim::timing {

struct Observation {
  enum class What : uint8_t {
    kBlockStart,
    kBlockEnd,
    kWarpStart,
    kWarpEnd,
    kEventArrive,    // at the TB scheduler, or at an SM's table
    kEventSelect,    // a victim, in `slot`
    kEventFlush,     // the victims' pipelines are empty
    kEventLaunch,    // its first warp
    kEventRestore,   // a victim goes on, in `slot`
    kEventComplete,  // with its grid
  };
  static constexpr uint32_t kNowhere = ~uint32_t{0};

  Cycle cycle = 0;
  uint64_t grid = 0;
  What what = What::kBlockStart;
  uint32_t sm = kNowhere;
  uint32_t slot = kNowhere;  // the warp's; a block has its own
};
// Names it: "block start", "event arrive".
const char* NameOf(Observation::What what);

// It must not call the Gpu. May be empty.
using Observer = std::function<void(const Observation&)>;

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_OBSERVER_H_
