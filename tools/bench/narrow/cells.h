// What `bench narrow` has measured, and the document and tables that it makes of
// it.
#ifndef CARILLON_TOOLS_BENCH_NARROW_CELLS_H_
#define CARILLON_TOOLS_BENCH_NARROW_CELLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"
#include "tools/bench/bench_main.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/stats.h"

namespace carillon::bench {

// A workload on a path.
struct NarrowCell {
  std::string part;
  std::string workload;
  std::string path;
  uint32_t threads = 0;  // of a task; 0: as the paper has them
  // At most one of these is set.
  std::string refused;
  absl::Status failed;
  size_t tasks = 0;
  // By round, each time that it ran there.
  std::vector<std::vector<NarrowSummary>> rounds;
  NarrowOutcome last;  // without its tasks

  // All three also tell people.
  void Add(size_t round, NarrowOutcome outcome);
  void Refuse(const absl::Status& why);
  void Fail(const absl::Status& why);

  bool copies() const { return part == "copies"; }
  bool over() const { return !refused.empty() || !failed.ok(); }
  // What it measured before it was over counts for nothing.
  bool measured() const { return !over() && !rounds.empty(); }
};

// A path that the back-end lacks, or that a part of it leaves out, and why.
struct NarrowLeftOut {
  std::string path;
  std::string reason;
  std::string part = {};  // empty: all
};

struct NarrowReport {
  std::string backend;  // cpu, sim, cuda
  std::string base;     // the path that ratios are of
  // Of a cuda back-end that is not NVIDIA's (DriverOf()).
  std::string driver;
  Json conditions;
  uint32_t batch = 0;
  uint64_t seed = 0;
  std::vector<std::string> paths;
  std::vector<std::string> workloads;
  std::vector<NarrowLeftOut> left_out;
  std::vector<NarrowCell> cells;

  bool simulated() const { return backend == "sim"; }
  // The status is that of the worst cell.
  BenchResult ToResult() const;

 private:
  const NarrowCell* Find(std::string_view part, std::string_view workload,
                         std::string_view path, uint32_t threads = 0) const;
  // Of tasks a second, to the base; no runs if one of them was not measured.
  Range OverBase(const NarrowCell& cell) const;
  // Of tasks a second, or another field.
  Range Geomean(
      std::string_view part, std::string_view of, std::string_view to,
      double NarrowSummary::*field = &NarrowSummary::tasks_per_second) const;
  // Fig. 9: by how much tasks wait longer on paths that fuse them.
  void AddResponses(std::vector<Figure>& figures) const;
  Json ToJson(const NarrowCell& cell) const;
  std::vector<Figure> FiguresOf(const std::string& part) const;
  std::string Tables() const;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_CELLS_H_
