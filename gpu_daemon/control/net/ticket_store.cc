#include "gpu_daemon/control/net/ticket_store.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::gpud {

absl::StatusOr<shm::Ticket> RandomTicket() {
  shm::Ticket ticket;
  if (getrandom(ticket.data(), ticket.size(), 0) !=
      static_cast<ssize_t>(ticket.size())) {
    return absl::InternalError(
        fmt::format("getrandom: {}", std::strerror(errno)));
  }
  return ticket;
}

absl::StatusOr<shm::Ticket> TicketStore::Issue(uint32_t device_id,
                                               const PeerCredentials& owner,
                                               Nanoseconds now) {
  ASSIGN_OR_RETURN(const shm::Ticket ticket, RandomTicket());
  MutexLock lock(mutex_);
  tickets_[ticket] = {.device_id = device_id,
                      .owner = owner,
                      .expires_ns = now + valid_ns_,
                      .state = State::kOpen};
  return ticket;
}

absl::StatusOr<uint32_t> TicketStore::Redeem(const shm::Ticket& ticket,
                                             const PeerCredentials& bearer,
                                             Nanoseconds now) {
  MutexLock lock(mutex_);
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) {
    return absl::PermissionDeniedError(
        "unknown ticket: attach first, and present the ticket that Attach "
        "returned");
  }
  Entry& entry = found->second;
  if (entry.owner.pid != bearer.pid || entry.owner.uid != bearer.uid) {
    return absl::PermissionDeniedError(
        fmt::format("this ticket was issued to process {}, not to process {}: "
                    "the process that attaches must fetch the apertures itself",
                    entry.owner.pid, bearer.pid));
  }
  if (entry.state == State::kUsed) {
    return absl::PermissionDeniedError(
        "this ticket was already used: a ticket is good for one hand-over; "
        "attach again");
  }
  if (entry.state == State::kExpired || now > entry.expires_ns) {
    return absl::PermissionDeniedError(
        fmt::format("this ticket has expired: it was good for {} ms; attach "
                    "again",
                    valid_ns_ / 1'000'000));
  }
  entry.state = State::kUsed;
  return entry.device_id;
}

std::vector<uint32_t> TicketStore::TakeExpired(Nanoseconds now) {
  std::vector<uint32_t> expired;
  MutexLock lock(mutex_);
  for (auto& [ticket, entry] : tickets_) {
    if (entry.state == State::kOpen && now > entry.expires_ns) {
      entry.state = State::kExpired;
      expired.push_back(entry.device_id);
    }
  }
  std::erase_if(tickets_, [now](const auto& item) {
    return item.second.state != State::kOpen &&
           now > item.second.expires_ns + kRememberNs;
  });
  return expired;
}

void TicketStore::Revoke(uint32_t device_id) {
  MutexLock lock(mutex_);
  for (auto& [ticket, entry] : tickets_) {
    if (entry.device_id == device_id && entry.state == State::kOpen) {
      entry.state = State::kExpired;
    }
  }
}

}  // namespace carillon::gpud
