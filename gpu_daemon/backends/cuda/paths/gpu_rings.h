// What the launch paths share whose events a GPU ends without a CPU: where a
// ring stands, by its doorbell and its completions, and what a lost context
// leaves of it.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_GPU_RINGS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_GPU_RINGS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/event/event_kernel.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

// Whether the device waits for gpud to wake it.
bool Sleeps(const DeviceMemory& device);
// Wakes the device if it sleeps though a completion of this ring is there.
void WakeForCompletion(const EventKernel& event);

// edgeScheduleEvent: a GPU polls nothing but doorbells, so gpud rings this one for
// its device, up to the event that was named last, unless it shows that already.
void RingScheduled(const EventKernel& event);

bool IsCompleted(const EventKernel& event, uint64_t sequence);

// The sentence for OnViolation. `taken`: so many rings were taken, if not more.
std::string DoorbellViolation(const EventKernel& event, uint64_t taken);

// Word by word, for the event kernel that follows `to`.
void Publish(const simt::EventTotals& from, simt::EventTotals& to);

// Nothing of the ring is on the GPU any more: which events were taken follows
// from the doorbell and the completions. All that were rung and have not ended
// count as taken now, and end in the replay; `overdue` (0: none) ends as timed
// out, and one whose entry does not hold (any more) as refused. What the GPU has
// taken beyond what the doorbell shows may have faulted, too, and completes as
// nothing; where nobody knows what that is, it is one more run, without an event.
// `totals.failed` and `totals.refused` must be right for those that have ended;
// `totals` and `shown`, which the event kernel follows, are brought up to date,
// also while the replay goes on, and must live as long as that. Returns the last
// sequence that was rung.
uint64_t TakeUnfinishedOf(const std::shared_ptr<EventKernel>& event,
                          simt::EventTotals& totals, simt::EventTotals& shown,
                          uint64_t overdue, const GpuModel& model,
                          LostWork& lost);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_GPU_RINGS_H_
