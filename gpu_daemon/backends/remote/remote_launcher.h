// Here a rung doorbell becomes an event on another host, on launch path
// `remote`.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_LAUNCHER_H_

#include <memory>
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
    return false;
  }
  // Follows each look at the doorbells: all that it found goes at once.
  bool Reap() override {
    if (rung_.empty()) return false;
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
  RemoteLink* const link_;
  RemoteLink::Batch rung_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_LAUNCHER_H_
