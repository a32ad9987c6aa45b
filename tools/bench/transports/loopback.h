// TCP connections of this machine to itself.
#ifndef CARILLON_TOOLS_BENCH_TRANSPORTS_LOOPBACK_H_
#define CARILLON_TOOLS_BENCH_TRANSPORTS_LOOPBACK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace carillon::bench {

struct Listener {
  UniqueFd fd;
  uint16_t port;
};
// At any free port. Errors: Internal.
absl::StatusOr<Listener> ListenOnLoopback();
// Errors: Internal.
absl::StatusOr<UniqueFd> DialLoopback(uint16_t port);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_LOOPBACK_H_
