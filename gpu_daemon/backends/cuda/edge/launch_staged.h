// Launch path `stream_wait`, for a user's kernel. It looks into no frame to see
// whether there is an event, so it does not wait in the stream itself: behind
// StageEntry, one warp launches the slot's graph, if there is one. CUDA lets what
// follows in the stream begin when that graph has ended, too. For CPU and GPU
// code; the Port is edge_dispatch.h's.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_LAUNCH_STAGED_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_LAUNCH_STAGED_H_

#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_event_warp.h"
#include "kernels/simt/event_frame.h"
#include "shm/layout.h"

namespace carillon::gpud {

// Requires a frame of StageEntry's without totals or a word `ended`. `exec`: a
// graph of the kernel and, behind it, of what completes the frame's event. An
// event that the GPU does not launch completes here.
template <class Port>
CARILLON_EDGE void LaunchStaged(Port& port, const simt::EventFrame& frame,
                                uint64_t exec) {
  port.Elect([&] {
    if (frame.ecq == nullptr) return;
    uint64_t error = 0;
    if (port.Launch(exec, &error) == LaunchOutcome::kLaunched) return;
    if (frame.life != nullptr) StoreLife(port, frame.life, 0, 0);
    port.Complete(frame.ecq, shm::EventState::kFailed,
                  static_cast<uint32_t>(shm::EventStatus::kNotLaunched),
                  frame.sequence);
  });
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_LAUNCH_STAGED_H_
