// How a Supervisor restarts processes: each goes through its own states from
// its end to its readiness, driven by Watch().
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/log/log_line.h"
#include "base/restart/restart_mark.h"
#include "base/status.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "tools/testbed/supervisor/supervisor.h"

namespace carillon::testbed {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr char kGpudName[] = "gpud";
// The intervals between questions for readiness, in time and after the limit.
constexpr milliseconds kProbeEvery{10};
constexpr milliseconds kProbeLateEvery{1000};
constexpr milliseconds kLinkEvery{100};
constexpr int kShownLogLines = 10;

// The dashboard lives with and without one: it tells of its end.
bool NeedsGpud(const std::string& name) {
  return name != kGpudName && name != kDashboardName;
}

// Lets a reader of the log see where one run ends and the next begins.
void AppendToLog(const std::string& path, const std::string& line) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
  if (!fd) return;
  char last = '\n';
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size > 0) (void)!pread(fd.get(), &last, 1, size - 1);
  const std::string text =
      fmt::format("{}{}\n", last == '\n' ? "" : "\n",
                  FormatLogLine("supervisor", "info", line));
  (void)!write(fd.get(), text.data(), text.size());
}

// The device that gpud knows by this name may still be the previous process.
bool IsOfThisRun(const DeviceReadiness& device, const ProcessIdentity& child) {
  if (device.pid == 0) return true;
  const auto facts = LookAtProcess(device.pid);
  return facts && facts->identity.start_ticks >= child.start_ticks;
}

}  // namespace

void Supervisor::Say(const std::string& line) {
  options_.say(line);
  for (const auto& [id, request] : restart_requests_) desk_.Say(id, line);
}

const PlannedProcess& Supervisor::PlanOf(const std::string& name) const {
  const auto found =
      std::ranges::find(plan_.devices, name, &PlannedProcess::name);
  return found == plan_.devices.end() ? plan_.gpud : *found;
}

Supervisor::Child* Supervisor::FindChild(const std::string& name) {
  const auto found = std::ranges::find(children_, name, &Child::name);
  return found == children_.end() ? nullptr : &*found;
}

bool Supervisor::GpudServes() {
  return !restarts_.contains(kGpudName) &&
         state_.Find(kGpudName)->state == ProcessState::kReady;
}

void Supervisor::TakeRequests() {
  for (const RequestServer::Request& request : desk_.Take()) {
    const absl::Status status = BeginRestart(request.id, request.json);
    if (!status.ok()) desk_.Failed(request.id, status);
  }
}

absl::Status Supervisor::BeginRestart(uint64_t id, const Json& json) {
  ASSIGN_OR_RETURN(auto wanted, ReadRestartRequest(json));
  if (ending_ || state_.phase != Phase::kUp) {
    return absl::FailedPreconditionError(
        fmt::format("testbed '{}' is {}", plan_.testbed,
                    !ending_ && state_.phase == Phase::kStarting
                        ? "coming up: wait until it is up"
                        : "going down"));
  }
  for (std::string& name : wanted.processes) {
    name = std::string(WithoutOwnHost(state_, name));
  }
  std::vector<std::string_view> known;
  std::vector<std::string> names;  // of the request, in the testbed's order
  for (const ProcessRecord& record : state_.processes) {
    known.push_back(record.name);
    if (std::ranges::count(wanted.processes, record.name) != 0) {
      names.push_back(record.name);
    }
  }
  for (const std::string& name : wanted.processes) {
    if (state_.etcd && name == state_.etcd->name) {
      return absl::FailedPreconditionError(
          fmt::format("{} is started again whenever it ends, and not by a "
                      "request: kill {}",
                      name, state_.etcd->identity.pid));
    }
    if (std::ranges::count(known, name) == 0) {
      RETURN_IF_ERROR(CheckIsHere(state_, name, "restart"));
      return WithHint(
          absl::NotFoundError(fmt::format("testbed '{}' has no process {}{}",
                                          plan_.testbed, Quote(name),
                                          DidYouMean(name, known))),
          fmt::format("carillon ps --name {} lists them", plan_.testbed));
    }
  }
  for (const std::string& name : names) {
    const auto other = restarts_.find(name);
    if (other != restarts_.end() && other->second.request != 0) {
      return absl::FailedPreconditionError(
          fmt::format("{} is being restarted already", name));
    }
  }
  const ProcessRecord& gpud = *state_.Find(kGpudName);
  std::vector<std::string> lost;
  std::ranges::copy_if(names, std::back_inserter(lost), NeedsGpud);
  if (names[0] != kGpudName && gpud.exit && !restarts_.contains(kGpudName) &&
      !lost.empty()) {
    return WithHint(
        absl::FailedPreconditionError(
            fmt::format("gpud has ended ({}): {} would find no testbed",
                        gpud.exit->ToString(), JoinWords(lost))),
        fmt::format("carillon restart --name {} gpud", plan_.testbed));
  }

  const Clock::time_point now = Clock::now();
  for (const std::string& name : names) backoffs_.erase(name);
  restart_requests_[id] = {.names = names, .ready = {}};
  Say(fmt::format("restarting {}, as asked", JoinWords(names)));
  const bool with_gpud = names[0] == kGpudName;
  bool others_end = false;
  // gpud, the first name, is held until the devices have ended, so that they
  // can still detach from it.
  std::reverse(names.begin(), names.end());
  for (const std::string& name : names) {
    Restart& restart = restarts_[name];
    restart = {
        .request = id,
        .due = now,
        .limit = with_gpud ? Clock::time_point::max() : now + wanted.timeout,
        .kill = wanted.kill,
        .timeout = wanted.timeout,
        .since = now};
    if (FindChild(name) == nullptr) {
      restart.stage = Restart::Stage::kWaiting;
    } else if (name == kGpudName && others_end && !wanted.kill) {
      restart.stage = Restart::Stage::kHeld;
    } else {
      SendEnd(name, restart);
      others_end = true;
    }
  }
  return absl::OkStatus();
}

milliseconds Supervisor::GraceOf(const std::string& name) const {
  return name == kGpudName ? options_.gpud_grace : options_.device_grace;
}

void Supervisor::SendEnd(const std::string& name, Restart& restart) {
  restart.stage = Restart::Stage::kEnding;
  // A gpud that makes way leaves its devices' work to the next.
  restart.signal = restart.kill        ? SIGKILL
                   : name == kGpudName ? SIGUSR1
                                       : SIGTERM;
  restart.due =
      restart.kill ? Clock::time_point::max() : Clock::now() + GraceOf(name);
  state_.Find(name)->killed = restart.kill;
  if (name == kGpudName) MarkRestartOfGpud();
  SendEndTo(*FindChild(name), restart.signal);
}

// A gpud that makes way tells its devices so, but one that is killed cannot.
void Supervisor::MarkRestartOfGpud() {
  const std::string path = paths().restart_mark();
  const UniqueFd file(
      open(path.c_str(),
           O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
           0644));
  const std::string pid =
      fmt::format("{}\n", state_.Find(kGpudName)->identity.pid);
  // Devices of other users read it, too, whatever the umask is.
  if (file && fchmod(file.get(), 0644) == 0 &&
      write(file.get(), pid.data(), pid.size()) ==
          static_cast<ssize_t>(pid.size())) {
    return;
  }
  Say(fmt::format("cannot write {} ({}): devices end if gpud must be killed",
                  path, std::strerror(errno)));
}

// An end in kStarting is a failure of the new run, to which the restart policy
// applies. In kEnding it was asked for, unless the process crashed meanwhile.
bool Supervisor::NoteRestartsEnd(const std::string& name,
                                 const ExitReport& exit) {
  const auto found = restarts_.find(name);
  if (found == restarts_.end()) return false;
  Restart& restart = found->second;
  if (restart.stage == Restart::Stage::kStarting) {
    const ProcessRecord& record = *state_.Find(name);
    FailRequest(
        restart.request,
        absl::AbortedError(fmt::format(
            "{} ended before it was ready ({}); the last lines of its "
            "log:\n{}",
            name, exit.ToString(), LastLines(record.log, kShownLogLines))));
    restarts_.erase(found);
    return false;
  }
  const bool asked_for = restart.stage == Restart::Stage::kEnding;
  restart.stage = Restart::Stage::kWaiting;
  restart.due = Clock::now();
  // If gpud is in the same request, gpud's limit counts.
  if (restart.limit != Clock::time_point::max()) {
    restart.limit = restart.due + restart.timeout;
  }
  return asked_for && (exit.ok() || exit.signal == restart.signal ||
                       state_.Find(name)->killed);
}

void Supervisor::PlanRestart(const std::string& name, const ExitReport& exit,
                             Clock::duration ready_for) {
  ProcessRecord& record = *state_.Find(name);
  const bool asks = name == kGpudName && exit.code == EX_TEMPFAIL;
  if ((record.restart == RestartPolicy::kNever && !asks) || exit.ok()) return;
  if (restarts_.contains(name)) return;  // it is started again in any case
  if (asks) {
    const RestartMark mark = RestartMark::Read(paths().restart_mark());
    if (mark.pid == record.identity.pid) {
      // The event that took the GPU away does not run again, so the next gpud
      // serves, however often a device's kernel does that.
      if (mark.named) backoffs_.erase(name);
      // A driver that hangs each time is longer in that than proves anything.
      ready_for =
          std::max(Clock::duration::zero(), ready_for - mark.stood_still);
    }
  }
  RestartBackoff& backoff =
      backoffs_.try_emplace(name, options_.backoff).first->second;
  const auto wait = backoff.AfterFailure(ready_for);
  if (!wait) {
    record.given_up = true;
    Say(
        fmt::format("{} is given up: {} restarts in a row did not help; once "
                    "more: carillon restart --name {} {}",
                    name, backoff.in_a_row(), plan_.testbed, name));
    return;
  }
  const Clock::time_point now = Clock::now();
  restarts_[name] = {.stage = Restart::Stage::kWaiting,
                     .due = now + *wait,
                     .limit = Clock::time_point::max(),
                     .timeout = options_.ready_budget,
                     .since = now};
  Say(fmt::format(
      "{} is started again in {}{} ({} of {} in a row)", name,
      FormatSeconds(*wait),
      !NeedsGpud(name) || GpudServes() ? "" : ", or when gpud is ready again",
      backoff.in_a_row(), options_.backoff.in_a_row));
}

void Supervisor::AdvanceRestarts() {
  std::vector<std::string> names;
  for (const auto& [name, restart] : restarts_) names.push_back(name);
  for (const std::string& name : names) {
    Restart& restart = restarts_.at(name);
    const Clock::time_point now = Clock::now();
    if (restart.stage == Restart::Stage::kHeld) {
      const bool others_end =
          std::ranges::any_of(restarts_, [&](const auto& r) {
            return r.second.request == restart.request &&
                   r.second.stage == Restart::Stage::kEnding;
          });
      if (!others_end) SendEnd(name, restart);
    } else if (restart.stage == Restart::Stage::kEnding && now >= restart.due) {
      restart.due = Clock::time_point::max();
      KillLate(*FindChild(name), GraceOf(name));
    } else if (restart.stage == Restart::Stage::kWaiting &&
               now >= restart.due && (!NeedsGpud(name) || GpudServes())) {
      if (MayStart(name, restart) && !StartAgain(name, restart)) {
        restarts_.erase(name);
      }
    }
  }
  ProbeRestarts();
  CheckLimits();
}

// gpud notices a device's death only after a moment. Until then it refuses a
// new device of the same name.
bool Supervisor::GpudHasLetGo(const std::string& name) {
  if (!NeedsGpud(name)) return true;
  const auto attached = probe_->Devices();
  if (!attached.ok()) return false;
  const auto device = attached->find(name);
  if (device == attached->end() || device->second.pid == 0) return true;
  // A living process was started by hand; the new one will report the conflict.
  const auto facts = LookAtProcess(device->second.pid);
  return facts && facts->state != 'Z';
}

// A device ends when its host's link is lost, and a new one cannot register
// anything before that is up again: its restarts would be used up for nothing.
bool Supervisor::MayStart(const std::string& name, Restart& restart) {
  if (!NeedsGpud(name)) return true;
  if (!GpudHasLetGo(name)) {
    restart.due = Clock::now() + kProbeEvery;
    restart.link.clear();
    return false;
  }
  const absl::Status link = probe_->Link();
  if (link.ok()) return true;
  if (restart.link != link.message()) {
    Say(fmt::format("{} waits for the link to the GPU's host, which is {}",
                    name, link.message()));
  }
  restart.link = std::string(link.message());
  restart.due = Clock::now() + kLinkEvery;
  return false;
}

bool Supervisor::StartAgain(const std::string& name, Restart& restart) {
  ProcessRecord& record = *state_.Find(name);
  const ProcessRecord before = record;
  record.last_exit = std::exchange(record.exit, std::nullopt);
  ++record.restarts;
  record.note.clear();
  record.was_ready = false;
  record.killed = false;
  record.given_up = false;
  AppendToLog(record.log,
              fmt::format("starts {} again (restart {}); it had ended ({})",
                          name, record.restarts, record.last_exit->ToString()));
  const PlannedProcess& planned = PlanOf(name);
  if (absl::Status status = StartProcess(planned); !status.ok()) {
    record = before;
    Say(std::string(status.message()));
    FailRequest(restart.request, status);
    return false;
  }
  const Clock::time_point now = Clock::now();
  restart.stage = Restart::Stage::kStarting;
  restart.limit = now + restart.timeout;
  next_probe_ = now;
  if (!planned.wait_ready) NoteReady(name);
  return true;
}

void Supervisor::ProbeRestarts() {
  bool any = false;
  bool all_late = true;
  std::vector<std::string> devices;
  for (const auto& [name, restart] : restarts_) {
    if (restart.stage != Restart::Stage::kStarting) continue;
    any = true;
    all_late &= restart.limit == Clock::time_point::max();
    if (name != kGpudName) devices.push_back(name);
  }
  if (!any || Clock::now() < next_probe_) return;
  const auto gpud = restarts_.find(kGpudName);
  std::string note;
  if (gpud != restarts_.end() &&
      gpud->second.stage == Restart::Stage::kStarting &&
      probe_->Gpud(&note).ok()) {
    MarkReady(*FindChild(kGpudName), note);
    NoteReady(kGpudName);
  }
  if (!devices.empty()) {
    const auto found = LookForReady();
    for (const std::string& name : devices) {
      const auto device = found.find(name);
      Child& child = *FindChild(name);
      if (device == found.end() || !device->second.ready ||
          !IsOfThisRun(device->second, child.process.identity())) {
        continue;
      }
      MarkReady(child, device->second.note);
      NoteReady(name);
    }
  }
  next_probe_ = Clock::now() + (all_late ? kProbeLateEvery : kProbeEvery);
}

void Supervisor::NoteReady(const std::string& name) {
  const Restart restart = restarts_.at(name);
  restarts_.erase(name);
  const auto found = restart_requests_.find(restart.request);
  if (found == restart_requests_.end()) return;
  Request& request = found->second;
  request.ready[name] = Clock::now() - restart.since;
  if (request.ready.size() < request.names.size()) return;
  Json restarted = Json::array();
  for (const std::string& each : request.names) {
    const ProcessRecord& record = *state_.Find(each);
    restarted.push_back(
        {{"name", each},
         {"pid", record.identity.pid},
         {"state", ToText(record.state)},
         {"note", record.note},
         {"restarts", record.restarts},
         {"took_ns", std::chrono::duration_cast<std::chrono::nanoseconds>(
                         request.ready[each])
                         .count()}});
  }
  desk_.Done(restart.request,
             {{"testbed", plan_.testbed}, {"restarted", std::move(restarted)}});
  restart_requests_.erase(found);
}

std::string Supervisor::WhyItWaits(const Restart& restart) {
  if (!GpudServes()) return "gpud was not ready within";
  if (restart.link.empty()) return "gpud still has the one before after";
  return fmt::format("the link to the GPU's host is {}, after", restart.link);
}

void Supervisor::CheckLimits() {
  std::vector<std::pair<uint64_t, absl::Status>> late;
  for (auto& [name, restart] : restarts_) {
    const bool counts = restart.stage == Restart::Stage::kWaiting ||
                        restart.stage == Restart::Stage::kStarting;
    if (!counts || Clock::now() < restart.limit) continue;
    restart.limit = Clock::time_point::max();
    const std::string within = FormatSeconds(restart.timeout);
    late.emplace_back(
        restart.request,
        absl::DeadlineExceededError(
            restart.stage == Restart::Stage::kWaiting
                ? fmt::format("{} is not started yet: {} {}", name,
                              WhyItWaits(restart), within)
                : fmt::format(
                      "{} was started, but was not ready within {}; "
                      "it goes on; the last lines of its log:\n{}",
                      name, within,
                      LastLines(state_.Find(name)->log, kShownLogLines))));
  }
  for (const auto& [id, status] : late) {
    options_.say(std::string(status.message()));
    FailRequest(id, status);
  }
}

void Supervisor::FailRequest(uint64_t id, const absl::Status& status) {
  if (restart_requests_.erase(id) == 0) return;
  desk_.Failed(id, status);
  for (auto& [name, restart] : restarts_) {
    if (restart.request == id) restart.request = 0;
  }
}

void Supervisor::CancelRestarts() {
  for (const auto& [id, request] : restart_requests_) {
    desk_.Failed(id, absl::AbortedError(fmt::format(
                         "testbed '{}' is going down", plan_.testbed)));
  }
  restart_requests_.clear();
  restarts_.clear();
}

Clock::time_point Supervisor::NextWake() {
  Clock::time_point next =
      desk_.NextDeadline().value_or(Clock::time_point::max());
  for (const auto& [name, restart] : restarts_) {
    switch (restart.stage) {
      case Restart::Stage::kHeld:
        break;  // a child's end wakes it
      case Restart::Stage::kEnding:
        next = std::min(next, restart.due);
        break;
      case Restart::Stage::kWaiting:
        next = std::min(next, restart.limit);
        if (!NeedsGpud(name) || GpudServes())
          next = std::min(next, restart.due);
        break;
      case Restart::Stage::kStarting:
        next = std::min({next, restart.limit, next_probe_});
        break;
    }
  }
  return next;
}

}  // namespace carillon::testbed
