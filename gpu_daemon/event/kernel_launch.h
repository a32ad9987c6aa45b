// One launch on its way through the KMU: an event, or a background (ordinary)
// kernel.
#ifndef CARILLON_GPU_DAEMON_EVENT_KERNEL_LAUNCH_H_
#define CARILLON_GPU_DAEMON_EVENT_KERNEL_LAUNCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "gpu_daemon/event/argument_plan.h"
#include "gpu_daemon/event/block_runner.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/gpu_model.h"
#include "shm/types.h"

namespace carillon::gpud {

// How a background kernel ended.
struct LaunchResult {
  shm::EventState state = shm::EventState::kNone;
  uint32_t status = 0;
  Nanoseconds queued_ns = 0;
  Nanoseconds dispatched_ns = 0;  // 0: never
  Nanoseconds finished_ns = 0;
};

// Made by the front-end or the control plane, then owned by the KMU until its
// last block has ended. Fields without a remark never change after Submit().
struct KernelLaunch {
  KernelMetadata kmd;
  BlockCost cost;
  uint32_t priority = 0;
  // Arguments, and what keeps the memory that they point into alive.
  std::unique_ptr<std::byte[]> args;
  std::shared_ptr<DeviceMemory> memory;

  // Events: which. Null for background kernels.
  std::shared_ptr<EventKernel> event;
  shm::Sequence sequence;

  // Waits among the host's launches: CPU code launched it, as it does every
  // background kernel.
  bool from_host = false;

  // Called once, on any thread, without a lock held. Background kernels have
  // it; an event with it is not completed by its last block but by whoever is
  // called.
  std::function<void(const LaunchResult&)> on_end;
  uint64_t token = 0;  // the caller's own, for LaunchFilter; 0: none

  // queued_ns is given; the KMU adds dispatched_ns and finished_ns. The
  // device's side of it (rung_ns, seen_ns) is 0 for a background kernel, and
  // for an event while tracing is off.
  shm::EventLife life{};

  // Under the KMU's lock.
  uint64_t arrival = 0;     // order of submission
  uint64_t next_block = 0;  // first block not yet given out
  uint64_t ended_blocks = 0;
  // GPES: the first block behind the slice that has the GPU (0: none), and how
  // many slices have ended.
  uint64_t slice_end = 0;
  uint64_t slices = 0;
  // Blocks of later launches that were placed since one of its own was, or since
  // it came, for which it lacked room.
  uint32_t overtaken = 0;
  // When it came, or its last block was placed, by the KMU's clock.
  uint64_t waits_since = 0;
  // Set: gives out no further blocks, and ends as aborted for this reason.
  std::optional<shm::EventStatus> cancelled;

  // Where threads of this machine run its blocks; made by the KMU.
  LaunchRun run;

  bool is_event() const { return event != nullptr; }
  // Of the blocks:
  bool has_blocks() const { return !cancelled && next_block < kmd.blocks(); }
  bool begun() const { return next_block != 0; }
  uint64_t running() const { return next_block - ended_blocks; }
  // For on_end().
  LaunchResult ResultOf(shm::EventState state, uint32_t status) const {
    return {.state = state,
            .status = status,
            .queued_ns = life.queued_ns,
            .dispatched_ns = life.dispatched_ns,
            .finished_ns = life.finished_ns};
  }
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_KERNEL_LAUNCH_H_
