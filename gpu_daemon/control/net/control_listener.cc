#include "gpu_daemon/control/net/control_listener.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "fmt/format.h"

namespace carillon::gpud {

absl::StatusOr<std::unique_ptr<ControlListener>> ControlListener::Open(
    const std::string& path, EventLoop* loop, PeerTable* peers,
    Callbacks callbacks) {
  ASSIGN_OR_RETURN(auto listener, UnixListener::Listen(path, SOCK_STREAM));
  std::unique_ptr<ControlListener> door(new ControlListener(
      std::move(listener), loop, peers, std::move(callbacks)));
  ASSIGN_OR_RETURN(door->watch_,
                   loop->Watch(door->listener_.fd(),
                               [self = door.get()] { self->Accept(); }));
  return door;
}

ControlListener::ControlListener(UnixListener listener, EventLoop* loop,
                                 PeerTable* peers, Callbacks callbacks)
    : listener_(std::move(listener)),
      loop_(loop),
      peers_(peers),
      callbacks_(std::move(callbacks)) {}

ControlListener::~ControlListener() { loop_->Unwatch(watch_); }

void ControlListener::Accept() {
  UniqueFd connection = listener_.Accept();
  if (!connection) return;
  bool is_new = false;
  auto peer = peers_->Admit(connection.get(), &is_new);
  if (!peer.ok()) {
    refusals_.Warn(
        fmt::format("connection refused: {}", peer.status().message()),
        NowNs());
    return;
  }
  if (is_new) WatchForDeath(*peer);
  spdlog::debug("connection {} admitted: pid {}, uid {}", connection.get(),
                (*peer)->pid, (*peer)->uid);
  callbacks_.on_connection(connection.release());
}

void ControlListener::WatchForDeath(const std::shared_ptr<const Peer>& peer) {
  // The watch has to know its own name to end itself.
  auto id = std::make_shared<EventLoop::WatchId>(0);
  auto watch = loop_->Watch(
      peer->pidfd.get(),
      [loop = loop_, peers = peers_, on_death = callbacks_.on_death, peer, id] {
        loop->Unwatch(*id);
        peers->Forget(*peer);
        on_death(*peer);
      });
  // Without it, the end of the hand-over connection still tells of a device's
  // death.
  if (watch.ok()) {
    *id = *watch;
  } else {
    spdlog::error("cannot watch process {}: {}", peer->pid,
                  watch.status().message());
  }
}

}  // namespace carillon::gpud
