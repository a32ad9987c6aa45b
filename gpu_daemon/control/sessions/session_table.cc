#include "gpu_daemon/control/sessions/session_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/names.h"
#include "kernels/catalogue.h"

namespace carillon::gpud {
namespace {

absl::Status CheckAttach(const v1::AttachRequest& request) {
  if (request.layout_version() != shm::kLayoutVersion) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 fmt::format("the device speaks layout version {}, gpud {}; "
                             "build both from the same source",
                             request.layout_version(), shm::kLayoutVersion),
                 reason::kLayoutVersion, "layout_version");
  }
  for (const auto& status :
       {CheckName("device name", request.name()),
        CheckName("device kind", request.kind()),
        CheckFigureNames("counter", request.counter_names(),
                         shm::kMaxTelemetryCounters),
        CheckFigureNames("histogram", request.histogram_names(),
                         shm::kMaxTelemetryHistograms)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// "process 4242 'nic'", with the name that it has given itself: linkd that of
// the host whose devices it has.
std::string DescribeProcess(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  if (!std::getline(file, name)) return fmt::format("process {}", pid);
  return fmt::format("process {} {}", pid, Quote(name));
}

std::string SentenceFor(SessionEnd ending, const std::string& detail) {
  switch (ending) {
    case SessionEnd::kDetached:
      return "it detached";
    case SessionEnd::kDied:
      return "its process died or closed the hand-over connection";
    case SessionEnd::kEvicted:
      return fmt::format("it broke the protocol: {}", detail);
    case SessionEnd::kSilent:
      return detail;
    case SessionEnd::kLinkLost:
      return fmt::format("its link carries it no more: {}", detail);
    case SessionEnd::kShutdown:
      return "gpud shuts down";
    case SessionEnd::kRestart:
      return "gpud makes way for another";
    case SessionEnd::kNeverFetched:
      return "it did not fetch its apertures in time";
  }
  return "";
}

std::pair<shm::CloseReason, shm::EventStatus> WordsFor(SessionEnd ending) {
  using shm::CloseReason;
  using shm::EventStatus;
  switch (ending) {
    case SessionEnd::kDetached:
      return {CloseReason::kDetached, EventStatus::kDeviceGone};
    case SessionEnd::kDied:
    case SessionEnd::kNeverFetched:
      return {CloseReason::kPeerDied, EventStatus::kDeviceGone};
    case SessionEnd::kEvicted:
      return {CloseReason::kEvicted, EventStatus::kDeviceGone};
    case SessionEnd::kSilent:
      return {CloseReason::kSilent, EventStatus::kDeviceGone};
    case SessionEnd::kLinkLost:
      return {CloseReason::kLinkLost, EventStatus::kLinkLost};
    case SessionEnd::kRestart:
      return {CloseReason::kRestarting, EventStatus::kShutdown};
    case SessionEnd::kShutdown:
      break;
  }
  return {CloseReason::kShutdown, EventStatus::kShutdown};
}

void PublishEnd(TelemetryBus* bus, const Session& session, SessionEnd ending,
                const std::string& detail, uint64_t aborted) {
  const std::string& name = session.identity().name;
  v1::TelemetryEvent message;
  switch (ending) {
    case SessionEnd::kDetached:
      message.mutable_device_detached()->set_device(name);
      message.mutable_device_detached()->set_aborted(aborted);
      break;
    case SessionEnd::kDied:
      message.mutable_peer_died()->set_device(name);
      message.mutable_peer_died()->set_pid(
          static_cast<uint32_t>(session.identity().owner->pid));
      message.mutable_peer_died()->set_aborted(aborted);
      break;
    case SessionEnd::kEvicted:
    case SessionEnd::kSilent:
    case SessionEnd::kLinkLost:
      message.mutable_device_evicted()->set_device(name);
      message.mutable_device_evicted()->set_reason(detail);
      message.mutable_device_evicted()->set_aborted(aborted);
      break;
    case SessionEnd::kShutdown:  // ShuttingDown says it for all
    case SessionEnd::kRestart:
    case SessionEnd::kNeverFetched:  // nobody was told that it came
      return;
  }
  bus->Publish(std::move(message));
}

}  // namespace

absl::Status SessionTable::Reserve(const std::string& name, pid_t pid) {
  MutexLock lock(mutex_);
  if (shutting_down_) {
    return Error(absl::StatusCode::kUnavailable, "gpud is shutting down",
                 reason::kShuttingDown);
  }
  if (const auto taken = names_.find(name); taken != names_.end()) {
    return Error(absl::StatusCode::kAlreadyExists,
                 fmt::format("a device '{}' is attached already (pid {}); stop "
                             "it or choose another name",
                             name, taken->second),
                 reason::kDeviceNameTaken, name, "carillon ps");
  }
  if (names_.size() >= kMaxSessions) {
    return Error(absl::StatusCode::kResourceExhausted,
                 fmt::format("{} devices are attached: that is the limit of a "
                             "testbed; detach one, or start another testbed",
                             names_.size()),
                 reason::kTooMany, "devices");
  }
  const auto own = static_cast<size_t>(
      std::count_if(names_.begin(), names_.end(),
                    [&](const auto& entry) { return entry.second == pid; }));
  if (own >= most_of_a_process_) {
    return Error(absl::StatusCode::kResourceExhausted,
                 fmt::format("{} has {} devices: that is the limit of a "
                             "process; use another process, or start gpud "
                             "with more --devices-per-process (at most {})",
                             DescribeProcess(pid), own, kMaxSessions),
                 reason::kTooMany, "devices");
  }
  names_[name] = pid;
  return absl::OkStatus();
}

void SessionTable::Unreserve(const std::string& name) {
  MutexLock lock(mutex_);
  names_.erase(name);
}

absl::StatusOr<std::shared_ptr<Session>> SessionTable::MakeSession(
    const v1::AttachRequest& request, const std::shared_ptr<const Peer>& caller,
    uint32_t device_id) {
  const shm::Generation generation = context_->NextGeneration();
  ASSIGN_OR_RETURN(auto space,
                   DeviceSpace::Create(
                       {.name = request.name(),
                        .owner = caller->pid,
                        .device_id = device_id,
                        .generation = generation,
                        .doorbell_count = static_cast<uint32_t>(shm::AlignUp(
                            context_->ekt->capacity(), shm::kDoorbellsPerLine)),
                        .submission_bytes = request.submission_bytes(),
                        .completion_bytes = request.completion_bytes()},
                       context_->budget, &context_->backend->memory()));
  ASSIGN_OR_RETURN(auto token, RandomTicket());
  return std::make_shared<Session>(
      Session::Identity{.device_id = device_id,
                        .name = request.name(),
                        .kind = request.kind(),
                        .generation = generation,
                        .token = std::string(token.begin(), token.end()),
                        .owner = caller,
                        .counter_names = {request.counter_names().begin(),
                                          request.counter_names().end()},
                        .histogram_names = {request.histogram_names().begin(),
                                            request.histogram_names().end()},
                        .attached_ns = NowNs()},
      std::move(space), context_);
}

absl::StatusOr<v1::AttachResponse> SessionTable::Attach(
    const v1::AttachRequest& request,
    const std::shared_ptr<const Peer>& caller) {
  RETURN_IF_ERROR(CheckAttach(request));
  if (context_->backend->simulates_time() && !request.takes_simulated_time()) {
    return Error(
        absl::StatusCode::kFailedPrecondition,
        fmt::format("this testbed lives in simulated time (--timing), and "
                    "device '{}' ({}) in wall time: leave it out, or start "
                    "gpud without --timing",
                    request.name(), request.kind()),
        reason::kLivesInWallTime, "takes_simulated_time");
  }
  RETURN_IF_ERROR(Reserve(request.name(), caller->pid));
  uint32_t device_id;
  {
    MutexLock lock(mutex_);
    device_id = next_device_id_++;
  }
  // Reserving gigabytes takes too long to hold the lock.
  auto session = MakeSession(request, caller, device_id);
  if (!session.ok()) {
    Unreserve(request.name());
    return session.status();
  }
  auto ticket = tickets_->Issue(device_id, {caller->pid, caller->uid}, NowNs());
  if (!ticket.ok()) {
    Unreserve(request.name());
    return ticket.status();
  }
  const std::string& token = (*session)->identity().token;
  // Before anybody can end the session.
  context_->backend->AddDevice((*session)->shared_memory());
  bool entered = false;
  {
    MutexLock lock(mutex_);
    // PeerDied() and Shutdown() look into the table once, so a later session
    // must not enter.
    entered = !shutting_down_ && caller->alive();
    if (entered) {
      by_device_[device_id] = *session;
      by_token_[token] = *session;
    }
  }
  if (!entered) {
    tickets_->Revoke(device_id);
    context_->backend->paths().RemoveDevice(&(*session)->memory());
    Unreserve(request.name());
    return Error(absl::StatusCode::kUnavailable,
                 "gpud is shutting down, or the caller is gone",
                 reason::kShuttingDown);
  }
  // In the table first, so that a share that is set meanwhile reaches it, too.
  context_->shares.Apply(request.name(), (*session)->memory());
  spdlog::info("device '{}' ({}) attaches: pid {}, device {}, generation {}",
               request.name(), request.kind(), caller->pid, device_id,
               (*session)->identity().generation.value());
  v1::AttachResponse response;
  response.set_session(token);
  response.set_ticket(ticket->data(), ticket->size());
  response.set_ticket_valid_ms(tickets_->valid_ns() / 1'000'000);
  response.set_device_id(device_id);
  response.set_generation((*session)->identity().generation.value());
  response.set_catalogue(simt::OwnCatalogue());
  return response;
}

absl::StatusOr<std::shared_ptr<Session>> SessionTable::Find(
    const std::string& token, const Peer& caller) const {
  MutexLock lock(mutex_);
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) {
    for (const Ended& ended : ended_) {
      if (ended.token != token) continue;
      return Error(absl::StatusCode::kNotFound, ended.sentence,
                   reason::kSessionEnded, "session");
    }
    return Error(absl::StatusCode::kNotFound,
                 "unknown session: attach first, and pass the session that "
                 "Attach returned",
                 reason::kUnknownSession, "session");
  }
  const Peer& owner = *found->second->identity().owner;
  // Pids are only reused after the owner's death, which ends the session.
  if (owner.pid != caller.pid) {
    return Error(
        absl::StatusCode::kPermissionDenied,
        fmt::format("the session of device '{}' belongs to process "
                    "{}, not to process {}",
                    found->second->identity().name, owner.pid, caller.pid),
        reason::kOtherProcess, "session");
  }
  return found->second;
}

std::shared_ptr<Session> SessionTable::FindDevice(uint32_t device_id) const {
  MutexLock lock(mutex_);
  const auto found = by_device_.find(device_id);
  return found == by_device_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Session>> SessionTable::All() const {
  std::vector<std::shared_ptr<Session>> all;
  MutexLock lock(mutex_);
  for (const auto& [id, session] : by_device_) all.push_back(session);
  return all;
}

uint64_t SessionTable::End(const std::shared_ptr<Session>& session,
                           SessionEnd ending, const std::string& detail) {
  const Session::Identity& identity = session->identity();
  {
    MutexLock lock(mutex_);
    if (by_token_.erase(identity.token) == 0) return 0;
    ended_.push_back({identity.token,
                      fmt::format("the session of device '{}' has ended: {}",
                                  identity.name, SentenceFor(ending, detail))});
    if (ended_.size() > kMaxRemembered) ended_.pop_front();
  }
  tickets_->Revoke(identity.device_id);
  const auto [close, why] = WordsFor(ending);
  const uint64_t aborted = session->End(close, why);
  {
    // Not before its doorbells are free: a device that comes in its place needs
    // them. Not after anybody hears of the end, and comes.
    MutexLock lock(mutex_);
    by_device_.erase(identity.device_id);
    names_.erase(identity.name);
  }
  session->Close(close);
  PublishEnd(context_->bus, *session, ending, detail, aborted);
  const bool sudden =
      ending == SessionEnd::kDied || ending == SessionEnd::kEvicted ||
      ending == SessionEnd::kSilent || ending == SessionEnd::kLinkLost;
  spdlog::log(sudden ? spdlog::level::warn : spdlog::level::info,
              "device '{}' (pid {}) is gone: {}; {} events {}", identity.name,
              identity.owner->pid, SentenceFor(ending, detail), aborted,
              ending == SessionEnd::kRestart ? "left to it" : "aborted");
  return aborted;
}

void SessionTable::EndDevice(uint32_t device_id, SessionEnd ending) {
  if (const auto session = FindDevice(device_id)) End(session, ending);
}

void SessionTable::EndDevice(const DeviceMemory* memory, SessionEnd ending,
                             const std::string& detail) {
  for (const auto& session : All()) {
    if (&session->memory() == memory) End(session, ending, detail);
  }
}

void SessionTable::Tick(Nanoseconds now, Nanoseconds lease_ns) {
  // If gpud itself was stopped, the silence of that time does not count against
  // a device's lease.
  const bool was_away = now > last_tick_ns_ + kMaxTickNs;
  last_tick_ns_ = now;
  for (const auto& session : All()) {
    session->Tick(now, was_away);
    if (const auto touched = session->space().CheckTouched(); !touched.ok()) {
      End(session, SessionEnd::kEvicted, std::string(touched.message()));
      continue;
    }
    if (lease_ns == 0 || session->LeaseUsed(now) <= lease_ns ||
        session->state() == SessionState::kAttaching) {
      continue;
    }
    const Session::Identity& identity = session->identity();
    const double silent_s = static_cast<double>(session->SilentFor(now)) / 1e9;
    // Whoever debugs it may take as long as they like.
    if (const pid_t tracer = identity.owner->tracer(); tracer != 0) {
      session->RenewLease(now);
      spdlog::info(
          "device '{}' (pid {}) gave no sign of life for {:.1f} s, but keeps "
          "its session: process {} debugs it",
          identity.name, identity.owner->pid, silent_s, tracer);
      continue;
    }
    End(session, SessionEnd::kSilent,
        fmt::format("it gave no sign of life for {:.1f} s, and its lease is "
                    "{:.1f} s",
                    silent_s, static_cast<double>(lease_ns) / 1e9));
  }
}

void SessionTable::PeerDied(const Peer& peer) {
  for (const auto& session : All()) {
    if (session->identity().owner.get() == &peer)
      End(session, SessionEnd::kDied);
  }
}

void SessionTable::Shutdown(SessionEnd ending) {
  {
    MutexLock lock(mutex_);
    shutting_down_ = true;
  }
  for (const auto& session : All()) End(session, ending);
}

}  // namespace carillon::gpud
