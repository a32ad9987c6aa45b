// What both ends' threads need of sockets, and of what they say about them.
#ifndef CARILLON_MESH_LINK_SOCKETS_H_
#define CARILLON_MESH_LINK_SOCKETS_H_

#include <netdb.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/host_port.h"
#include "base/unique_fd.h"
#include "mesh/link_engine.h"
#include "mesh/ucx_library.h"

namespace carillon::mesh {

inline constexpr size_t kReadBytes = 64 << 10;
// The near end's, for a dial, and then for all that comes before HELLO; the far
// end's, from a connection to its HELLO.
inline constexpr Nanoseconds kHelloTimeout = 5'000'000'000;

// Wakes a thread that polls.
class Alarm {
 public:
  Alarm();
  void Ring() const;
  void Clear() const;
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// A peer that has gone must not end this process, whose thread is a caller's.
void BlockSigpipe();

int MillisecondsUntil(Nanoseconds when, Nanoseconds now);

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;
absl::StatusOr<Addresses> Resolve(const HostPort& address);

// It does not block.
UniqueFd NewSocket(const addrinfo& address);

// An event is not to wait for the one before.
void SendAtOnce(int fd);

absl::Status Unavailable(const HostPort& address, int error);

absl::Status SilentFor(Nanoseconds timeout);

// Null: the engine needs none.
absl::StatusOr<std::shared_ptr<UcxContext>> UcxFor(Engine engine);

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_LINK_SOCKETS_H_
