// Ways to carry a 64-byte request to another process and its 64-byte reply
// back. Each transport is one file of this folder and one line of
// all_transports.cc.
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

namespace carillon::bench {

struct Message {
  uint64_t sequence = 0;
  uint8_t payload[56] = {};
};
static_assert(sizeof(Message) == 64);

// No wait of a client or server is longer.
inline constexpr std::chrono::seconds kPatience{10};

// The side that asks. One thread.
class Client {
 public:
  virtual ~Client() = default;

  // Hands a request over; it may stay here until Flush(). At most kMaxWindow
  // requests are unanswered at a time.
  virtual absl::Status Send(const Message& request) = 0;
  virtual absl::Status Flush() { return absl::OkStatus(); }
  // The next reply: waits for it. Replies may come in any order.
  virtual absl::Status Receive(Message* reply) = 0;
  // Does nothing, as a client does that waits for something to come.
  virtual void Idle(std::chrono::milliseconds time) {
    std::this_thread::sleep_for(time);
  }
  // The first three in one, where a transport has a better way.
  virtual absl::Status RoundTrip(const Message& request, Message* reply) {
    RETURN_IF_ERROR(Send(request));
    RETURN_IF_ERROR(Flush());
    return Receive(reply);
  }
};

inline constexpr uint32_t kMaxWindow = 128;

// What a server says before it serves.
using AnnounceReady = void (*)(const std::string& endpoint);

struct Transport {
  std::string_view name;
  std::string_view label;
  // The server: calls `ready` with what the client needs to find it, and serves
  // until it is killed. `directory` is empty and its own. Null: the server is
  // gpud, and the endpoint is the testbed's directory.
  absl::Status (*serve)(const std::string& directory, AnnounceReady ready);
  // `spin`: how long a client that can do both spins before it sleeps;
  // negative: it never sleeps.
  absl::StatusOr<std::unique_ptr<Client>> (*connect)(
      const std::string& endpoint, std::chrono::nanoseconds spin);
  // Removes what a killed server leaves outside of its directory; may be null.
  void (*clean_up)(const std::string& directory) = nullptr;
};

std::span<const Transport> AllTransports();
// nullptr when there is none of that name.
const Transport* FindTransport(std::string_view name);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_TRANSPORT_H_
