// Launch path `stream_wait`: kernels launched ahead (as GPUDirect Async does it).
// In the stream of each event kernel wait, for each of the next events of its
// ring,
//
//   a wait for the doorbell   cuStreamWaitValue32, cyclic >=, on the device's own
//                             word: no CPU between the ring and the launch
//   a note of that            cuStreamWriteValue32, on StageGate::passed: the
//                             wait has ended. It needs no room on the GPU
//   carillon_stage_entry      one warp: copies and checks the entry, builds the
//                             frame (stage_entry.h)
//   carillon_event_<name>     runs, and completes its event; of a user's kernel: a
//                             graph of carillon_launch_staged (launch_staged.h)
//
// and a thread of the CPU arms events anew as others end: at most min(entries,
// kArmedAhead) ahead of the last that has ended, so that a slot is not taken
// before its last event has ended, whatever the doorbell says. That arming is
// what this path costs: four calls of the driver an event.
//
// Letting a stream go. A wait for a doorbell that will not ring can be ended in
// no way but by the doorbell, and while it waits the driver can free no memory.
// So gpud, which maps the submission aperture writable, moves the word on by
// 2^30, which every armed wait takes for rung, waits until the stream is idle,
// and moves it back.
//   No event is launched by it: before it, the ring's line of StreamWaitGates
//   is closed; carillon_stage_entry reads it after the wait, completes nothing
//   then and leaves a frame that runs nothing. Streams are in order: what was
//   staged before had been rung, and ends; of the events behind none is taken.
//   No ring is lost by it: the word is moved on by compare-and-swap, and back by
//   one too, unless the device has written its own count over it in between; a
//   device that adds to the word has added to what is moved back. Then it is
//   moved on again, as long as the stream is not idle; a device that keeps
//   writing until the limit costs the context, as a kernel that does not end.
//   A device that frees the page of its doorbells has another word than the GPU,
//   which would wait for ever. Where a stream stands at its wait for a quarter
//   of the longest time though the word has moved, the GPU moves its own, and if
//   the CPU does not see that, the device is evicted. That a stream stands there
//   is known by its notes only: a kernel behind the wait may have to wait for
//   room on the GPU, which is no device's fault.
//   Nobody takes the moved word for the doorbell's: gpud looks at it with the
//   path standing still only, and the device reads it once, when it makes its
//   end of the ring; a ring that has never rung is therefore not armed. Its
//   first event finds nothing armed and waits for the CPU's next look.
//
// A launch that the driver refuses is tried again at the next look. Meanwhile
// the ring stands still, and in the end the watchdog takes the context; the
// event then fails alone, as not launched, in the replay.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_STREAM_WAIT_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_STREAM_WAIT_PATH_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/paths/resident_engine.h"

namespace carillon::gpud::cuda {

inline constexpr uint32_t kArmedAhead = 64;

// Errors: Unimplemented (a driver whose streams cannot wait for memory), those
// of the driver.
absl::StatusOr<std::unique_ptr<LaunchPath>> MakeStreamWaitPath(
    Gpu* gpu, ResidentOptions options);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_STREAM_WAIT_PATH_H_
