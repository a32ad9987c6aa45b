// Converts a kernel's status word to the status of its completion, for CPU and
// GPU code.
#ifndef CARILLON_KERNELS_SIMT_COMPLETION_STATUS_H_
#define CARILLON_KERNELS_SIMT_COMPLETION_STATUS_H_

#include <cstdint>

#include "kernels/simt/types.h"
#include "shm/layout.h"

namespace carillon::simt {

// The status of the ECQ entry of a kernel that ended with `fail_status` (0:
// success).
CARILLON_HOST_DEVICE constexpr uint32_t CompletionStatus(uint32_t fail_status) {
  shm::EventStatus found = shm::EventStatus::kKernelStatusBase;
  // Has no default, so that the compiler warns of a finding without a status of
  // its own.
  switch (static_cast<FailStatus>(fail_status)) {
    case kFailNone:
      found = shm::EventStatus::kOk;
      break;
    case kFailBarrierDeadlock:
      found = shm::EventStatus::kBarrierDivergence;
      break;
    case kFailWarpDeadlock:
      found = shm::EventStatus::kWarpDivergence;
      break;
    case kFailSharedOutOfRange:
      found = shm::EventStatus::kSharedOutOfRange;
      break;
    case kFailBadLaunch:
      found = shm::EventStatus::kBadLaunch;
      break;
    case kFailNoMemory:
      found = shm::EventStatus::kNoMemory;
      break;
    case kFailFault:
      found = shm::EventStatus::kKernelFault;
      break;
    case kFailNoProgress:
      found = shm::EventStatus::kTimedOut;
      break;
    case kFailBadArguments:
    case kFailBadShape:
    case kMaxKernelStatus:
      break;
  }
  return static_cast<uint32_t>(found) +
         (found == shm::EventStatus::kKernelStatusBase
              ? KernelStatus(fail_status)
              : 0);
}

}  // namespace carillon::simt

#endif  // CARILLON_KERNELS_SIMT_COMPLETION_STATUS_H_
