// Transports for a 64-byte request to another process and its 64-byte reply.
// Each transport is one file of this folder and one line of all_transports.cc.
#ifndef CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORT_H_
#define CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "tools/bench/transports/wait.h"

namespace carillon::bench {

struct Message {
  uint64_t sequence = 0;
  uint8_t payload[56] = {};
};
static_assert(sizeof(Message) == 64);

// The requesting side. One thread.
class Client {
 public:
  virtual ~Client() = default;

  // Sends a request, which may stay buffered until Flush(). At most kMaxWindow
  // requests are unanswered at a time.
  virtual absl::Status Send(const Message& request) = 0;
  virtual absl::Status Flush() { return absl::OkStatus(); }
  // Waits for the next reply. Replies may come in any order.
  virtual absl::Status Receive(Message* reply) = 0;
  // Waits idly, as a client does that has nothing to send.
  virtual void Idle(std::chrono::milliseconds time) {
    std::this_thread::sleep_for(time);
  }
  // Send, Flush and Receive in one, for a transport with a faster way.
  virtual absl::Status RoundTrip(const Message& request, Message* reply) {
    RETURN_IF_ERROR(Send(request));
    RETURN_IF_ERROR(Flush());
    return Receive(reply);
  }
};

// The error of a client that has waited for kPatience.
inline absl::Status Silent() {
  return absl::DeadlineExceededError("the other side does not answer");
}

inline constexpr uint32_t kMaxWindow = 128;
// The same of the transports between hosts, whose round trip is longer.
inline constexpr uint32_t kMaxLinkWindow = 1024;

// A server calls it before it serves.
using AnnounceReady = void (*)(const std::string& endpoint);

struct Transport {
  std::string_view name;
  std::string_view label;
  // The server: calls `ready` with what the client needs to find it, and serves
  // until it is killed. `directory` is empty and belongs to the server. Null:
  // gpud is the server, and the endpoint is the testbed's directory. Both sides
  // must wait in the same way: a server that spins wakes no client.
  absl::Status (*serve)(const std::string& directory, Wait wait,
                        AnnounceReady ready);
  absl::StatusOr<std::unique_ptr<Client>> (*connect)(
      const std::string& endpoint, Wait wait);
  // Removes what a killed server leaves outside of its directory; may be null.
  void (*clean_up)(const std::string& directory) = nullptr;
};

std::span<const Transport> AllTransports();
// Returns nullptr for an unknown name.
const Transport* FindTransport(std::string_view name);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORT_H_
