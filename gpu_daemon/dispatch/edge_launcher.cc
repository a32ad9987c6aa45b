#include "gpu_daemon/dispatch/edge_launcher.h"

#include "gpu_daemon/dispatch/make_launch.h"
#include "gpu_daemon/dispatch/run_event.h"

namespace carillon::gpud {

bool EdgeLauncher::Launch(const std::shared_ptr<EventKernel>& event,
                          shm::Sequence sequence, CheckedEntry& entry) {
  if (!event->short_path().Takes(entry.kmd) || !kmu_->short_path()) {
    kmu_->Submit(MakeLaunch(event, sequence, entry));
    return false;
  }
  RunEvent(*runner_, *event, sequence, entry);
  return true;
}

void EdgeLauncher::TookLong(EventKernel& event, Nanoseconds cpu_ns) {
  if (event.short_path().Add(cpu_ns) && on_overrun_) on_overrun_(event, cpu_ns);
}

}  // namespace carillon::gpud
