#include "gpu_daemon/control/sessions/handover_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "shm/faults/point.h"
#include "shm/handover.h"

namespace carillon::gpud {
absl::StatusOr<std::unique_ptr<HandoverServer>> HandoverServer::Open(
    const std::string& path, std::vector<uid_t> users, EventLoop* loop,
    TicketStore* tickets, SessionTable* sessions) {
  ASSIGN_OR_RETURN(auto listener,
                   UnixListener::Listen(path, SOCK_SEQPACKET, users));
  std::unique_ptr<HandoverServer> desk(new HandoverServer(
      std::move(listener), std::move(users), loop, tickets, sessions));
  ASSIGN_OR_RETURN(desk->listener_watch_,
                   loop->Watch(desk->listener_.fd(),
                               [self = desk.get()] { self->Accept(); }));
  return desk;
}

HandoverServer::HandoverServer(UnixListener listener, std::vector<uid_t> users,
                               EventLoop* loop, TicketStore* tickets,
                               SessionTable* sessions)
    : listener_(std::move(listener)),
      users_(std::move(users)),
      loop_(loop),
      tickets_(tickets),
      sessions_(sessions) {}

HandoverServer::~HandoverServer() {
  loop_->Unwatch(listener_watch_);
  for (const auto& [id, pending] : pending_) loop_->Unwatch(pending.watch);
}

absl::Status HandoverServer::CheckRoom(
    const PeerCredentials& credentials) const {
  if (pending_.size() >= kMaxPending) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} connections wait for a hand-over: try again", pending_.size()));
  }
  const auto own = static_cast<size_t>(
      std::count_if(pending_.begin(), pending_.end(), [&](const auto& entry) {
        return entry.second.credentials.pid == credentials.pid;
      }));
  if (own < kMaxPendingOfAProcess) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("process {} has {} connections that wait for a hand-over: "
                  "that is the limit; present a ticket on one of them",
                  credentials.pid, own));
}

void HandoverServer::Accept() {
  UniqueFd connection = listener_.Accept();
  if (!connection) return;
  auto credentials = CredentialsOf(connection.get());
  absl::Status status = credentials.status();
  if (status.ok()) status = CheckUser(credentials->uid, geteuid(), users_);
  if (status.ok()) status = CheckRoom(*credentials);
  if (!status.ok()) {
    refusals_.Warn(fmt::format("hand-over refused: {}", status.message()),
                   NowNs());
    shm::SendRefusal(connection.get(), status);
    return;
  }
  const uint64_t id = next_id_++;
  auto watch = loop_->Watch(connection.get(), [this, id] { Serve(id); });
  if (!watch.ok()) {
    shm::SendRefusal(connection.get(), watch.status());
    return;
  }
  pending_[id] = {.connection = std::move(connection),
                  .watch = *watch,
                  .credentials = *credentials,
                  .deadline_ns = NowNs() + TicketStore::kValidNs};
}

void HandoverServer::Serve(uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  PendingConnection pending = std::move(found->second);
  pending_.erase(found);
  loop_->Unwatch(pending.watch);
  if (auto status = HandOver(pending); !status.ok()) {
    refusals_.Warn(fmt::format("hand-over to process {} refused: {}",
                               pending.credentials.pid, status.message()),
                   NowNs());
    if (pending.connection) {
      shm::SendRefusal(pending.connection.get(), status);
    }
  }
}

absl::Status HandoverServer::HandOver(PendingConnection& pending) {
  // The socket is readable already, so this does not wait.
  ASSIGN_OR_RETURN(auto ticket,
                   shm::ReceiveTicket(pending.connection.get(),
                                      std::chrono::milliseconds(0)));
  auto device_id = tickets_->Redeem(ticket, pending.credentials, NowNs());
  if (!device_id.ok()) return device_id.status();
  const auto session = sessions_->FindDevice(*device_id);
  if (session == nullptr) {
    return absl::PermissionDeniedError(
        "the session of this ticket has ended; attach again");
  }
  if (faults::At(faults::Point::kGpudHandover,
                 {.device = session->identity().name})) {
    pending.connection.reset();
    sessions_->End(session, SessionEnd::kNeverFetched);
    return absl::UnavailableError("an injected fault");
  }
  auto status =
      session->HandOver(std::move(pending.connection),
                        [sessions = sessions_, device_id = *device_id] {
                          const auto session = sessions->FindDevice(device_id);
                          if (session == nullptr) return;
                          switch (session->ReadConnection()) {
                            case Session::ConnectionNews::kNone:
                              break;
                            case Session::ConnectionNews::kEndOfFile:
                              sessions->End(session, SessionEnd::kDied);
                              break;
                            case Session::ConnectionNews::kData:
                              sessions->End(session, SessionEnd::kEvicted,
                                            "data on the hand-over connection");
                          }
                        });
  // The ticket is spent: a session without apertures would be of no use.
  if (!status.ok()) sessions_->End(session, SessionEnd::kNeverFetched);
  return status;
}

void HandoverServer::Expire(Nanoseconds now) {
  refusals_.Tick(now);
  for (const uint32_t device_id : tickets_->TakeExpired(now)) {
    sessions_->EndDevice(device_id, SessionEnd::kNeverFetched);
  }
  std::erase_if(pending_, [&](auto& entry) {
    if (now <= entry.second.deadline_ns) return false;
    loop_->Unwatch(entry.second.watch);
    return true;
  });
}

}  // namespace carillon::gpud
