// Runs a whole event in the calling thread: the front-end's short path.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_RUN_EVENT_H_
#define CARILLON_GPU_DAEMON_DISPATCH_RUN_EVENT_H_

#include "gpu_daemon/event/block_runner.h"
#include "gpu_daemon/event/checked_entry.h"
#include "gpu_daemon/event/event_kernel.h"

namespace carillon::gpud {

// Runs every block of an event in the calling thread and ends it; the caller
// signals the bell. entry.life is stamped if the event is traced.
void RunEvent(BlockRunner& runner, EventKernel& event, shm::Sequence sequence,
              CheckedEntry& entry);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_RUN_EVENT_H_
