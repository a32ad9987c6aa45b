// Runs the parts of gpu_check in turn, whatever becomes of each, and tells.
//
//   part   what --only chooses and the table has a line for
//   step   one process of a part, with a time limit of its own
//   state  DIR/state.json: how each step ended. Written before a step begins
//          and after it has ended, so that --resume goes on behind a step that
//          took the runner (or the machine) with it.
//
// A step's exit code: 0 passed, kNoGpuCode no GPU, else failed. The last line of
// its stdout that begins with "finding: " is what the table says of it.
#ifndef CARILLON_TOOLS_GPU_CHECK_RUNNER_H_
#define CARILLON_TOOLS_GPU_CHECK_RUNNER_H_

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace carillon::gpu_check {

// There is no GPU, or no driver for it: by no other way of ending.
inline constexpr int kNoGpuCode = 77;

struct Step {
  std::string name;  // unique in its part
  std::vector<std::string> argv;
  std::chrono::seconds limit{0};
  std::vector<std::pair<std::string, std::string>> environment;
  // Not empty: why it is not run. It counts as passed.
  std::string skip;
  // A dry run: it must say that there is no GPU, and nothing else.
  bool expects_no_gpu = false;
};

struct Part {
  std::string name;
  std::string summary;
  std::vector<Step> steps;
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

// By "part/step".
using Results = std::map<std::string, StepResult>;

struct RunnerOptions {
  std::string directory;            // exists
  std::vector<std::string> only;    // parts; empty: all
  bool resume = false;              // skip what is in the state file
  std::chrono::seconds total{540};  // of all steps together
  // What is kept for ending a step that overstays.
  std::chrono::milliseconds grace{2000};
  std::chrono::milliseconds burial{5000};
};

// Errors: InvalidArgument names a part that there is not.
absl::Status CheckParts(const std::vector<Part>& parts,
                        const std::vector<std::string>& only);

// Runs the chosen parts; writes DIR/<part>.<step>.{out,err} and the state file,
// and says on stderr how far it is. BlockSignalsOfRuns() comes first. Errors:
// InvalidArgument, PermissionDenied (cannot write there); Cancelled goes with
// the results of an interrupted run (`results` is always filled in).
absl::Status RunParts(const std::vector<Part>& parts,
                      const RunnerOptions& options, Results* results);

// What one step's end means.
StepResult Judge(const Step& step, int exit_code, bool signalled,
                 std::string_view out, std::string_view err);

// One line a part: part, result, seconds, finding (that of the first step that
// went wrong, else that of the last with one).
std::string ResultTable(const std::vector<Part>& parts,
                        const std::vector<std::string>& only,
                        const Results& results);

// 0, 1, or kNoGpuCode if that is what every step that ran says.
int ExitCodeOf(const Results& results);

nlohmann::json ToJson(const Results& results);
// What cannot be understood is left out.
Results FromJson(const nlohmann::json& json);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_RUNNER_H_
