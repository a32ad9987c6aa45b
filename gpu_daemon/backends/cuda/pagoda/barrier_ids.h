// Named barriers of an MTB, given to thread blocks (Pagoda 5.2). For CPU and GPU
// code.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_BARRIER_IDS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_BARRIER_IDS_H_

#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"

namespace carillon::gpud {

// `bar.sync` has 16; 0 is the MTB's own. Enough: 31 executors hold at most 15
// blocks of two warps or more, and a block of one warp needs none.
inline constexpr uint32_t kTaskBarriers = 15;

// The scheduler warp's own.
class BarrierIds {
 public:
  CARILLON_EDGE bool AllTaken() const { return free_ == 0; }
  // 1 to 15; 0: all are taken.
  CARILLON_EDGE uint32_t Take() {
    if (free_ == 0) return 0;
    const uint32_t id = LowestLane(free_);
    free_ &= ~(1u << id);
    return id;
  }
  // 0 frees nothing.
  CARILLON_EDGE void Free(uint32_t id) {
    if (id != 0) free_ |= 1u << id;
  }

 private:
  uint32_t free_ = ((1u << kTaskBarriers) - 1) << 1;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_BARRIER_IDS_H_
