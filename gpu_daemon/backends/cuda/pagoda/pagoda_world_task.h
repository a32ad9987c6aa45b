// The task that pagoda_world_test runs on the simulated GPU.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_WORLD_TASK_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_WORLD_TASK_H_

#include <cstdint>

#include "kernels/simt/types.h"

namespace carillon::gpud {

// Thread t of block b adds 1 to runs[i] and sets out[i] to WorldValue(number, i'),
// i = b * threads + t: its own i' if it does not share, else that of its block's
// thread (t + 1) % threads, by shared memory and a barrier.
struct WorldTaskArgs {
  uint64_t number;
  uint32_t* runs;
  uint64_t* out;
  uint32_t threads;
  uint32_t shares;
  uint64_t last;  // number once more: an entry is whole, or it is not
};

CARILLON_HOST_DEVICE constexpr uint64_t WorldValue(uint64_t number,
                                                   uint32_t i) {
  return number * 1000003 + i;
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_WORLD_TASK_H_
