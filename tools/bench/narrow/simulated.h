// Narrow tasks on a simulated GPU in simulated time: on what they are launched, how
// their data come and go, and what the host needs for it (docs/benchmarks.md).
#ifndef CARILLON_TOOLS_BENCH_NARROW_SIMULATED_H_
#define CARILLON_TOOLS_BENCH_NARROW_SIMULATED_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/timing/config.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

struct SimulatedOptions {
  sim::timing::Config config;
  bool copies = false;
  // Of the host's one thread.
  double call_us = 5;  // a call of the driver: a launch, a copy
  double store_us =
      0.5;  // a task's entry, or an event's, and a doorbell: stores
  // A read of the host's memory by a warp, as of a doorbell or an entry
  // (pagoda_ring).
  double host_read_us = 1;
  // After so long Pagoda's host releases its last task, and does not trust what it
  // knows of the table any more. The paper's 30 ms and 10 ms are longer than these
  // runs.
  double empty_update_us = 50;
  double copy_back_us = 20;
  uint32_t batch = 128;  // tasks of a batch
  // Asked now and then; an error ends the run.
  std::function<absl::Status()> may_go_on = [] { return absl::OkStatus(); };
};

// The paths that a simulated GPU has, in the order of the tables.
const std::vector<std::string>& SimulatedPaths();

// A preset, or a file of its keys. Errors: those of sim::timing::LoadConfig().
// Unimplemented: this program was built without a simulated GPU.
absl::StatusOr<sim::timing::Config> LoadSimulatedGpu(const std::string& timing);

// Runs all tasks on one path and checks their results. Errors: NotFound (no such
// path), DataLoss (a wrong result), those of what executes.
absl::StatusOr<NarrowOutcome> RunSimulated(const NarrowWorkload& workload,
                                           std::string_view path,
                                           const SimulatedOptions& options);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_SIMULATED_H_
