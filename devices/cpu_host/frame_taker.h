// The end of an imaging pipeline: takes the frames that another device's events
// hand on, transforms each by an event of its own, and judges them.
#ifndef CARILLON_DEVICES_CPU_HOST_FRAME_TAKER_H_
#define CARILLON_DEVICES_CPU_HOST_FRAME_TAKER_H_

#include "absl/status/status.h"
#include "devices/cpu_host/cpu_host_options.h"
#include "devices/sdk/device_main.h"

namespace carillon::cpu_host {

// Attaches, and takes frames until the last of options.frames has come or a stop
// is requested. Errors: those of Attach() and edgeRegisterEvent(); Unavailable
// (testbed gone, and no other gpud in time); DataLoss (frames were wrong, missing
// or failed: how many).
absl::Status TakeFrames(const edge::DeviceContext& context,
                        const CpuHostOptions& options);

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_FRAME_TAKER_H_
