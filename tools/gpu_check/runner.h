// Runs the parts of gpu_check in turn, even after failures, and reports.
//
//   part   what --only chooses and the table has a line for
//   step   one process of a part, with a time limit of its own
//   state  DIR/state.json: how each step ended. It is written before and after
//          each step, so that --resume continues behind a step that crashed the
//          runner (or the machine).
//
// A step's exit code: 0 passed, kNoGpuCode no GPU, else failed. The table shows
// the last line of its stdout that begins with "finding: ": a step may print
// what it has so far, and more later. What NVIDIA's driver writes to the kernel's
// log while a step runs goes to the end of its stderr.
#ifndef CARILLON_TOOLS_GPU_CHECK_RUNNER_H_
#define CARILLON_TOOLS_GPU_CHECK_RUNNER_H_

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace carillon::gpu_check {

// There is no GPU, or no driver for it. Nothing else uses this code.
inline constexpr int kNoGpuCode = 77;
// The driver lacks a kernel or a function that only a GPU's has: a dry run's.
inline constexpr int kLacksCode = 78;

struct CheckStep {
  std::string name;  // unique in its part
  std::vector<std::string> argv;
  std::chrono::seconds limit{0};
  std::vector<std::string> environment;  // "NAME=VALUE"
  // If not empty, the reason why the step is not run. It counts as passed.
  std::string skip;
  // A dry run: the step must report that there is no GPU.
  bool expects_no_gpu = false;
  // A dry run: the step may also say what its driver lacks (kLacksCode).
  bool may_lack = false;
};

struct CheckPart {
  std::string name;
  std::string summary;
  std::vector<CheckStep> steps;
};

enum class Outcome {
  kPassed,
  kFailed,
  kTimedOut,
  kNoGpu,
  kSkipped,
  kNotRun,  // no time was left, or it was interrupted
  kLost,    // the runner ended while it ran
};
std::string_view NameOf(Outcome outcome);

struct StepResult {
  Outcome outcome = Outcome::kNotRun;
  double seconds = 0;
  std::string finding;

  bool bad() const {
    return outcome != Outcome::kPassed && outcome != Outcome::kSkipped;
  }
};

// Results by "part/step".
using Results = std::map<std::string, StepResult>;

struct RunnerOptions {
  std::string directory;            // exists
  bool resume = false;              // skip what is in the state file
  std::chrono::seconds total{540};  // the limit for all steps together
  // The time that is reserved for ending a step that exceeds its limit.
  std::chrono::milliseconds grace{2000};
  std::chrono::milliseconds kill_grace{5000};
  std::string kernel_log = "/dev/kmsg";  // where it can be read
};

// Those that are named, as PART or as PART/STEP; all if none is. Errors:
// InvalidArgument names what does not exist.
absl::StatusOr<std::vector<CheckPart>> ChooseParts(
    std::vector<CheckPart> parts, const std::vector<std::string>& only);

// Runs the parts; writes DIR/<part>.<step>.{out,err}, the state file and, after
// each step, what collected.h names, and reports progress on stderr. Call
// BlockSignalsOfRuns() first. Errors: PermissionDenied (cannot write there),
// Cancelled (interrupted). `results` is always filled in.
absl::Status RunParts(const std::vector<CheckPart>& parts,
                      const RunnerOptions& options, Results* results);

// The meaning of a step's end.
StepResult Judge(const CheckStep& step, int exit_code, bool signalled,
                 std::string_view out, std::string_view err);

// A line for each part (finding: of the first step that failed, or of its only
// step) and, under it, for each of several steps. Fits into what a
// machine that keeps only the last 12,000 characters shows.
std::string ResultTable(const std::vector<CheckPart>& parts,
                        const Results& results);

// One line with the steps that did not come to run; empty if there are none.
std::string LeftOut(const Results& results);

// 0, 1, or kNoGpuCode if every step that ran says so.
int ExitCodeOf(const Results& results);

nlohmann::json ToJson(const Results& results);
// Leaves out what it does not understand.
Results FromJson(const nlohmann::json& json);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_RUNNER_H_
