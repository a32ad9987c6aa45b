// Brings a testbed's processes up, watches them, and takes them down: nothing
// that it started, or that they started, outlives its TakeDown().
#ifndef CARILLON_TOOLS_CLI_TESTBED_SUPERVISOR_H_
#define CARILLON_TOOLS_CLI_TESTBED_SUPERVISOR_H_

#include <chrono>
#include <functional>
#include <list>
#include <string>

#include "absl/status/status.h"
#include "tools/cli/testbed/child_process.h"
#include "tools/cli/testbed/directory.h"
#include "tools/cli/testbed/end_requests.h"
#include "tools/cli/testbed/launch_plan.h"
#include "tools/cli/testbed/readiness.h"
#include "tools/cli/testbed/state.h"

namespace carillon::cli {

// One thread, which must live as long as the testbed: its end kills the
// children.
class Supervisor {
 public:
  struct Options {
    // Bring-up fails when nothing becomes ready for this long.
    std::chrono::milliseconds ready_budget{15'000};
    // Between a process's SIGTERM and its SIGKILL.
    std::chrono::milliseconds device_grace{5'000};
    // gpud itself waits for at most 5 s for a kernel that runs too long.
    std::chrono::milliseconds gpud_grace{8'000};
    std::string topology_file;
    // Takes one line of narration.
    std::function<void(const std::string&)> say;
  };

  Supervisor(LaunchPlan plan, LockedDirectory directory, ReadinessProbe* probe,
             EndRequests* requests, Options options);
  ~Supervisor();  // kills what still runs

  // gpud, then the devices, until all are ready. On an error nothing runs any
  // more; the logs and state.json (kFailed) stay. Errors: Aborted (a
  // process ended early; with the last lines of its log), DeadlineExceeded,
  // Cancelled (asked to end), NotFound (a program).
  absl::Status BringUp();

  // Waits for at most `timeout` and reports children that end. False once asked
  // to end.
  bool Watch(std::chrono::milliseconds timeout);

  // The first part of TakeDown(): gpud goes on, with what the devices have left
  // in its books.
  void EndDevices();
  // Devices, then gpud, then the directory. A second end request sends SIGTERM
  // to all at once, a third SIGKILL. Errors: FailedPrecondition (the directory
  // holds foreign files).
  absl::Status TakeDown();

  const TestbedState& state() const { return state_; }
  const TestbedPaths& paths() const { return directory_.paths(); }
  // The children that did not end with exit code 0, or were killed for not
  // ending: "nic0 (SIGSEGV)".
  const std::vector<std::string>& casualties() const { return casualties_; }

 private:
  struct Child {
    std::string name;
    std::chrono::steady_clock::time_point started;
    ChildProcess process;
  };
  using Clock = std::chrono::steady_clock;

  absl::Status StartProcess(const PlannedProcess& planned);
  absl::Status WaitForGpud();
  absl::Status WaitForDevices();
  // Waits for at most `timeout`; reaps and reports. Returns true if a child
  // ended.
  bool Step(std::chrono::milliseconds timeout);
  // Aborted for a child whose end fails a bring-up.
  absl::Status CheckForEarlyExit();
  bool MayEndDuringBringUp(const ProcessRecord& record) const;
  absl::Status EarlyExit(const ProcessRecord& record);
  void MarkReady(const Child& child, const std::string& note);
  // SIGTERM to all of a part, then SIGKILL after `grace`.
  enum class Part { kDevices, kGpud };
  void EndAll(Part part, std::chrono::milliseconds grace);
  // What has left its device's process group: daemons.
  void KillStrays();
  void SignalAll(int signal);
  void Escalate();
  void SaveState();
  Clock::duration SinceStart() const { return Clock::now() - start_; }

  const LaunchPlan plan_;
  LockedDirectory directory_;
  ReadinessProbe* const probe_;
  EndRequests* const requests_;
  const Options options_;
  const Clock::time_point start_ = Clock::now();

  std::list<Child> children_;  // those that run
  TestbedState state_;
  int end_requests_ = 0;
  int escalated_ = 0;
  bool ending_ = false;
  std::vector<std::string> casualties_;
};

// The last `lines` lines of a log, each with "  | " before it; says so when
// there are none. Control characters are escaped.
std::string LastLines(const std::string& path, int lines);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TESTBED_SUPERVISOR_H_
