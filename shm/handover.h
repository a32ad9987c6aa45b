// How a device gets its apertures: over a SOCK_SEQPACKET Unix socket it
// presents the ticket that Attach gave it, and receives three descriptors by
// SCM_RIGHTS in one message. The connection stays open for the life of the
// session: its end is a death notice.
#ifndef CARILLON_SHM_HANDOVER_H_
#define CARILLON_SHM_HANDOVER_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "shm/types.h"

namespace carillon::shm {

using Ticket = std::array<uint8_t, 16>;

struct HandoverRequest {
  uint64_t magic;  // kMagic
  uint32_t layout_version;
  uint32_t reserved;
  Ticket ticket;
};
static_assert(sizeof(HandoverRequest) == 32);

struct HandoverReply {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t status;  // absl::StatusCode; descriptors only with kOk
  uint32_t device_id;
  uint32_t generation;
  char message[232];  // zero-terminated
};
static_assert(sizeof(HandoverReply) == 256);

// The descriptors that a device holds after a hand-over.
struct HandedOver {
  uint32_t device_id = 0;
  Generation generation;
  UniqueFd submission;
  UniqueFd completion;
  UniqueFd completion_event;  // CompletionEvent::reader
  UniqueFd connection;        // readable end-of-file when gpud is gone
};

// Device side: connects, presents the ticket, receives. Waits at most
// `timeout`. Thread safe. Errors: Unavailable (no gpud there, or it closed),
// DeadlineExceeded, InvalidArgument (socket path), FailedPrecondition (other
// layout version, malformed reply, descriptors lost at this process's limit),
// and whatever gpud refuses the ticket with (its code, its sentence).
absl::StatusOr<HandedOver> FetchApertures(const std::string& socket_path,
                                          const Ticket& ticket,
                                          std::chrono::milliseconds timeout);

// gpud side. Reads the one request of a fresh connection (blocking for at most
// `timeout`); descriptors that come with it are dropped. Errors:
// DeadlineExceeded, Unavailable (the device left), InvalidArgument (size, magic
// or version; message says which).
absl::StatusOr<Ticket> ReceiveTicket(int connection,
                                     std::chrono::milliseconds timeout);
// Sends copies of the three descriptors; never blocks. Errors: Unavailable.
absl::Status SendApertures(int connection, uint32_t device_id,
                           Generation generation, int submission,
                           int completion, int completion_event);
// Best effort: the peer may be gone.
void SendRefusal(int connection, const absl::Status& why);

}  // namespace carillon::shm

#endif  // CARILLON_SHM_HANDOVER_H_
