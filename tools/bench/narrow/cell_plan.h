// What `bench narrow` is to measure: checks its options, chooses among the paths
// that a back-end has, and makes the cells and the workloads that they run.
#ifndef CARILLON_TOOLS_BENCH_NARROW_CELL_PLAN_H_
#define CARILLON_TOOLS_BENCH_NARROW_CELL_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/bench_main.h"
#include "tools/bench/narrow/cells.h"
#include "tools/bench/narrow/narrow_run.h"
#include "tools/bench/narrow/on_driver.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

inline constexpr std::string_view kThreadsPath = "threads";

// A path of whichever back-end, and how a gpud runs it.
struct NarrowPath {
  std::string_view name;
  std::string_view launch_path = {};  // gpud must have it; empty: none runs it
  bool batches = false;
};
inline constexpr NarrowPath kNarrowPaths[] = {
    {"baseline", "baseline"},
    {"edge", "edge"},
    {"graph", "graph"},
    {"pagoda", "pagoda"},
    {"pagoda_copy"},
    {"pagoda_ring", "pagoda_ring"},
    {kHyperQ},
    {kFusion},
    {"batches", "edge", true},
    {"pagoda_batches", "pagoda", true},
    {kThreadsPath}};

class CellPlan {
 public:
  // Of a workload: its name, its tasks' threads and sizes.
  using Key = std::tuple<std::string, uint32_t, kernels::NarrowSizes>;
  static Key KeyOf(const NarrowCell& cell);

  // Both must outlive it.
  CellPlan(const BenchRun& run, const NarrowOptions& options)
      : run_(run), options_(options) {}

  // Comes first. Errors: InvalidArgument, NotFound (workload).
  absl::Status CheckOptions();
  // Of a back-end, the report's, that has these paths. Errors: NotFound (path),
  // InvalidArgument (nothing to measure).
  absl::Status MakeCells(std::vector<std::string> paths);

  // What has run is noted there.
  NarrowReport& report() { return report_; }
  const std::map<Key, NarrowWorkload>& workloads() const { return workloads_; }
  const NarrowWorkload& WorkloadOf(const NarrowCell& cell) const {
    return workloads_.at(KeyOf(cell));
  }

 private:
  bool simulated() const { return report_.simulated(); }
  bool cuda() const { return report_.backend == "cuda"; }
  bool Wants(std::string_view part) const;
  bool HasPart(std::string_view part) const;
  absl::Status ChoosePaths(std::vector<std::string> all);
  std::vector<std::string> PathsOf(std::string_view part) const;
  std::vector<std::string> Compared(bool with_fusion) const;
  absl::Status AddWorkload(std::string_view part, const std::string& name,
                           uint32_t threads = 0);
  void AddCells(std::string_view part, const std::string& workload,
                const std::vector<std::string>& paths, uint32_t threads = 0);
  absl::Status AddThreads();

  const BenchRun& run_;
  const NarrowOptions& options_;
  NarrowReport report_;
  std::map<Key, NarrowWorkload> workloads_;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_CELL_PLAN_H_
