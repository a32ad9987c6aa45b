#include "shm/event_status_text.h"

#include "fmt/format.h"
#include "shm/layout.h"

namespace carillon::shm {

std::string EventStatusText(uint32_t status) {
  switch (static_cast<EventStatus>(status)) {
    case EventStatus::kOk:
      return "ok";
    case EventStatus::kStaleGeneration:
      return "the entry is of another generation of the ring";
    case EventStatus::kBadSequence:
      return "the entry was not written for this ring of the doorbell";
    case EventStatus::kBadBufferRef:
      return "a buffer reference leaves its buffer";
    case EventStatus::kBadKmd:
      return "the entry's own dimensions or shared memory are out of range";
    case EventStatus::kBadFlags:
      return "unknown flag, or own dimensions for a kernel that is not "
             "modifyable";
    case EventStatus::kBadParameter:
      return "the kernel refused its arguments";
    case EventStatus::kUnregistered:
      return "the event kernel was unregistered first";
    case EventStatus::kDeviceGone:
      return "the device is gone";
    case EventStatus::kShutdown:
      return "gpud went down first";
    case EventStatus::kBarrierDivergence:
      return "some threads wait at a block barrier that others never reach";
    case EventStatus::kWarpDivergence:
      return "some lanes wait at a warp operation that others never reach";
    case EventStatus::kSharedOutOfRange:
      return "the kernel uses more shared memory than the event registered";
    case EventStatus::kBadLaunch:
      return "block dimensions that no launch may have";
    case EventStatus::kNoMemory:
      return "no memory for the state of the block's threads";
    case EventStatus::kKernelFault:
      return "the GPU stopped the kernel: a bad address or a trap";
    case EventStatus::kTimedOut:
      return "the kernel ran for longer than gpud lets any run";
    case EventStatus::kNotLaunched:
      return "the GPU's driver refused the launch";
    case EventStatus::kNotTaken:
      return "done, but no event of the next device took it on";
    case EventStatus::kLinkLost:
      return "the link to the other host carries the device no more";
    case EventStatus::kKernelStatusBase:
      break;
  }
  constexpr auto kBase = static_cast<uint32_t>(EventStatus::kKernelStatusBase);
  if (status >= kBase) {
    return fmt::format("the kernel failed with code {}", status - kBase);
  }
  return fmt::format("unknown status {}", status);
}

}  // namespace carillon::shm
