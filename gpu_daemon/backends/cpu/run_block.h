#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_RUN_BLOCK_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_RUN_BLOCK_H_

#include <cstdint>

#include "gpu_daemon/launch/kernel_metadata.h"

namespace carillon::gpud {

// Runs one thread block (`block`: flattened index, x fastest) in the calling
// thread; its shared memory comes from an arena of that thread. `fail_status`
// is the launch's, 0 at first. What the back-end has to say about a failure of
// its own goes to gpud's log.
void RunBlock(const KernelMetadata& kmd, uint64_t block, const void* args,
              uint32_t* fail_status);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_RUN_BLOCK_H_
