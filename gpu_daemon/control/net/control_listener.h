// The control plane's Unix socket. gpud accepts connections itself, asks the
// kernel which process has connected (gRPC cannot tell), and then has
// Http2Guard carry them to gRPC.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_CONTROL_LISTENER_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_CONTROL_LISTENER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/net/event_loop.h"
#include "gpu_daemon/control/net/http2_guard.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/net/refusal_log.h"
#include "gpu_daemon/control/net/unix_listener.h"

namespace carillon::gpud {

// Everything but the constructor happens on the main loop's thread.
class ControlListener {
 public:
  struct Callbacks {
    // Takes over the server's end of an admitted connection.
    std::function<void(int connection)> on_connection;
    // A process that had connected is dead.
    std::function<void(const Peer& peer)> on_death;
  };

  // `users` may connect beside gpud's own. Errors: as UnixListener::Listen() and
  // Http2Guard::Start().
  static absl::StatusOr<std::unique_ptr<ControlListener>> Open(
      const std::string& path, std::vector<uid_t> users, EventLoop* loop,
      PeerTable* peers, Callbacks callbacks);
  ~ControlListener();

  // Accepts no more; those that are open stay.
  void Close();
  // Logs how many refusals were left out of the log, if any were.
  void Tick(Nanoseconds now) {
    refusals_.Tick(now);
    guard_->Tick(now);
  }

 private:
  ControlListener(UnixListener listener, std::unique_ptr<Http2Guard> guard,
                  std::vector<uid_t> users, EventLoop* loop, PeerTable* peers,
                  Callbacks callbacks);
  void Accept();
  absl::Status Admit(UniqueFd connection);
  void WatchForDeath(const std::shared_ptr<const Peer>& peer);

  UnixListener listener_;
  const std::unique_ptr<Http2Guard> guard_;
  const std::vector<uid_t> users_;
  EventLoop* const loop_;
  PeerTable* const peers_;
  const Callbacks callbacks_;
  EventLoop::WatchId watch_ = 0;
  RefusalLog refusals_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_CONTROL_LISTENER_H_
