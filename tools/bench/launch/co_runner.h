// A program that has nothing to do with the GPU and wants a CPU for itself
// (EDGE Fig. 4a: tasks bound by computing and by memory).
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_CO_RUNNER_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_CO_RUNNER_H_

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/line_process.h"
#include "tools/bench/quiet.h"

namespace carillon::bench {

enum class CoRunnerKind { kCompute, kMemory };
std::string_view NameOf(CoRunnerKind kind);

// One for each of the CPUs that gpud may use: wherever its threads run, they
// meet one. One thread; the processes end with this object.
class CoRunners {
 public:
  // `cpus`: one co-runner each; empty: as many as there are CPUs but one, on
  // any.
  static absl::StatusOr<CoRunners> Start(CoRunnerKind kind,
                                         const std::vector<int>& cpus);
  // Makes all of them work for `time`.
  absl::Status Run(std::chrono::milliseconds time);
  // What they got done in it: steps a second, the mean of all.
  absl::StatusOr<double> StepsPerSecond();
  uint64_t CpuNs() const { return SumCpuNs(children_); }

 private:
  std::vector<LineProcess> children_;
  std::chrono::milliseconds time_{0};
};

// Plays the co-runner and returns the exit code, if these are its arguments.
std::optional<int> PlayCoRunner(int argc, char** argv);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_CO_RUNNER_H_
