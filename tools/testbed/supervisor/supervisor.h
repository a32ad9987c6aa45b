// Brings a testbed's processes up, watches them, starts them again when asked
// to or by their policy, and takes them down: nothing that it started, or that they started,
// outlives its TakeDown().
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_H_

#include <signal.h>

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"
#include "tools/testbed/supervisor/child_process.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/launch_plan.h"
#include "tools/testbed/supervisor/readiness.h"
#include "tools/testbed/supervisor/restart_backoff.h"
#include "tools/testbed/supervisor/restart_request.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/supervisor/stop_signals.h"
#include "tools/testbed/supervisor/supervisor_socket.h"

namespace carillon::testbed {

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
    RestartBackoff::Limits backoff;
    std::string topology_file;
    // Takes one line of narration.
    std::function<void(const std::string&)> say;
  };

  Supervisor(LaunchPlan plan, LockedDirectory directory, ReadinessProbe* probe,
             StopSignals* requests, Options options);
  ~Supervisor();  // kills what still runs

  // gpud, then the devices, until all are ready. On an error nothing runs any
  // more; the logs and state.json (kFailed) stay. Errors: Aborted (a
  // process ended early; with the last lines of its log), DeadlineExceeded,
  // Cancelled (asked to end), NotFound (a program).
  absl::Status BringUp();

  // Waits for at most `timeout`, reports children that end, and goes on with
  // restarts: requests come through SupervisorSocketOf() (restart_request.h).
  // False once asked to end.
  bool Watch(std::chrono::milliseconds timeout);

  // The first part of TakeDown(): gpud goes on, with what the devices have left
  // in its books.
  void EndDevices();
  // The second part: the directory stays, with what it holds.
  void EndGpud();
  // SIGCONT to all: what is stopped cannot end in order.
  void Continue() { SignalAll(SIGCONT); }
  // Devices, then gpud, then the directory. A second end request sends SIGTERM
  // to all at once, a third SIGKILL. Errors: FailedPrecondition (the directory
  // holds foreign files).
  absl::Status TakeDown();

  const TestbedState& state() const { return state_; }
  const LockedDirectory& directory() const { return directory_; }
  const TestbedPaths& paths() const { return directory_.paths(); }
  // The children that did not end with exit code 0, or were killed for not
  // ending: "nic0 (SIGSEGV)".
  const std::vector<std::string>& casualties() const { return casualties_; }

 private:
  struct Child {
    std::string name;
    std::chrono::steady_clock::time_point started;
    ChildProcess process;
    // Since when it is ready, or runs if that is not waited for.
    std::optional<std::chrono::steady_clock::time_point> ready;
  };
  using Clock = std::chrono::steady_clock;

  // One process on its way from its end to its readiness.
  struct Restart {
    enum class Stage {
      kHeld,      // runs; others of the same request end first
      kEnding,    // was sent its signal
      kWaiting,   // has ended; devices wait for gpud
      kStarting,  // runs, and is not ready yet
    };
    Stage stage = Stage::kWaiting;
    uint64_t request = 0;  // of RequestServer; 0: nobody waits
    // kEnding: when SIGKILL comes; kWaiting: the earliest start.
    Clock::time_point due;
    // kWaiting, kStarting: until when it may take; then it is said, once, that
    // it takes longer.
    Clock::time_point limit;
    int signal = 0;  // what ended it
    bool kill = false;
    std::chrono::milliseconds timeout{0};  // from its start to its readiness
    Clock::time_point since;
  };
  struct Request {
    std::vector<std::string> names;
    std::map<std::string, Clock::duration> ready;  // how long each took
  };

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
  void MarkReady(Child& child, const std::string& note);
  // SIGTERM to all of a part, then SIGKILL after `grace`.
  enum class Part { kDevices, kGpud };
  void EndAll(Part part, std::chrono::milliseconds grace);
  // What has left its device's process group: daemons.
  void KillStrays();
  void SignalAll(int signal);
  void Escalate();

  // supervisor_restart.cc
  void Say(const std::string& line);  // to those who wait for a restart, too
  void TakeRequests();
  absl::Status BeginRestart(uint64_t id, const Json& json);
  void SendEnd(const std::string& name, Restart& restart);
  // The end of a child of a testbed that is up. False: nobody had asked for it.
  bool NoteRestartsEnd(const std::string& name, const ExitReport& exit);
  // By its policy, after an end that nobody had asked for.
  void PlanRestart(const std::string& name, const ExitReport& exit,
                   Clock::duration ready_for);
  void AdvanceRestarts();
  // Whether the name of a device that has ended is free again.
  bool GpudHasLetGo(const std::string& name);
  // False: the restart is over, in failure.
  bool StartAgain(const std::string& name, Restart& restart);
  void ProbeRestarts();
  void NoteReady(const std::string& name);
  void CheckLimits();
  // What the request has ended is started nevertheless.
  void FailRequest(uint64_t id, const absl::Status& status);
  void CancelRestarts();
  bool GpudServes();
  Clock::time_point NextWake();
  const PlannedProcess& PlanOf(const std::string& name) const;
  Child* FindChild(const std::string& name);
  void AddCasualty(const std::string& casualty);
  void SaveState();
  Clock::duration SinceStart() const { return Clock::now() - start_; }

  const LaunchPlan plan_;
  LockedDirectory directory_;
  ReadinessProbe* const probe_;
  StopSignals* const requests_;
  const Options options_;
  const Clock::time_point start_ = Clock::now();

  std::list<Child> children_;  // those that run
  TestbedState state_;
  int end_requests_ = 0;
  int escalated_ = 0;
  bool ending_ = false;
  std::vector<std::string> casualties_;

  RequestServer desk_;
  std::map<uint64_t, Request> restart_requests_;
  std::map<std::string, Restart> restarts_;
  std::map<std::string, RestartBackoff> backoffs_;
  Clock::time_point next_probe_;
};

// The last `lines` lines of a log, each with "  | " before it; says so when
// there are none. Control characters are escaped.
std::string LastLines(const std::string& path, int lines);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_H_
