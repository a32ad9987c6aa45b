// The control plane's TCP socket, for other machines. gpud accepts connections
// itself, so that it can count and end them, and gives them to gRPC, which
// speaks TLS.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_TCP_LISTENER_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_TCP_LISTENER_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/net/event_loop.h"
#include "gpu_daemon/control/net/refusal_log.h"

namespace carillon::gpud {

class TcpListener {
 public:
  // No certificate has been shown when a connection is accepted. The limits
  // keep strangers from taking the descriptors that devices need.
  static constexpr size_t kMaxConnections = 128;
  static constexpr size_t kMaxOfAnAddress = 32;
  // A client's part of TLS, with three certificates, is half as long.
  static constexpr uint64_t kMaxUnservedBytes = 6000;
  // Two images; and what a connection may have of it in any case.
  static constexpr uint64_t kMaxUnreadBytes = 64 << 20;
  static constexpr uint64_t kMaxUnreadOfOne = 1 << 20;
  // Once a connection has been cut for a flood, nobody new is let in for so
  // long: the calls of the last ones end before others begin theirs. Without
  // it, those who are cut and connect again took 300 MB of gpud.
  static constexpr Nanoseconds kPauseNs = 300'000'000;
  // Between one pause and the next.
  static constexpr Nanoseconds kOpenNs = 100'000'000;

  // Takes over an accepted connection.
  using OnConnection = std::function<void(int listener, int connection)>;

  // `address` is one that ReadListenAddress() takes; port 0 means any free
  // port. Accepts on the loop's thread. Errors: InvalidArgument, Unavailable
  // (with the system's reason).
  static absl::StatusOr<std::unique_ptr<TcpListener>> Open(
      const std::string& address, EventLoop* loop, OnConnection on_connection);
  ~TcpListener();

  // The address that it listens on, with the real port.
  const std::string& address() const { return address_; }
  // Counts the open connections, those that do not speak TLS yet included.
  // Thread safe.
  size_t connections();
  // Counts the connections that were refused because too many were open. Thread
  // safe.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  // What the open connections have sent beside whole calls. Thread safe.
  uint64_t unread_bytes();

  // Ends the connection of an RPC (grpc::ServerContext::peer()), or all of
  // them, for the same reason as PeerTable. Thread safe.
  void Cut(std::string_view grpc_peer);
  void CutAll();
  // Says that a call of that connection has come whole, or the flow control of a
  // message that went to it, and has had at most so many bytes.
  void MarkServed(std::string_view grpc_peer, uint64_t bytes);
  // Ends a connection whose client begins calls and completes none, with what
  // it has sent and gRPC has not read. gRPC cannot name the peer of a call that
  // it has not read; for an empty name it is every connection that was never
  // served, and has sent more than agreeing on TLS and a first call take. Who
  // connects within kPauseNs of it waits. Thread safe.
  void CutFlood(std::string_view grpc_peer);

  // Ends the connections that have sent much and no whole call with it, once
  // all together have sent kMaxUnreadBytes so. gRPC's own quota notices later
  // than a flood takes memory. Call it on the loop's thread, often.
  void CutHoards();

  // Tick() lets in who waits for the end of a pause, and logs how many refusals
  // were left out of the log; Close() closes the listening socket. Call both on
  // the loop's thread, or when it does not run.
  void Tick(Nanoseconds now);
  void Close();

 private:
  struct Connection {
    std::string host;
    std::string grpc_peer;
    // The socket's. Once gRPC has closed the socket, its number may be another
    // file's, which has another inode.
    ino_t inode = 0;
    bool served = false;
    // Of the bytes that it has sent, those that whole calls account for.
    uint64_t read_bytes = 0;
  };

  TcpListener(UniqueFd listener, std::string address, EventLoop* loop,
              OnConnection on_connection);
  void Accept();
  absl::Status Admit(int connection);
  // Hands those who wait to gRPC, unless there is a pause.
  void LetIn(Nanoseconds now);
  void CutForAFlood(int connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of one connection; 0 if it is closed.
  static uint64_t UnreadOf(int connection, const Connection& entry);
  void ForgetClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  UniqueFd listener_;
  UniqueFd reserve_;
  const std::string address_;
  EventLoop* const loop_;
  const OnConnection on_connection_;
  EventLoop::WatchId watch_ = 0;
  RefusalLog refusals_;
  // Writer: the loop's thread; readers: any. Relaxed, because only the number
  // counts.
  std::atomic<uint64_t> refused_{0};
  // Accepted, and not let in yet. The loop's thread alone has them.
  std::vector<UniqueFd> waiting_;
  Mutex mutex_;
  Nanoseconds pause_ends_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  // Numbers are reused: each accept overwrites what its number meant before.
  std::map<int, Connection> connections_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_TCP_LISTENER_H_
