// One-time tickets: Attach issues them over gRPC, and the hand-over socket
// takes them.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_TICKET_STORE_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_TICKET_STORE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/control/net/peer.h"
#include "shm/handover.h"
#include "shm/types.h"

namespace carillon::gpud {

// Thread safe. Times are CLOCK_MONOTONIC.
class TicketStore {
 public:
  static constexpr Nanoseconds kValidNs = 5'000'000'000;

  explicit TicketStore(Nanoseconds valid_ns = kValidNs) : valid_ns_(valid_ns) {}
  Nanoseconds valid_ns() const { return valid_ns_; }

  // Returns a new random ticket, with which the process `owner` may fetch the
  // apertures of device `device_id` once, until now + valid_ns(). Errors:
  // Internal (no randomness).
  absl::StatusOr<shm::Ticket> Issue(uint32_t device_id,
                                    const PeerCredentials& owner,
                                    Nanoseconds now);

  // Spends a ticket and returns its device. Errors, all PermissionDenied: the
  // ticket is unknown, already used, expired, or issued to another process (for
  // which it stays valid).
  absl::StatusOr<uint32_t> Redeem(const shm::Ticket& ticket,
                                  const PeerCredentials& bearer,
                                  Nanoseconds now);

  // Returns the devices whose tickets have expired unused since the last call.
  std::vector<uint32_t> TakeExpired(Nanoseconds now);

  // To be called when the device's session has ended: its ticket is void.
  void Revoke(uint32_t device_id);

 private:
  enum class State { kOpen, kUsed, kExpired };
  struct Entry {
    uint32_t device_id = 0;
    PeerCredentials owner;
    Nanoseconds expires_ns = 0;
    State state = State::kOpen;
  };
  // How long a spent ticket is remembered, for a better sentence when it comes
  // again.
  static constexpr Nanoseconds kRememberNs = 60'000'000'000;

  const Nanoseconds valid_ns_;
  Mutex mutex_;
  std::map<shm::Ticket, Entry> tickets_ ABSL_GUARDED_BY(mutex_);
};

// 16 bytes from the system's generator. Errors: Internal.
absl::StatusOr<shm::Ticket> RandomTicket();

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_TICKET_STORE_H_
