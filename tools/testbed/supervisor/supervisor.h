// Brings a testbed's processes up, watches them, restarts them when asked to or
// by their policy, and takes them down. No process that it started, or that
// those started, outlives its TakeDown().
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
    // Bring-up fails if nothing becomes ready for this long.
    std::chrono::milliseconds ready_budget{15'000};
    // The time between a process's SIGTERM and its SIGKILL.
    std::chrono::milliseconds device_grace{5'000};
    // gpud itself waits up to 5 s for a kernel that runs too long.
    std::chrono::milliseconds gpud_grace{8'000};
    RestartBackoff::Limits backoff;
    std::string topology_file;
    // Takes one line of narration.
    std::function<void(const std::string&)> say;
    // An etcd that goes with it, as it is now, and what is readable once that
    // has changed; may be empty.
    std::function<std::optional<ProcessRecord>()> etcd;
    int etcd_changed_fd = -1;
    // Sees each new state; may be empty.
    std::function<void(const TestbedState&)> publish;
    // Called once, when all that it has started has ended and the directory is
    // still its own; with the error of a bring-up that failed.
    std::function<void(const absl::Status& failure)> end;
  };

  Supervisor(LaunchPlan plan, LockedDirectory directory, ReadinessProbe* probe,
             StopSignals* requests, Options options);
  ~Supervisor();  // kills what still runs

  // Starts gpud, then the devices, and waits until all are ready. After an
  // error nothing runs any more; the logs and state.json (kFailed) stay.
  // Errors: Aborted (a process ended early; with the last lines of its log),
  // DeadlineExceeded, Cancelled (asked to end), NotFound (a program).
  absl::Status BringUp();

  // Waits for at most `timeout`, reports children that end, and advances
  // restarts; requests come through SupervisorSocketOf() (restart_request.h).
  // Returns false once asked to end.
  bool Watch(std::chrono::milliseconds timeout);

  // The first part of TakeDown(). gpud goes on, and its ledger still has the
  // devices' events.
  void EndDevices();
  // The second part. The directory and its contents stay.
  void EndGpud();
  // Sends SIGCONT to all, since a stopped process cannot end in order.
  void Continue() { SignalAll(SIGCONT); }
  // Ends the devices, then gpud, then removes the directory. A second request
  // to end sends SIGTERM to all at once, a third one SIGKILL. Errors:
  // FailedPrecondition (the directory holds foreign files).
  absl::Status TakeDown();

  const TestbedState& state() const { return state_; }
  const LockedDirectory& directory() const { return directory_; }
  const TestbedPaths& paths() const { return directory_.paths(); }
  // The children that did not end with exit code 0, or were killed because they
  // did not end: "nic0 (SIGSEGV)".
  const std::vector<std::string>& casualties() const { return casualties_; }

 private:
  struct Child {
    std::string name;
    std::chrono::steady_clock::time_point started;
    ChildProcess process;
    // Since when it is ready; or since when it runs, if nobody waits for its
    // readiness.
    std::optional<std::chrono::steady_clock::time_point> ready;
  };
  using Clock = std::chrono::steady_clock;

  // A restart of one process, from its end to its readiness.
  struct Restart {
    enum class Stage {
      kHeld,      // runs; others of the same request end first
      kEnding,    // was sent its signal
      kWaiting,   // has ended; devices wait for gpud
      kStarting,  // runs, and is not ready yet
    };
    Stage stage = Stage::kWaiting;
    uint64_t request = 0;  // its id in RequestServer; 0: nobody waits
    // kEnding: when SIGKILL comes; kWaiting: the earliest start.
    Clock::time_point due;
    // For kWaiting and kStarting: the time limit. If it passes, that is
    // reported once.
    Clock::time_point limit;
    int signal = 0;  // what ended it
    bool kill = false;
    std::chrono::milliseconds timeout{0};  // from its start to its readiness
    Clock::time_point since;
    std::string link;  // kWaiting: why the link to the GPU's host is down
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
  // Aborted if a child's end fails the bring-up.
  absl::Status CheckForEarlyExit();
  bool MayEndDuringBringUp(const ProcessRecord& record) const;
  void MarkReady(Child& child, const std::string& note);
  // Sends SIGTERM to all of a role, then SIGKILL after `grace`.
  enum class Role { kDevices, kGpud };
  void EndAll(Role role, std::chrono::milliseconds grace);
  // Kills what did not end within `grace`.
  void KillLate(const Child& child, std::chrono::milliseconds grace);
  // Kills daemons, which have left their device's process group.
  void KillStrays();
  void SignalAll(int signal);
  static void SendEndTo(const Child& child, int signal);
  void Escalate();

  // supervisor_restart.cc
  void Say(const std::string& line);  // to those who wait for a restart, too
  void TakeRequests();
  absl::Status BeginRestart(uint64_t id, const Json& json);
  void SendEnd(const std::string& name, Restart& restart);
  void MarkRestartOfGpud();
  std::chrono::milliseconds GraceOf(const std::string& name) const;
  // A child of a running testbed has ended. Returns false if nobody had asked
  // for that.
  bool NoteRestartsEnd(const std::string& name, const ExitReport& exit);
  // Plans a restart by the process's policy, after an end that nobody had asked
  // for.
  void PlanRestart(const std::string& name, const ExitReport& exit,
                   Clock::duration ready_for);
  void AdvanceRestarts();
  // Whether a device that has ended is gone from gpud too, so that its name is
  // free.
  bool GpudHasLetGo(const std::string& name);
  // Whether a start can help: else when to look again is in `restart`.
  bool MayStart(const std::string& name, Restart& restart);
  // Returns false if the restart has failed and is over.
  bool StartAgain(const std::string& name, Restart& restart);
  void ProbeRestarts();
  void NoteReady(const std::string& name);
  std::string WhyItWaits(const Restart& restart);
  void CheckLimits();
  // Fails a request; the processes that it has ended are started nevertheless.
  void FailRequest(uint64_t id, const absl::Status& status);
  void CancelRestarts();
  bool GpudServes();
  // Of the processes that run, by name: the devices, as far as gpud tells of
  // them, and the dashboard.
  std::map<std::string, DeviceReadiness> LookForReady();
  Clock::time_point NextWake();
  const PlannedProcess& PlanOf(const std::string& name) const;
  Child* FindChild(const std::string& name);
  void AddCasualty(const std::string& casualty);
  void CallEnd(const absl::Status& failure);
  // Where the state cannot be written (a full disk), tries again with each look
  // at the logs: others must not take an old one for true for ever.
  void SaveState();
  Clock::duration SinceStart() const { return Clock::now() - start_; }

  const LaunchPlan plan_;
  LockedDirectory directory_;
  ReadinessProbe* const probe_;
  StopSignals* const requests_;
  Options options_;
  const Clock::time_point start_ = Clock::now();

  std::list<Child> children_;  // those that run
  TestbedState state_;
  bool state_unsaved_ = false;
  int end_requests_ = 0;
  int escalated_ = 0;
  bool ending_ = false;
  std::vector<std::string> casualties_;

  RequestServer desk_;
  std::map<uint64_t, Request> restart_requests_;
  std::map<std::string, Restart> restarts_;
  std::map<std::string, RestartBackoff> backoffs_;
  Clock::time_point next_probe_;
  Clock::time_point next_log_look_;
};

// The last `lines` lines of a log, each after "  | "; says so if there are
// none. Escapes control characters.
std::string LastLines(const std::string& path, int lines);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_SUPERVISOR_H_
