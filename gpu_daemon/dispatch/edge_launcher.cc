#include "gpu_daemon/dispatch/edge_launcher.h"

#include "gpu_daemon/dispatch/make_launch.h"
#include "gpu_daemon/dispatch/run_event.h"

namespace carillon::gpud {

bool EdgeLauncher::Launch(const std::shared_ptr<EventKernel>& event,
                          shm::Sequence sequence, CheckedEntry& entry) {
  if (!event->takes_short_path(entry.kmd)) {
    kmu_->Submit(MakeLaunch(event, sequence, entry));
    return false;
  }
  const bool sampled = event->wants_sample();
  RunEvent(*runner_, *event, sequence, entry, sampled);
  if (sampled) {
    event->AddShortPathSample(entry.life.finished_ns -
                              entry.life.dispatched_ns);
  }
  return true;
}

}  // namespace carillon::gpud
