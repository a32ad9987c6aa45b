// An event kernel whose events run on another host: what the link has to know of
// it, and the bytes of its events and completions (proto/link.proto).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_RING_H_
#define CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_RING_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu_daemon/event/event_kernel.h"
#include "mesh/frame.h"

namespace carillon::gpud {

// All of these need the event kernel's bindings(), one for each parameter.

// Errors: Unimplemented, InvalidArgument: what of the event kernel no link
// carries.
absl::StatusOr<mesh::RingLimits> DescribeRing(const EventKernel& event);

// Whether both write to the same memory of their device: what comes back for one
// would overwrite the other's.
bool ShareOutput(const EventKernel& one, const EventKernel& other);

// `args`: those of one event, as CheckEntry() has made them. With what the
// kernel reads of the device's memory now.
void AppendEvent(const EventKernel& event, const std::byte* args,
                 std::string* to);
// Stores what the event's kernel has written. False: that is not as much as it
// writes, and nothing is stored.
bool StoreOutput(const EventKernel& event, const std::byte* args,
                 std::string_view output);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_RING_H_
