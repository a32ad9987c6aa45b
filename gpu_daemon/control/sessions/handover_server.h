// The Unix socket on which devices fetch their apertures. One message comes in
// and one goes out; from then on the connection stands for the session.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_HANDOVER_SERVER_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_HANDOVER_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/net/event_loop.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/net/refusal_log.h"
#include "gpu_daemon/control/net/ticket_store.h"
#include "gpu_daemon/control/net/unix_listener.h"
#include "gpu_daemon/control/sessions/session_table.h"

namespace carillon::gpud {

// Not thread safe. Everything happens on the main loop's thread.
class HandoverServer {
 public:
  // `users` may fetch apertures beside gpud's own. Errors: as
  // UnixListener::Listen().
  static absl::StatusOr<std::unique_ptr<HandoverServer>> Open(
      const std::string& path, std::vector<uid_t> users, EventLoop* loop,
      TicketStore* tickets, SessionTable* sessions);
  ~HandoverServer();

  // Ends the sessions whose tickets have expired, and closes connections that
  // never presented one.
  void Expire(Nanoseconds now);

 private:
  // A connection that has not presented its ticket yet.
  struct PendingConnection {
    UniqueFd connection;
    EventLoop::WatchId watch = 0;
    PeerCredentials credentials;
    Nanoseconds deadline_ns = 0;
  };
  static constexpr size_t kMaxPending = 64;
  // A device presents its ticket as soon as it has connected.
  static constexpr size_t kMaxPendingOfAProcess = 8;

  HandoverServer(UnixListener listener, std::vector<uid_t> users,
                 EventLoop* loop, TicketStore* tickets, SessionTable* sessions);
  void Accept();
  absl::Status CheckRoom(const PeerCredentials& credentials) const;
  void Serve(uint64_t pending);
  absl::Status HandOver(PendingConnection& pending);

  UnixListener listener_;
  const std::vector<uid_t> users_;
  EventLoop* const loop_;
  TicketStore* const tickets_;
  SessionTable* const sessions_;
  EventLoop::WatchId listener_watch_ = 0;
  uint64_t next_id_ = 1;
  std::map<uint64_t, PendingConnection> pending_;
  RefusalLog refusals_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_HANDOVER_SERVER_H_
