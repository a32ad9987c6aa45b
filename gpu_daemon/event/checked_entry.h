// An ESQ entry that gpud has copied, once, and checked: what is left to do is
// to launch it.
#ifndef CARILLON_GPU_DAEMON_EVENT_CHECKED_ENTRY_H_
#define CARILLON_GPU_DAEMON_EVENT_CHECKED_ENTRY_H_

#include "base/clock.h"
#include "gpu_daemon/event/argument_plan.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "shm/layout.h"
#include "shm/types.h"

namespace carillon::gpud {

struct CheckedEntry {
  KernelMetadata kmd;  // as registered, or as the entry overrides it
  ArgumentBlock args;
  // By the device's clock; 0 where it does not say.
  Nanoseconds rung_ns = 0;
  shm::EventLife life{};  // up to queued_ns; all 0 while tracing is off
};

// Copies the entry of `sequence` and fills `checked` in from the copy. kOk, or
// why it is refused. `seen_ns`: when its doorbell was seen; 0: not traced.
shm::EventStatus CheckEntry(const EventKernel& event, shm::Sequence sequence,
                            Nanoseconds seen_ns, const GpuModel& gpu,
                            CheckedEntry& checked);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_CHECKED_ENTRY_H_
