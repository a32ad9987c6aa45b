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
    const std::string& path, std::vector<uid_t> users, EventLoop* loop,
    PeerTable* peers, Callbacks callbacks) {
  ASSIGN_OR_RETURN(auto listener,
                   UnixListener::Listen(path, SOCK_STREAM, users));
  ASSIGN_OR_RETURN(auto guard, Http2Guard::Start());
  std::unique_ptr<ControlListener> door(
      new ControlListener(std::move(listener), std::move(guard),
                          std::move(users), loop, peers, std::move(callbacks)));
  ASSIGN_OR_RETURN(door->watch_,
                   loop->Watch(door->listener_.fd(),
                               [self = door.get()] { self->Accept(); }));
  return door;
}

ControlListener::ControlListener(UnixListener listener,
                                 std::unique_ptr<Http2Guard> guard,
                                 std::vector<uid_t> users, EventLoop* loop,
                                 PeerTable* peers, Callbacks callbacks)
    : listener_(std::move(listener)),
      guard_(std::move(guard)),
      users_(std::move(users)),
      loop_(loop),
      peers_(peers),
      callbacks_(std::move(callbacks)) {}

ControlListener::~ControlListener() { Close(); }

void ControlListener::Close() {
  if (listener_.fd() < 0) return;
  loop_->Unwatch(watch_);
  listener_.Close();
}

void ControlListener::Accept() {
  UniqueFd connection = listener_.Accept();
  if (!connection) return;
  if (auto status = Admit(std::move(connection)); !status.ok()) {
    refusals_.Warn(fmt::format("connection refused: {}", status.message()),
                   NowNs());
  }
}

absl::Status ControlListener::Admit(UniqueFd connection) {
  ASSIGN_OR_RETURN(auto ends, Http2Guard::MakePair());
  bool is_new = false;
  ASSIGN_OR_RETURN(auto peer, peers_->Admit(connection.get(), ends.first.get(),
                                            &is_new, users_));
  if (is_new) WatchForDeath(peer);
  spdlog::debug("connection {} admitted: pid {}, uid {}", ends.first.get(),
                peer->pid, peer->uid);
  RETURN_IF_ERROR(guard_->Carry(std::move(connection), std::move(ends.second),
                                fmt::format("process {}", peer->pid)));
  callbacks_.on_connection(ends.first.release());
  return absl::OkStatus();
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
