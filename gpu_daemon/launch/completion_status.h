// What the status word of a kernel becomes in its completion; for CPU and GPU
// code.
#ifndef CARILLON_GPU_DAEMON_LAUNCH_COMPLETION_STATUS_H_
#define CARILLON_GPU_DAEMON_LAUNCH_COMPLETION_STATUS_H_

#include <cstdint>

#include "gpu_daemon/kernels/simt_types.h"
#include "shm/layout.h"

namespace carillon::gpud {

// The status of the ECQ entry of a kernel that ended with `fail_status` (0: it
// did not fail).
CARILLON_HOST_DEVICE constexpr uint32_t CompletionStatus(uint32_t fail_status) {
  shm::EventStatus found = shm::EventStatus::kKernelStatusBase;
  // Without a default: a finding without a status of its own is a warning.
  switch (static_cast<simt::FailStatus>(fail_status)) {
    case simt::kFailNone:
      found = shm::EventStatus::kOk;
      break;
    case simt::kFailBarrierDeadlock:
      found = shm::EventStatus::kBarrierDivergence;
      break;
    case simt::kFailWarpDeadlock:
      found = shm::EventStatus::kWarpDivergence;
      break;
    case simt::kFailSharedOutOfRange:
      found = shm::EventStatus::kSharedOutOfRange;
      break;
    case simt::kFailBadLaunch:
      found = shm::EventStatus::kBadLaunch;
      break;
    case simt::kFailNoMemory:
      found = shm::EventStatus::kNoMemory;
      break;
    case simt::kFailFault:
      found = shm::EventStatus::kKernelFault;
      break;
    case simt::kFailNoProgress:
      found = shm::EventStatus::kTimedOut;
      break;
    case simt::kFailBadArguments:
    case simt::kFailBadShape:
    case simt::kMaxKernelStatus:
      break;
  }
  return static_cast<uint32_t>(found) +
         (found == shm::EventStatus::kKernelStatusBase
              ? simt::KernelStatus(fail_status)
              : 0);
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_LAUNCH_COMPLETION_STATUS_H_
