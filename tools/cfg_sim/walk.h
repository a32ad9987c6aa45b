// CFG-Sim's walks (thesis 3.2): warps go through a control flow graph, each lane
// draws its way for itself, and a SIMT stack has diverged lanes meet at immediate
// post-dominators.
#ifndef CARILLON_TOOLS_CFG_SIM_WALK_H_
#define CARILLON_TOOLS_CFG_SIM_WALK_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/cfg_sim/graph.h"

namespace carillon::cfg_sim {

inline constexpr uint32_t kLanes = 32;

// What warps did, walked or measured.
struct Activity {
  uint64_t warps = 0;
  uint64_t instructions = 0;  // of warps
  std::array<uint64_t, kLanes + 1>
      with_lanes{};          // instructions by active lanes
  double sum_of_ratios = 0;  // of each warp's mean of active lanes to kLanes

  // Equation 3.1: a warp of few instructions counts as much as another.
  double efficiency() const {
    return warps == 0 ? 0 : sum_of_ratios / static_cast<double>(warps);
  }
};

struct WalkOptions {
  uint32_t warps = 100'000;
  uint64_t seed = 1;
  // The lanes of each warp that are active at its begin, in turn.
  std::vector<uint32_t> lanes = {kLanes};
};

// Walks through the first graph; calls go to the others. Graphs must pass
// Check(). Errors: ResourceExhausted (a walk of more than 10^7 nodes, or calls
// that nest deeper than 1000).
absl::StatusOr<Activity> Walk(std::span<const Graph> graphs,
                              const WalkOptions& options);

}  // namespace carillon::cfg_sim

#endif  // CARILLON_TOOLS_CFG_SIM_WALK_H_
