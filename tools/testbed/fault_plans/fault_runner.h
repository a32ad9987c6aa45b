// Runs a fault plan: brings its testbed up, puts the faults on the board,
// reports what strikes, and finds out how everything ended.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_FAULT_RUNNER_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_FAULT_RUNNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/json.h"
#include "tools/testbed/fault_plans/judge.h"
#include "tools/testbed/fault_plans/plan.h"
#include "tools/testbed/ledger/timeline_view.h"
#include "tools/testbed/testbed_run.h"

namespace carillon::testbed {

struct RunnerOptions {
  // The name of the plan's testbed; empty: its own. If the plan has no
  // topology, the testbed that is up.
  std::string testbed;
  // Replaces the back-end that the plan's topology names; empty: keeps it.
  std::string backend;
  double timeout_s = 15;  // the same as for `carillon up`
  // Whether, and in which folder, the files of a failed run are kept. The
  // folder is made; empty: one below the runtime directory.
  bool save = true;
  std::string keep;
  bool narrate_testbed = true;  // narrate the testbed's bring-up and end
};

struct PlanRun {
  fault::Plan plan;  // with the seed that was used
  fault::Evidence evidence;
  std::vector<fault::ExpectationResult> findings;
  Timeline timeline;
  Nanoseconds took_ns = 0;
  std::string kept;  // the folder; empty: nothing was kept

  bool ok() const { return fault::Holds(findings); }
};

// Errors: those of bringing it up; Cancelled (Ctrl-C; all is taken down);
// NotFound (no board); FailedPrecondition (another run uses the board).
absl::StatusOr<PlanRun> RunPlan(const fault::Plan& plan,
                                const RunnerOptions& options, const Say& say);

// "carillon fault run PLAN --seed 7"
std::string ReplayLine(const fault::Plan& plan, const RunnerOptions& options);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_FAULT_RUNNER_H_
