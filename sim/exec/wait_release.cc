#include "sim/exec/wait_release.h"

#include <algorithm>
#include <utility>

namespace carillon::sim {

void WaitRelease::Start(Releases* releases, uint64_t warps) {
  releases_ = releases;
  live_ = warps;
  waiting_ = 0;
  for (uint32_t i = 0; i < kWaitReleaseBarriers; ++i) {
    barriers_[i] = {.seen = releases->passed[i]};
  }
}

bool WaitRelease::Wait(uint32_t barrier, uint64_t warp) {
  Barrier& at = barriers_[barrier];
  // A warp that has passed and is back already must first wait for the others.
  const bool again = (at.passed & warp) != 0;
  if (!again && (at.passing != 0 || releases_->count[barrier] > at.seen)) {
    Pass(barrier, warp);
    return true;
  }
  at.waiting |= warp;
  waiting_ |= warp;
  return false;
}

uint64_t WaitRelease::Wake() {
  if (waiting_ == 0) return 0;
  uint64_t woken = 0;
  for (uint32_t i = 0; i < kWaitReleaseBarriers; ++i) {
    Barrier& at = barriers_[i];
    // Once all have passed, those that are back already may pass again.
    while (at.passing != 0 || releases_->count[i] > at.seen) {
      const uint64_t warps = at.waiting & ~at.passed;
      if (warps == 0) break;
      at.waiting &= ~warps;
      woken |= warps;
      Pass(i, warps);
    }
  }
  waiting_ &= ~woken;
  return woken;
}

void WaitRelease::Exited(uint64_t warp) {
  live_ &= ~warp;
  for (uint32_t i = 0; i < kWaitReleaseBarriers; ++i) {
    if (barriers_[i].passing != 0) Pass(i, 0);
  }
}

void WaitRelease::Pass(uint32_t barrier, uint64_t warps) {
  Barrier& at = barriers_[barrier];
  if (at.passing == 0) at.passing = releases_->count[barrier];
  at.passed |= warps;
  if ((live_ & ~at.passed) != 0) return;
  at.seen = std::exchange(at.passing, 0);
  at.passed = 0;
  uint64_t& passed = releases_->passed[barrier];
  passed = std::max(passed, at.seen);
}

}  // namespace carillon::sim
