// `carillon bench narrow`: Pagoda's narrow tasks (TOPC'19, Figs. 6 to 11) on all
// paths that a back-end has.
#ifndef CARILLON_TOOLS_BENCH_NARROW_NARROW_RUN_H_
#define CARILLON_TOOLS_BENCH_NARROW_NARROW_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/bench_main.h"

namespace carillon::bench {

struct NarrowOptions {
  std::string backend = "cpu";         // or auto, sim, cuda
  std::vector<std::string> paths;      // empty: all
  std::vector<std::string> workloads;  // empty: all
  std::vector<std::string> parts;      // empty: all of NarrowParts()
  uint32_t tasks = 256;                // of a workload; fewer with `quick`
  uint32_t batch = 128;
  std::string timing = "gtx980";
  double call_us = 5;
  double store_us = 0.5;
  // Pagoda's thresholds (4.2).
  double empty_update_us = 50;
  double copy_back_us = 20;
};

// tasks: what they take. copies: with their data's way there and back. irregular:
// tasks of many sizes (Figs. 8, 9). threads: by the number of a task's threads. The
// cpu back-end has the first only.
const std::vector<std::string>& NarrowParts();

// Errors: NotFound (workload, path), InvalidArgument (0 tasks),
// FailedPrecondition (no gpud, no driver; no such configuration), Cancelled. A
// cell that fails is in the result, whose status says so: Internal, or DataLoss
// (a wrong result).
absl::StatusOr<BenchResult> RunNarrow(const BenchRun& run,
                                      const NarrowOptions& options);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_NARROW_RUN_H_
