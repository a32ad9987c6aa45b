// `carillon bench launch`: measures the launch paths of a back-end side by
// side.
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_LAUNCH_RUN_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_LAUNCH_RUN_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/bench_main.h"
#include "tools/bench/launch/nvml.h"
#include "tools/bench/launch/testbed.h"
#include "tools/bench/launch/workload.h"

namespace carillon::bench {

struct LaunchOptions {
  std::string backend = "auto";
  uint32_t reserved_sms = 0;       // for launch path edge
  std::vector<std::string> paths;  // empty: all that the back-end has
  std::vector<std::string> parts;  // empty: all of LaunchParts()
  // For the breakdown; 0: chosen by the back-end.
  double packets_per_second = 0;
};

// The parts: latency, idle, co_runner, background, breakdown, power.
const std::vector<std::string>& LaunchParts();

// One launch path with one workload (or one load), measured several times.
struct LaunchCell {
  std::string path;
  std::string workload;
  // At most one of these is set: the path cannot do this, or something broke.
  std::string refused;
  std::string failed;
  std::vector<Json> runs;

  bool over() const { return !refused.empty() || !failed.empty(); }
};

// Measures all parts, in rounds that go through the paths forward and back. One
// thread.
class LaunchRun {
 public:
  LaunchRun(const BenchRun& run, const LaunchOptions& options);

  // Errors: FailedPrecondition (no gpud, or it does not come up), NotFound (no
  // such path), Cancelled. A path that fails is in the result, whose status
  // says so: Internal, or DataLoss (a wrong result, a ledger that does not add
  // up).
  absl::StatusOr<BenchResult> Run();

 private:
  using Measure = std::function<absl::StatusOr<Json>(LaunchDeviceProcess&)>;
  struct Times {
    std::chrono::milliseconds latency, rate, load, idle, co_runner, background,
        batch, power;
  };
  struct Ledger {
    // The sums of what a testbed tells, by name.
    static const std::pair<const char*, uint64_t Ledger::*> kCounts[7];

    uint64_t rung = 0, done = 0, failed = 0, aborted = 0, refused = 0;
    uint64_t device_rung = 0, device_done = 0;
    uint64_t testbeds = 0, lost = 0;
    bool Balanced() const;
    Json ToJson() const;
  };

  // The CPU time of all processes that are not `foreign`.
  uint64_t MeasuredCpuNs() const;
  bool Wants(std::string_view part) const;
  absl::Status StartTestbed();
  // Adds up gpud's and the device's counts, and ends both.
  absl::Status EndTestbed();
  absl::Status ChoosePaths();

  // Opens (if `open` is not null), measures, closes, and puts the result, or
  // the reason why there is none, into the cell. After a failure it starts
  // another gpud. `alone`, if any, goes with the result. Errors: only those that
  // end the whole run.
  absl::Status MeasureCell(LaunchCell& cell, size_t round, const Json& open,
                           const Measure& measure, const Json& alone = Json());
  absl::StatusOr<Json> MeasureOnce(const Json& open, const Measure& measure,
                                   std::string* refused);
  absl::Status AfterFailure(LaunchCell& cell, const absl::Status& why);
  // Calls `body(path index, round)` in rounds that go forward and back.
  absl::Status InRounds(
      size_t rounds,
      const std::function<absl::Status(size_t path, size_t round)>& body);

  absl::Status MeasureLatency();
  absl::Status MeasureIdle();
  absl::Status MeasureCoRunners();
  absl::Status MeasureBackground();
  absl::Status MeasureBreakdown();
  absl::Status MeasurePower();
  absl::StatusOr<Json> LatencyAndRate(LaunchDeviceProcess& device);
  absl::StatusOr<double> MeanWatts(LaunchDeviceProcess& device,
                                   const Json& command, Json* result);

  Json Describe() const;
  BenchResult Summarize();
  absl::Status Verdict() const;

  const BenchRun run_;
  const LaunchOptions options_;
  const Times times_;
  std::unique_ptr<LaunchTestbed> testbed_;
  // CPU time besides the testbed's; may be null.
  std::function<uint64_t()> others_cpu_ns_;
  Json about_;
  std::vector<std::string> paths_;
  Ledger ledger_;
  std::map<std::string, int> failures_;  // failures of each path
  bool violated_ = false;
  std::unique_ptr<Nvml> nvml_;
  std::string no_power_;  // why there is no power
  uint32_t background_size_ = 0;
  double packets_per_second_ = 0;
  std::vector<LaunchCell> latency_, idle_, co_runner_, background_, breakdown_,
      power_;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_LAUNCH_RUN_H_
