// Stands between a connection to the control socket and gRPC, and counts the
// calls that a client begins before it has acknowledged the server's SETTINGS.
//
// gRPC holds a client to GRPC_ARG_MAX_CONCURRENT_STREAMS only from that
// acknowledgement on. Each call that has begun takes some 15 KB of gpud, so a
// client that never acknowledges could take all memory. Over TCP, where gRPC
// alone sees what is in TLS, RoleGate counts calls.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_HTTP2_GUARD_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_HTTP2_GUARD_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/net/refusal_log.h"

namespace carillon::gpud {

// Reads the frames that a client sends, and of their bytes only the headers.
class Http2Frames {
 public:
  // A client that waits for the SETTINGS, as gRPC's do, begins none before.
  static constexpr uint32_t kMaxUnacknowledged = 64;

  // Returns false once the client has begun more calls than that without
  // acknowledging, or has acknowledged what `sent` says it has not been sent.
  bool Read(std::span<const uint8_t> bytes, bool sent);

 private:
  // Before the first frame there is HTTP/2's preface, which gRPC checks.
  static constexpr size_t kPrefaceBytes = 24;

  size_t skip_ = kPrefaceBytes;
  std::array<uint8_t, 9> header_{};
  size_t header_bytes_ = 0;
  uint32_t begun_ = 0;
  bool acknowledged_ = false;
};

// Carries the bytes of all connections, in a thread of its own. Thread safe.
class Http2Guard {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Http2Guard>> Start();
  // Delivers what gRPC has said, and ends the connections that are left.
  ~Http2Guard();

  // Returns the two ends of a new pair: gRPC gets the first in place of a
  // connection, Carry() the second. Errors: ResourceExhausted.
  static absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakePair();
  // Carries what comes on `client` to `server`, and back, until either ends or
  // the client breaks the rule. `name` is the client's, for the log. Errors:
  // ResourceExhausted; both ends are closed.
  absl::Status Carry(UniqueFd client, UniqueFd server, std::string name);

  // Logs how many refusals were left out of the log, if any were.
  void Tick(Nanoseconds now);

 private:
  // What has come from one end and not gone to the other.
  struct Way {
    UniqueFd from;
    std::vector<uint8_t> bytes;
    size_t gone = 0;

    bool empty() const { return gone == bytes.size(); }
  };
  struct Connection {
    std::string name;
    std::array<Way, 2> ways;  // from the client, from gRPC
    Http2Frames frames;
    bool sent = false;  // something has gone to the client
  };
  enum class Step { kMoved, kIdle, kEnded, kBroken };

  Http2Guard(UniqueFd epoll, UniqueFd stop);
  void Run();
  // `hung_up`: one end is closed, so what cannot go now never will.
  static Step Move(Connection& connection, bool hung_up);
  bool Watch(uint64_t id, const Connection& connection, int operation);

  const UniqueFd epoll_;
  const UniqueFd stop_;
  Mutex mutex_;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  RefusalLog refusals_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_HTTP2_GUARD_H_
