// A kernel on the simulated GPU as CFG-Sim sees it: its graphs, how often each
// branch is taken, and how many lanes really were active.
#ifndef CARILLON_TOOLS_CFG_SIM_PROFILE_H_
#define CARILLON_TOOLS_CFG_SIM_PROFILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/exec/functional.h"
#include "sim/exec/program.h"
#include "tools/cfg_sim/graph.h"
#include "tools/cfg_sim/walk.h"

namespace carillon::cfg_sim {

// What the branches of a graph are taken to do.
enum class View {
  kEqual,      // all ways alike: the thesis's "pessimistic"
  kAugmented,  // the same, without the ways that were never taken
  kMeasured,
  kByVisit,  // measured, for each time that a lane comes to the branch
};

// Counts what a kernel's warps do. Not thread safe.
class Profile {
 public:
  // The program must outlive it.
  explicit Profile(const sim::Program* program);

  // For FunctionalGpu::Options::observer.
  void Observe(const sim::Warp& warp);

  // The kernel's graph, and those of the functions that it calls. Errors:
  // Unimplemented (calls by address).
  absl::StatusOr<std::vector<Graph>> Graphs(const sim::ProgramFunction& kernel,
                                            View view) const;
  // What was observed, of whole warps.
  Activity Measured() const;

 private:
  struct Count {
    uint64_t reached = 0;  // by lanes
    uint64_t done = 0;     // whose guard was true
  };
  // How often each lane of a warp has come to each branch.
  struct Visits {
    uint64_t block = 0;
    std::map<sim::Pc, std::array<uint32_t, kLanes>> of;
  };
  struct OfWarp {
    uint64_t instructions = 0;
    uint64_t of_lanes = 0;
  };
  Graph GraphOf(uint32_t function, View view,
                std::map<uint32_t, uint32_t>& indices) const;

  const sim::Program* const program_;
  std::vector<Count> counts_;                              // of each operation
  std::map<sim::Pc, std::vector<Count>> by_visit_;         // of branches
  std::map<const sim::Warp*, Visits> visits_;              // of those that run
  std::map<std::pair<uint64_t, uint32_t>, OfWarp> warps_;  // by block and warp
  std::array<uint64_t, kLanes + 1> with_lanes_{};
};

}  // namespace carillon::cfg_sim

#endif  // CARILLON_TOOLS_CFG_SIM_PROFILE_H_
