#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_MAKE_LAUNCH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_MAKE_LAUNCH_H_

#include <memory>

#include "gpu_daemon/launch/checked_entry.h"
#include "gpu_daemon/launch/kernel_launch.h"

namespace carillon::gpud {

// An event as the KMU takes it.
std::unique_ptr<KernelLaunch> MakeLaunch(
    const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
    const CheckedEntry& entry);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_MAKE_LAUNCH_H_
