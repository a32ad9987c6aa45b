#include "gpu_daemon/dispatch/edge_launcher.h"

#include "gpu_daemon/dispatch/make_launch.h"
#include "gpu_daemon/dispatch/run_event.h"

namespace carillon::gpud {

bool EdgeLauncher::Launch(const std::shared_ptr<EventKernel>& event,
                          shm::Sequence sequence, CheckedEntry& entry) {
  ShortPathEstimate& estimate = event->short_path();
  if (!estimate.Takes(entry.kmd)) {
    kmu_->Submit(MakeLaunch(event, sequence, entry));
    return false;
  }
  const bool sampled =
      estimate.WantsSample(sequence.value() - event->ended_before());
  RunEvent(*runner_, *event, sequence, entry, sampled);
  if (sampled) {
    estimate.Add(entry.life.finished_ns - entry.life.dispatched_ns);
  }
  return true;
}

}  // namespace carillon::gpud
