#include "devices/link/linked_sessions.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace carillon::link {
namespace {

constexpr size_t kReadBytes = 64 << 10;

}  // namespace

LinkedSessions::LinkedSessions(std::string host, Gpud gpud, Send send)
    : host_(std::move(host)), gpud_(std::move(gpud)), send_(std::move(send)) {}

void LinkedSessions::Clear() {
  devices_.clear();
  calls_.clear();
}

void LinkedSessions::Watch(bool answers, std::vector<pollfd>* fds) {
  watched_.clear();
  if (answers) {
    for (const auto& [id, calls] : calls_) {
      fds->push_back({calls.connection.get(), POLLIN, 0});
      watched_.push_back(id);
    }
  }
  watched_calls_ = watched_.size();
  for (const auto& [id, device] : devices_) {
    fds->push_back({device.session->connection_fd(), POLLIN, 0});
    watched_.push_back(id);
  }
}

void LinkedSessions::Read(std::span<const pollfd> fds) {
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    if (i < watched_calls_) {
      ReadCalls(watched_[i]);
    } else {
      TellEnded(watched_[i]);
    }
  }
}

void LinkedSessions::Take(const v1::SessionStep& step) {
  const auto device_of = [&](uint64_t id) -> LinkedSession* {
    const auto found = devices_.find(id);
    return found == devices_.end() ? nullptr : found->second.session.get();
  };
  switch (step.step_case()) {
    case v1::SessionStep::kOpen:
      return OpenCalls(step.open());
    case v1::SessionStep::kBytes:
      return WriteCalls(step.bytes());
    case v1::SessionStep::kClose:
      calls_.erase(step.close().connection());
      return;
    case v1::SessionStep::kFetch:
      return Fetch(step.fetch());
    case v1::SessionStep::kChanged:
      if (auto* const device = device_of(step.changed().session());
          device != nullptr && !device->Store(step.changed())) {
        spdlog::error("a device of host {} writes where it may not", host_);
        EndDevice(step.changed().session(), shm::CloseReason::kEvicted);
      }
      return;
    case v1::SessionStep::kAnswer:
      if (auto* const device = device_of(step.answer().session())) {
        device->AnswerTurn(step.answer().next_ns());
      }
      return;
    case v1::SessionStep::kEnd:
      devices_.erase(step.end().session());
      return;
    default:
      // It may do so again and again.
      if (!std::exchange(warned_, true)) {
        spdlog::error("host {} says what it may not", host_);
      }
  }
}

void LinkedSessions::OpenCalls(const v1::OpenCalls& open) {
  if (calls_.size() >= kMaxConnections) return TellClosed(open.connection());
  auto connection = gpud_.connect();
  if (!connection.ok()) return TellClosed(open.connection());
  calls_[open.connection()] = {*std::move(connection), open.process()};
}

void LinkedSessions::WriteCalls(const v1::CallBytes& bytes) {
  const auto found = calls_.find(bytes.connection());
  if (found == calls_.end()) return;
  std::string_view left = bytes.bytes();
  while (!left.empty()) {
    const ssize_t count = send(found->second.connection.get(), left.data(),
                               left.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return TellClosed(bytes.connection());
    left.remove_prefix(static_cast<size_t>(count));
  }
}

void LinkedSessions::ReadCalls(uint64_t id) {
  static thread_local std::array<char, kReadBytes> buffer;
  const auto found = calls_.find(id);
  const ssize_t count = recv(found->second.connection.get(), buffer.data(),
                             buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return TellClosed(id);
  // What gpud answers is about memory as it is by now.
  for (auto& [device_id, device] : devices_) {
    if (device.process == found->second.process) device.session->SendChanges();
  }
  v1::SessionStep step;
  step.mutable_bytes()->set_connection(id);
  step.mutable_bytes()->set_bytes(buffer.data(), static_cast<size_t>(count));
  send_(step);
}

void LinkedSessions::TellClosed(uint64_t id) {
  calls_.erase(id);
  v1::SessionStep step;
  step.mutable_close()->set_connection(id);
  send_(step);
}

absl::StatusOr<std::unique_ptr<LinkedSession>> LinkedSessions::Open(
    const v1::FetchSession& wanted) const {
  shm::Ticket ticket;
  if (wanted.ticket().size() != ticket.size()) {
    return absl::InvalidArgumentError("the ticket has another size");
  }
  std::copy(wanted.ticket().begin(), wanted.ticket().end(), ticket.begin());
  ASSIGN_OR_RETURN(auto handed, gpud_.fetch(ticket));
  return LinkedSession::Open(wanted.session(), std::move(handed), send_);
}

void LinkedSessions::Fetch(const v1::FetchSession& wanted) {
  auto session = Open(wanted);
  v1::SessionStep step;
  if (!session.ok()) {
    step.mutable_fetched()->set_session(wanted.session());
    step.mutable_fetched()->set_code(
        static_cast<uint32_t>(session.status().code()));
    step.mutable_fetched()->set_refusal(
        std::string(session.status().message()));
    return send_(step);
  }
  *step.mutable_fetched() = (*session)->Describe();
  send_(step);
  (*session)->Start();
  devices_[wanted.session()] = {wanted.process(), *std::move(session)};
}

// gpud has ended it, or has died.
void LinkedSessions::TellEnded(uint64_t id) {
  LinkedSession& session = *devices_.at(id).session;
  session.SendChanges();
  EndDevice(id, session.close_reason());
}

void LinkedSessions::EndDevice(uint64_t id, shm::CloseReason why) {
  devices_.erase(id);
  v1::SessionStep step;
  step.mutable_end()->set_session(id);
  step.mutable_end()->set_reason(static_cast<uint32_t>(why));
  send_(step);
}

}  // namespace carillon::link
