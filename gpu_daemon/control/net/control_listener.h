// The control plane's Unix socket. gpud accepts connections itself, asks the
// kernel which process has connected (gRPC cannot tell), and then gives them to
// gRPC.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_CONTROL_LISTENER_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_CONTROL_LISTENER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "gpu_daemon/control/net/event_loop.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/net/refusal_log.h"
#include "gpu_daemon/control/net/unix_listener.h"

namespace carillon::gpud {

// Everything but the constructor happens on the main loop's thread.
class ControlListener {
 public:
  struct Callbacks {
    // Takes over an admitted connection.
    std::function<void(int connection)> on_connection;
    // A process that had connected is dead.
    std::function<void(const Peer& peer)> on_death;
  };

  // Errors: as UnixListener::Listen().
  static absl::StatusOr<std::unique_ptr<ControlListener>> Open(
      const std::string& path, EventLoop* loop, PeerTable* peers,
      Callbacks callbacks);
  ~ControlListener();

  // Logs how many refusals were left out of the log, if any were.
  void Tick(Nanoseconds now) { refusals_.Tick(now); }

 private:
  ControlListener(UnixListener listener, EventLoop* loop, PeerTable* peers,
                  Callbacks callbacks);
  void Accept();
  void WatchForDeath(const std::shared_ptr<const Peer>& peer);

  UnixListener listener_;
  EventLoop* const loop_;
  PeerTable* const peers_;
  const Callbacks callbacks_;
  EventLoop::WatchId watch_ = 0;
  RefusalLog refusals_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_CONTROL_LISTENER_H_
