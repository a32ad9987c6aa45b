// edgeReleaseBarrier, where threads of this machine run a user's PTX block by
// block: what blocks know of the releases of the wait-release barrier
// (sim/exec/wait_release.h), as if all of them were on one SM.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_RELEASE_LATCH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_RELEASE_LATCH_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/event/block_runner.h"
#include "sim/exec/wait_release.h"

namespace carillon::gpud {

// Thread safe. Each device has releases of its own. A block may pass once by each
// that came after its launch was submitted, whatever its siblings did: how many
// blocks run at once, which is the workers' number, decides nothing. `imported`:
// the last release that a block knows of; its own.
class ReleaseLatch {
 public:
  void Release(WaitReleases& device) {
    MutexLock lock(mutex_);
    device.count.fetch_add(1, std::memory_order_relaxed);
    changed_.NotifyAll();
  }
  // Nobody waits any more.
  void Stop() {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }

  void Begin(const LaunchRun& run, sim::Releases& known, uint64_t& imported) {
    MutexLock lock(mutex_);
    imported = run.releases_over;
    if (HasMore(run, imported)) Import(known, imported);
  }
  // Nothing of the block can go on before the next release, so it has passed by
  // all that it knows of. False: none has come until `until`.
  bool Await(const LaunchRun& run, sim::Releases& known, uint64_t& imported,
             Nanoseconds until) {
    MutexLock lock(mutex_);
    Pass(run, imported);
    while (!HasMore(run, imported)) {
      const Nanoseconds now = NowNs();
      if (stopped_ || now >= until) return false;
      changed_.WaitFor(mutex_, std::chrono::nanoseconds(until - now));
    }
    Import(known, imported);
    return true;
  }
  void End(const LaunchRun& run, const sim::Releases& known,
           uint64_t imported) {
    MutexLock lock(mutex_);
    if (known.passed[0] == known.count[0]) Pass(run, imported);
  }

 private:
  static bool HasMore(const LaunchRun& run, uint64_t imported) {
    return run.releases != nullptr &&
           run.releases->count.load(std::memory_order_relaxed) > imported;
  }
  // One at a time: each lets the block pass.
  static void Import(sim::Releases& known, uint64_t& imported) {
    ++imported;
    known.Release(0);
  }
  void Pass(const LaunchRun& run, uint64_t imported)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (run.releases == nullptr) return;
    std::atomic<uint64_t>& passed = run.releases->passed;
    if (passed.load(std::memory_order_relaxed) < imported) {
      passed.store(imported, std::memory_order_relaxed);
    }
  }

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_RELEASE_LATCH_H_
