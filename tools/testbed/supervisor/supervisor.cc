#include "tools/testbed/supervisor/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "base/text.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/supervisor/dashboard_link.h"
#include "tools/testbed/supervisor/log_rotation.h"
#include "tools/testbed/supervisor/marks.h"

namespace carillon::testbed {
namespace {

using std::chrono::milliseconds;

// The interval between questions for readiness.
constexpr milliseconds kProbeEvery{10};
constexpr int kShownLogLines = 10;
// Longer than five attempts to start gpud and the waits between them.
constexpr int kResumeWithinSeconds = 60;
// The interval between looks at the logs' lengths.
constexpr std::chrono::seconds kLogLook{5};
// No more of a log than this is read.
constexpr std::streamoff kShownLogBytes = 64 << 10;

}  // namespace

std::string LastLines(const std::string& path, int lines) {
  std::ifstream file(path);
  file.seekg(0, std::ios::end);
  const bool whole = file.tellg() <= kShownLogBytes;
  file.seekg(whole ? 0 : -kShownLogBytes,
             whole ? std::ios::beg : std::ios::end);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    last.push_back(line);
    if (last.size() > static_cast<size_t>(lines)) last.pop_front();
  }
  if (last.empty()) return "  (its log is empty)";
  std::string text;
  for (const std::string& line : last) {
    if (!text.empty()) text += "\n";
    text += "  | " + EscapeBytes(absl::StrReplaceAll(line, {{"\t", "  "}}),
                                 absl::ascii_iscntrl);
  }
  return text;
}

Supervisor::Supervisor(LaunchPlan plan, LockedDirectory directory,
                       ReadinessProbe* probe, StopSignals* requests,
                       Options options)
    : plan_(std::move(plan)),
      directory_(std::move(directory)),
      probe_(probe),
      requests_(requests),
      options_(std::move(options)) {
  state_.testbed = plan_.testbed;
  if (plan_.part) {
    state_.host = plan_.part->host;
    state_.engine = plan_.part->engine;
    state_.hosts = plan_.part->hosts;
  }
  state_.topology_file = options_.topology_file;
  state_.supervisor = OwnIdentity();
  state_.started_unix = time(nullptr);
  SaveState();
}

Supervisor::~Supervisor() = default;

void Supervisor::SaveState() {
  if (options_.etcd) state_.etcd = options_.etcd();
  if (options_.publish) options_.publish(state_);
  const absl::Status status = WriteState(paths().state_file(), state_);
  if (!status.ok() && !state_unsaved_) {
    options_.say(
        fmt::format("{}; until then ps shows an old state", status.message()));
  }
  state_unsaved_ = !status.ok();
}

absl::Status Supervisor::StartProcess(const PlannedProcess& planned) {
  const std::string log =
      fmt::format("{}/{}.log", paths().log_directory(), planned.name);
  std::vector<std::string> environment = {
      fmt::format("{}={}", kTestbedDirectoryVariable, paths().directory()),
      fmt::format("{}={}", kDeviceNameVariable, planned.name),
      fmt::format("{}={}", kSupervisorVariable,
                  SupervisorMark(paths(), state_.supervisor))};
  if (plan_.gpud.restart == RestartPolicy::kOnFailure) {
    environment.push_back(
        fmt::format("{}={}", kResumeWithinVariable, kResumeWithinSeconds));
  }
  if (plan_.record != 0) {
    environment.push_back(
        fmt::format("{}={}", shm::FlightRecorder::kVariable, plan_.record));
  }
  environment.insert(environment.end(), planned.environment.begin(),
                     planned.environment.end());
  // Without a session of its own, a process of another user could type into the
  // terminal of this one's (TIOCSTI); in the caller's directory, it could be
  // behind a door that is closed to it.
  ProcessRecord* record = state_.Find(planned.name);
  std::vector<std::string> argv = planned.argv;
  if (record != nullptr) {
    argv.insert(argv.end(), planned.when_restarted.begin(),
                planned.when_restarted.end());
  }
  auto child = ChildProcess::Spawn({.argv = std::move(argv),
                                    .environment = std::move(environment),
                                    .directory = planned.other_user ? "/" : "",
                                    .log_path = log,
                                    .own_session = planned.other_user});
  if (!child.ok()) {
    return absl::Status(
        child.status().code(),
        fmt::format("{}: {}", planned.name, child.status().message()));
  }
  if (record == nullptr) {
    record =
        &state_.processes.emplace_back(ProcessRecord{.name = planned.name,
                                                     .kind = planned.kind,
                                                     .command = planned.argv,
                                                     .restart = planned.restart,
                                                     .log = log});
  }
  record->identity = child->identity();
  record->state =
      planned.wait_ready ? ProcessState::kStarting : ProcessState::kRunning;
  const Clock::time_point now = Clock::now();
  children_.push_back(
      {.name = planned.name,
       .started = now,
       .process = *std::move(child),
       .ready = planned.wait_ready ? std::nullopt : std::optional(now)});
  SaveState();
  return absl::OkStatus();
}

absl::Status Supervisor::BringUp() {
  options_.say(
      fmt::format("testbed '{}' in {}", plan_.testbed, paths().directory()));
  absl::Status status = desk_.Open(SupervisorSocketOf(paths()));
  if (status.ok()) status = StartProcess(plan_.gpud);
  if (status.ok()) status = WaitForGpud();
  for (const PlannedProcess& device : plan_.devices) {
    if (status.ok()) status = StartProcess(device);
  }
  if (status.ok()) status = WaitForDevices();
  if (!status.ok()) {
    ending_ = true;
    EndAll(Role::kDevices, options_.device_grace);
    EndAll(Role::kGpud, options_.gpud_grace);
    KillStrays();
    desk_.Close();
    CallEnd(status);
    state_.phase = Phase::kFailed;
    SaveState();
    directory_.RemoveSockets();
    if (absl::IsCancelled(status)) {
      (void)directory_.Remove();
      return status;
    }
    return WithHint(status,
                    fmt::format("carillon logs --name {} shows all; the logs "
                                "stay until the next up or cleanup",
                                plan_.testbed));
  }
  state_.phase = Phase::kUp;
  SaveState();
  options_.say(fmt::format("up in {}", FormatSeconds(SinceStart())));
  return absl::OkStatus();
}

absl::Status Supervisor::WaitForGpud() {
  const Clock::time_point since = Clock::now();
  for (;;) {
    std::string note;
    const absl::Status status = probe_->Gpud(&note);
    if (status.ok()) {
      MarkReady(children_.front(), note);
      return absl::OkStatus();
    }
    Step(kProbeEvery);
    RETURN_IF_ERROR(CheckForEarlyExit());
    if (Clock::now() - since > options_.ready_budget) {
      return absl::DeadlineExceededError(fmt::format(
          "gpud did not answer its health check within {} ({}); the last lines "
          "of its log:\n{}",
          FormatSeconds(options_.ready_budget), status.message(),
          LastLines(state_.Find("gpud")->log, kShownLogLines)));
    }
  }
}

absl::Status Supervisor::WaitForDevices() {
  Clock::time_point progress = Clock::now();
  for (;;) {
    std::vector<std::string> waiting;
    const auto found = LookForReady();
    for (Child& child : children_) {
      ProcessRecord* const record = state_.Find(child.name);
      if (record->state != ProcessState::kStarting) continue;
      const auto process = found.find(child.name);
      if (process != found.end() && process->second.ready) {
        MarkReady(child, process->second.note);
        progress = Clock::now();
        continue;
      }
      waiting.push_back(child.name);
    }
    if (waiting.empty()) return absl::OkStatus();
    Step(kProbeEvery);
    RETURN_IF_ERROR(CheckForEarlyExit());
    if (Clock::now() - progress > options_.ready_budget) {
      std::string logs;
      for (const std::string& name : waiting) {
        logs += fmt::format("\n{}:\n{}", name,
                            LastLines(state_.Find(name)->log, kShownLogLines));
      }
      return absl::DeadlineExceededError(fmt::format(
          "{} did not report ready within {}; the last lines of {}:{}",
          JoinWords(waiting), FormatSeconds(options_.ready_budget),
          waiting.size() == 1 ? "its log" : "their logs", logs));
    }
  }
}

std::map<std::string, DeviceReadiness> Supervisor::LookForReady() {
  std::map<std::string, DeviceReadiness> found;
  if (auto devices = probe_->Devices(); devices.ok()) {
    found = *std::move(devices);
  }
  // No device of gpud's: it tells itself where it serves.
  const std::string name(kDashboardName);
  if (FindChild(name) == nullptr) return found;
  const auto link = ReadDashboardLink(paths());
  if (link.ok() && LookAtProcess(link->pid)) {
    found[name] = {true, link->url, link->pid};
  }
  return found;
}

void Supervisor::MarkReady(Child& child, const std::string& note) {
  ProcessRecord* const record = state_.Find(child.name);
  record->state = ProcessState::kReady;
  record->note = note;
  child.ready = Clock::now();
  SaveState();
  Say(fmt::format("  {:<16} ready {:>7}{}{}", child.name,
                  FormatSeconds(Clock::now() - child.started),
                  note.empty() ? "" : "  ", note));
}

absl::Status Supervisor::CheckForEarlyExit() {
  if (end_requests_ > 0) return absl::CancelledError("interrupted");
  for (const ProcessRecord& record : state_.processes) {
    if (!record.exit || MayEndDuringBringUp(record)) continue;
    return absl::AbortedError(fmt::format(
        "{} ended during bring-up ({}); the last lines of its log:\n{}",
        record.name, record.exit->ToString(),
        LastLines(record.log, kShownLogLines)));
  }
  return absl::OkStatus();
}

// A device that is not waited for may be a short task, and one that had
// reported ready, or whose time is simulated, may have ended as it should.
bool Supervisor::MayEndDuringBringUp(const ProcessRecord& record) const {
  if (!record.exit->ok()) return false;
  return std::ranges::any_of(plan_.devices, [&](const PlannedProcess& planned) {
    return planned.name == record.name &&
           (!planned.wait_ready || planned.may_end_unseen || record.was_ready);
  });
}

bool Supervisor::Step(milliseconds timeout) {
  // poll() passes over a descriptor of -1.
  std::vector<pollfd> fds = {{requests_->fd(), POLLIN, 0},
                             {options_.etcd_changed_fd, POLLIN, 0}};
  for (const Child& child : children_) {
    fds.push_back({child.process.pidfd(), POLLIN, 0});
  }
  desk_.AddTo(fds);
  // A foreign signal may interrupt it: the caller comes again.
  poll(fds.data(), fds.size(), static_cast<int>(timeout.count()));
  end_requests_ += requests_->Take();

  bool ended = false;
  for (auto child = children_.begin(); child != children_.end();) {
    const auto& exit = child->process.Reap();
    if (!exit) {
      ++child;
      continue;
    }
    ended = true;
    ProcessRecord* const record = state_.Find(child->name);
    record->was_ready = record->state == ProcessState::kReady;
    record->state = ProcessState::kEnded;
    record->exit = exit;
    const bool up = !ending_ && state_.phase == Phase::kUp;
    // One that was sent SIGTERM before it could handle that ends as it was asked.
    const bool expected = (up && NoteRestartsEnd(child->name, *exit)) ||
                          (ending_ && exit->signal == SIGTERM);
    if (!exit->ok() && !record->killed && !expected) {
      AddCasualty(fmt::format("{} ({})", child->name, exit->ToString()));
    }
    if (ending_ || expected) {
      Say(fmt::format("  {:<16} ended ({})", child->name, exit->ToString()));
    } else if (up) {
      Say(fmt::format("{} has ended ({}); the last lines of its log:\n{}",
                      child->name, exit->ToString(),
                      LastLines(record->log, kShownLogLines)));
      const Clock::time_point now = Clock::now();
      PlanRestart(child->name, *exit, now - child->ready.value_or(now));
    }
    if (child->process.left_behind() > 0) {
      options_.say(fmt::format("  {:<16} left {} processes behind: killed",
                               child->name, child->process.left_behind()));
    }
    child = children_.erase(child);
  }
  if (ended || fds[1].revents != 0) SaveState();
  TakeRequests();
  return ended;
}

bool Supervisor::Watch(milliseconds timeout) {
  if (Clock::now() >= next_log_look_) {
    RotateLogs(paths().log_directory());
    if (state_unsaved_) SaveState();
    next_log_look_ = Clock::now() + kLogLook;
  }
  const auto left = std::chrono::ceil<milliseconds>(
      std::min(NextWake(), next_log_look_) - Clock::now());
  Step(std::clamp(left, milliseconds(0), timeout));
  if (end_requests_ > 0) return false;
  AdvanceRestarts();
  return true;
}

void Supervisor::AddCasualty(const std::string& casualty) {
  // A process that ends again and again is reported once.
  if (std::ranges::count(casualties_, casualty) == 0) {
    casualties_.push_back(casualty);
  }
}

void Supervisor::CallEnd(const absl::Status& failure) {
  if (const auto end = std::exchange(options_.end, nullptr)) end(failure);
  options_.etcd_changed_fd = -1;
}

void Supervisor::SignalAll(int signal) {
  for (const Child& child : children_) child.process.Signal(signal);
}

// SIGCONT goes first, as a stopped process would not hear the other. After it,
// SIGCONT would undo the stop by which a tracer, such as LeakSanitizer's at the
// process's end, attaches, and both would wait for ever.
void Supervisor::SendEndTo(const Child& child, int signal) {
  if (signal != SIGKILL) child.process.Signal(SIGCONT);
  child.process.Signal(signal);
}

// Handles Ctrl-C after the first one.
void Supervisor::Escalate() {
  if (end_requests_ >= 3 && escalated_ < 3) {
    escalated_ = 3;
    options_.say("killing everything");
    for (const Child& child : children_) state_.Find(child.name)->killed = true;
    SignalAll(SIGKILL);
  } else if (end_requests_ == 2 && escalated_ < 2) {
    escalated_ = 2;
    options_.say("SIGTERM to everything at once; once more kills");
    SignalAll(SIGTERM);
  }
}

void Supervisor::EndAll(Role role, milliseconds grace) {
  const auto chosen = [&](const Child& child) {
    const bool gpud = child.name == plan_.gpud.name;
    return gpud == (role == Role::kGpud);
  };
  const auto any_left = [&] { return std::ranges::any_of(children_, chosen); };
  for (const Child& child : children_) {
    if (!chosen(child)) continue;
    SendEndTo(child, SIGTERM);
  }
  const Clock::time_point deadline = Clock::now() + grace;
  while (any_left()) {
    const Clock::duration left = deadline - Clock::now();
    if (left <= Clock::duration::zero()) break;
    Escalate();
    Step(std::chrono::ceil<milliseconds>(left));
  }
  for (const Child& child : children_) {
    if (!chosen(child)) continue;
    KillLate(child, grace);
  }
  // SIGKILL cannot be refused, so this ends.
  while (any_left()) Step(milliseconds(1000));
}

void Supervisor::KillLate(const Child& child, milliseconds grace) {
  Say(fmt::format("  {:<16} did not end within {}: killed", child.name,
                  FormatSeconds(grace)));
  AddCasualty(fmt::format("{} (did not end)", child.name));
  state_.Find(child.name)->killed = true;
  child.process.Signal(SIGKILL);
}

void Supervisor::KillStrays() {
  const int killed = KillOrphanedProcesses(paths());
  if (killed == 0) return;
  options_.say(fmt::format("  {} process{} went on in the background: killed",
                           killed, killed == 1 ? "" : "es"));
}

void Supervisor::EndDevices() {
  if (!ending_) {
    ending_ = true;
    CancelRestarts();
    state_.phase = Phase::kStopping;
    SaveState();
    options_.say(fmt::format(
        "ending testbed '{}'{}", plan_.testbed,
        end_requests_ > 0 ? "; once more sends SIGTERM to everything" : ""));
  }
  EndAll(Role::kDevices, options_.device_grace);
}

void Supervisor::EndGpud() {
  EndDevices();
  EndAll(Role::kGpud, options_.gpud_grace);
}

absl::Status Supervisor::TakeDown() {
  const Clock::time_point start = Clock::now();
  EndGpud();
  KillStrays();
  desk_.Close();
  CallEnd(absl::OkStatus());
  const absl::Status status = directory_.Remove();
  options_.say(fmt::format("down in {}", FormatSeconds(Clock::now() - start)));
  return status;
}

}  // namespace carillon::testbed
