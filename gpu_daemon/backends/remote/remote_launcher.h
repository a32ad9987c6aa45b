// Here a rung doorbell becomes an event on another host, on launch path
// `remote`.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_LAUNCHER_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gpu_daemon/backends/remote/remote_link.h"
#include "gpu_daemon/dispatch/launcher.h"

namespace carillon::gpud {

class RemoteLauncher final : public Launcher {
 public:
  explicit RemoteLauncher(RemoteLink* link) : link_(link) {}

  absl::Status Prepare(EventKernel& event) override {
    return link_->Add(event);
  }
  void Release(EventKernel& event) override { link_->Remove(event); }
  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override {
    rung_.Add(event, sequence, entry);
    found_ = true;
    return false;
  }
  // Follows each look at the doorbells. A look serves few events of a ring, and
  // a frame has room for more: what a few further looks find goes with them.
  bool Reap() override {
    const bool found = std::exchange(found_, false);
    if (rung_.empty()) return false;
    if (found && ++looks_ < kMostLooks) return true;
    looks_ = 0;
    link_->Ring(rung_);
    return true;
  }
  std::vector<PathCounter> counters() const override {
    const mesh::LinkStatus link = link_->status();
    return {{"late_ends", link_->late_ends()},
            {"connections", link.connections},
            {"downs", link.downs},
            {"down_ns", link.down},
            {"rtt_ns", link.rtt.value_or(0)},
            {"in_flight", link.in_flight},
            {"replayed", link.replayed}};
  }

 private:
  // With a single ring that is always rung, they fill a frame (256 events).
  static constexpr int kMostLooks = 8;

  RemoteLink* const link_;
  RemoteLink::Batch rung_;
  bool found_ = false;  // by the last look
  int looks_ = 0;       // that found what is in rung_
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_LAUNCHER_H_
