#include "gpu_daemon/relay/relayed_sessions.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "shm/handover.h"

namespace carillon::gpud {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// Of all processes together.
constexpr size_t kMaxConnections = 1024;
// A device presents its ticket as soon as it has connected.
constexpr Nanoseconds kTicketWithin = 5'000'000'000;

}  // namespace

RelayedSessions::RelayedSessions(EventLoop* loop, std::string peer,
                                 uint64_t first_id, Send send,
                                 std::function<void()> on_said)
    : loop_(loop),
      peer_(std::move(peer)),
      send_(std::move(send)),
      on_said_(std::move(on_said)),
      next_id_(first_id) {}

void RelayedSessions::Say(const v1::SessionStep& step) {
  send_(step);
  on_said_();
}

void RelayedSessions::Pause() {
  for (auto& [id, calls] : calls_) loop_->Unwatch(calls.watch);
}

void RelayedSessions::GoOn() {
  std::vector<uint64_t> unwatched;
  for (auto& [id, calls] : calls_) {
    const auto watch = loop_->Watch(calls.connection.get(),
                                    [this, id = id] { ReadCalls(id); });
    if (watch.ok()) {
      calls.watch = *watch;
    } else {
      unwatched.push_back(id);
    }
  }
  for (const uint64_t id : unwatched) CloseCalls(id, /*tell=*/true);
}

void RelayedSessions::EndAll(shm::CloseReason why) {
  while (!devices_.empty()) {
    EndDevice(devices_.begin()->first, why, /*tell=*/true);
  }
  while (!calls_.empty()) CloseCalls(calls_.begin()->first, /*tell=*/true);
}

// --- The control socket.

void RelayedSessions::AddCalls(UniqueFd connection, pid_t pid) {
  const auto of_process = [&](const auto& one) {
    return one.second.pid == pid;
  };
  if (calls_.size() >= kMaxConnections ||
      std::ranges::count_if(calls_, of_process) >=
          kMaxConnectionsBesideDevices +
              std::ranges::count_if(devices_, of_process)) {
    return Refuse("connections", pid);
  }
  const uint64_t id = next_id_++;
  auto watch = loop_->Watch(connection.get(), [this, id] { ReadCalls(id); });
  if (!watch.ok()) return;
  calls_[id] = {std::move(connection), *watch, pid};
  v1::SessionStep step;
  step.mutable_open()->set_connection(id);
  step.mutable_open()->set_process(static_cast<uint64_t>(pid));
  Say(step);
}

void RelayedSessions::ReadCalls(uint64_t id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  static thread_local std::array<char, kReadBytes> buffer;
  const ssize_t count = recv(found->second.connection.get(), buffer.data(),
                             buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return CloseCalls(id, /*tell=*/true);
  // What the process has written so far is what its call is about.
  for (auto& [device_id, device] : devices_) {
    if (device.pid != found->second.pid || device.session == nullptr) continue;
    device.session->SendChanges();
  }
  v1::SessionStep step;
  step.mutable_bytes()->set_connection(id);
  step.mutable_bytes()->set_bytes(buffer.data(), static_cast<size_t>(count));
  Say(step);
}

void RelayedSessions::EndCalls(uint64_t id) {
  const auto found = calls_.find(id);
  if (found != calls_.end() && !found->second.answered) {
    refusals_.Warn(
        fmt::format("host '{}' has closed a connection of process {} before it "
                    "answered: all devices of this host share the connections "
                    "of one process there; the log of its gpud says whether "
                    "they are too many",
                    peer_, found->second.pid),
        NowNs());
  }
  CloseCalls(id, /*tell=*/false);
}

void RelayedSessions::CloseCalls(uint64_t id, bool tell) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  loop_->Unwatch(found->second.watch);
  calls_.erase(found);
  if (!tell) return;
  v1::SessionStep step;
  step.mutable_close()->set_connection(id);
  Say(step);
}

// --- The hand-over socket.

void RelayedSessions::AddDevice(UniqueFd connection, pid_t pid) {
  if (devices_.size() >= kMaxConnections ||
      std::ranges::count_if(devices_, [&](const auto& one) {
        return one.second.pid == pid && one.second.session == nullptr;
      }) >= kMaxPending) {
    return Refuse("connections that wait for a hand-over", pid);
  }
  const uint64_t id = next_id_++;
  auto watch = loop_->Watch(connection.get(), [this, id] { ReadDevice(id); });
  if (!watch.ok()) return;
  Device& device = devices_[id];
  device.connection = std::move(connection);
  device.watch = *watch;
  device.pid = pid;
  device.ticket_until = NowNs() + kTicketWithin;
}

void RelayedSessions::Refuse(const std::string& too_many, pid_t pid) {
  refusals_.Warn(fmt::format("process {} has too many {}: that is the limit of "
                             "a process, or all have {}",
                             pid, too_many, kMaxConnections),
                 NowNs());
}

void RelayedSessions::Expire(Nanoseconds now) {
  refusals_.Tick(now);
  std::vector<uint64_t> expired;
  for (const auto& [id, device] : devices_) {
    if (!device.asked && now > device.ticket_until) expired.push_back(id);
  }
  for (const uint64_t id : expired) {
    EndDevice(id, shm::CloseReason::kEvicted, /*tell=*/false);
  }
}

// A ticket; after it nothing but the end is to come.
void RelayedSessions::ReadDevice(uint64_t id) {
  const auto found = devices_.find(id);
  if (found == devices_.end()) return;
  Device& device = found->second;
  if (device.asked) {
    return EndDevice(id, shm::CloseReason::kPeerDied, /*tell=*/true);
  }
  if (auto status = Fetch(id, device); !status.ok()) {
    shm::SendRefusal(device.connection.get(), status);
    EndDevice(id, shm::CloseReason::kEvicted, /*tell=*/false);
  }
}

absl::Status RelayedSessions::Fetch(uint64_t id, Device& device) {
  ASSIGN_OR_RETURN(const auto ticket,
                   shm::ReceiveTicket(device.connection.get(),
                                      std::chrono::milliseconds(0)));
  device.asked = true;
  v1::SessionStep step;
  v1::FetchSession* const fetch = step.mutable_fetch();
  fetch->set_session(id);
  fetch->set_process(static_cast<uint64_t>(device.pid));
  fetch->set_ticket(ticket.data(), ticket.size());
  Say(step);
  return absl::OkStatus();
}

absl::Status RelayedSessions::HandOver(const v1::FetchedSession& fetched,
                                       Device& device) {
  if (fetched.code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(fetched.code()),
                        fetched.refusal());
  }
  if (!device.asked || device.session != nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "host '{}' hands over a session that this device has not asked for",
        peer_));
  }
  ASSIGN_OR_RETURN(device.session, RelayedSession::Make(fetched, send_));
  {
    MutexLock lock(mutex_);
    pids_[fetched.device_id()] = device.pid;
  }
  return device.session->HandOver(device.connection.get());
}

void RelayedSessions::EndDevice(uint64_t id, shm::CloseReason why, bool tell) {
  const auto found = devices_.find(id);
  if (found == devices_.end()) return;
  Device device = std::move(found->second);
  devices_.erase(found);
  loop_->Unwatch(device.watch);
  if (device.session != nullptr) {
    device.session->Close(why);
    MutexLock lock(mutex_);
    pids_.erase(device.session->device_id());
  }
  if (!tell) return;
  v1::SessionStep step;
  step.mutable_end()->set_session(id);
  Say(step);
}

// --- What the other host says.

void RelayedSessions::WriteCalls(const v1::CallBytes& bytes) {
  const auto found = calls_.find(bytes.connection());
  if (found == calls_.end()) return;
  found->second.answered = true;
  // gRPC's windows are smaller than the socket's room: whoever has none left
  // does not read, and must not hold up the others.
  if (send(found->second.connection.get(), bytes.bytes().data(),
           bytes.bytes().size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.bytes().size())) {
    CloseCalls(found->first, /*tell=*/true);
  }
}

void RelayedSessions::Take(const v1::SessionStep& step) {
  const auto device_of = [&](uint64_t id) -> RelayedSession* {
    const auto found = devices_.find(id);
    return found == devices_.end() ? nullptr : found->second.session.get();
  };
  switch (step.step_case()) {
    case v1::SessionStep::kBytes:
      return WriteCalls(step.bytes());
    case v1::SessionStep::kClose:
      return EndCalls(step.close().connection());
    case v1::SessionStep::kFetched: {
      const uint64_t id = step.fetched().session();
      const auto found = devices_.find(id);
      if (found == devices_.end()) return;  // it has gone
      const auto status = HandOver(step.fetched(), found->second);
      if (status.ok()) return;
      shm::SendRefusal(found->second.connection.get(), status);
      return EndDevice(id, shm::CloseReason::kEvicted, /*tell=*/true);
    }
    case v1::SessionStep::kChanged:
      if (auto* const device = device_of(step.changed().session());
          device != nullptr && !device->Store(step.changed())) {
        refusals_.Warn(
            fmt::format("host {} changes what it has not in the memory of a "
                        "device",
                        peer_),
            NowNs());
      }
      return;
    case v1::SessionStep::kTurn:
      if (auto* const device = device_of(step.turn().session())) {
        device->GiveTurn(step.turn().now_ns());
      }
      return;
    case v1::SessionStep::kEnd:
      return EndDevice(step.end().session(),
                       static_cast<shm::CloseReason>(step.end().reason()),
                       /*tell=*/false);
    case v1::SessionStep::kDevices: {
      MutexLock lock(mutex_);
      if (!listed_.ParseFromString(step.devices())) listed_.Clear();
      return;
    }
    default:
      refusals_.Warn(fmt::format("host {} says what it may not", peer_),
                     NowNs());
  }
}

// As the other host has them, but for their processes, which are here.
v1::ListDevicesResponse RelayedSessions::Devices() {
  MutexLock lock(mutex_);
  v1::ListDevicesResponse here;
  for (const v1::Device& listed : listed_.devices()) {
    const auto pid = pids_.find(listed.device_id());
    if (pid == pids_.end()) continue;
    v1::Device* const device = here.add_devices();
    *device = listed;
    device->set_pid(static_cast<uint32_t>(pid->second));
  }
  return here;
}

}  // namespace carillon::gpud
