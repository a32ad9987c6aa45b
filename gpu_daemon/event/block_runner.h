// Runs a thread block in the calling thread: a worker's, or the front-end's on
// the short path.
#ifndef CARILLON_GPU_DAEMON_EVENT_BLOCK_RUNNER_H_
#define CARILLON_GPU_DAEMON_EVENT_BLOCK_RUNNER_H_

#include <cstdint>

#include "gpu_daemon/event/kernel_metadata.h"

namespace carillon::gpud {

// Thread safe: different blocks run at once in different threads.
class BlockRunner {
 public:
  virtual ~BlockRunner() = default;

  // Runs one thread block (`block`: flattened index, x fastest) to its end, in
  // the calling thread. `fail_status` is the launch's, 0 at first; the first
  // block that fails sets it (simt::FailStatus), by compare-and-swap. What the
  // back-end has to say about a failure of its own goes to gpud's log.
  virtual void Run(const KernelMetadata& kmd, uint64_t block, const void* args,
                   uint32_t* fail_status) = 0;
};

// Coordinates of a block in the grid.
inline simt::Dim3 BlockIndex(const simt::Dim3& grid, uint64_t block) {
  if (block == 0) return {0, 0, 0};
  return {static_cast<uint32_t>(block % grid.x),
          static_cast<uint32_t>(block / grid.x % grid.y),
          static_cast<uint32_t>(block / grid.x / grid.y)};
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_BLOCK_RUNNER_H_
