// Makes the KMU's launch of a rung event.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_MAKE_LAUNCH_H_
#define CARILLON_GPU_DAEMON_DISPATCH_MAKE_LAUNCH_H_

#include <memory>

#include "gpu_daemon/event/checked_entry.h"
#include "gpu_daemon/event/kernel_launch.h"

namespace carillon::gpud {

// An event as the KMU takes it.
std::unique_ptr<KernelLaunch> MakeLaunch(
    const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
    const CheckedEntry& entry);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_MAKE_LAUNCH_H_
