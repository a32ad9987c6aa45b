// Launch path `pagoda_ring` on CPU cores: the thread that polls doorbells is the
// scheduler warp of an MTB, and places the blocks of an event itself. There is no
// spawner, and so no last task that waits for a next one.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_RING_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_RING_LAUNCHER_H_

#include "gpu_daemon/backends/cpu/pagoda_launcher.h"
#include "gpu_daemon/backends/cpu/pagoda_mtbs.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_placer.h"
#include "gpu_daemon/dispatch/kmu.h"

namespace carillon::gpud {

class PagodaRingLauncher : public TaskQueueLauncher {
 public:
  // `mtbs` are of Scheduling::kLauncher.
  PagodaRingLauncher(Kmu* kmu, PagodaMtbs* mtbs);

  bool must_poll() const override {
    return placing_ || TaskQueueLauncher::must_poll();
  }

 private:
  // Between two steps doorbells are looked at, however long executors take.
  bool GiveOut() override;
  // False: no row is free, or nothing waits.
  bool BeginOldest();

  PagodaMtbPort port_;
  MtbPlacer<PagodaMtbPort> placer_;
  bool placing_ = false;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_RING_LAUNCHER_H_
