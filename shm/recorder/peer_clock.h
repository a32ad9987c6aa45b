// How another host's clock differs from this one's: a file beside the flight
// recorders' of a host whose events go by link, so that both hosts' records can
// be put in one order.
#ifndef CARILLON_SHM_RECORDER_PEER_CLOCK_H_
#define CARILLON_SHM_RECORDER_PEER_CLOCK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace carillon::shm {

struct PeerClock {
  std::string host;  // this one
  std::string peer;  // the GPU's
  // The peer's CLOCK_MONOTONIC less this host's.
  int64_t offset_ns = 0;
  Nanoseconds error_ns = 0;  // it is not further away than that

  bool operator==(const PeerClock&) const = default;
};

// Errors: PermissionDenied, with the path and why.
absl::Status WritePeerClock(const std::string& directory,
                            const PeerClock& clock);
// Empty: there is none. Errors: InvalidArgument: what there is cannot be read.
absl::StatusOr<std::optional<PeerClock>> ReadPeerClock(
    const std::string& directory);

}  // namespace carillon::shm

#endif  // CARILLON_SHM_RECORDER_PEER_CLOCK_H_
