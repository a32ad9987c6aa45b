// One copy between a device's buffers, on its way through a back-end.
#ifndef CARILLON_GPU_DAEMON_EVENT_MEMORY_COPY_H_
#define CARILLON_GPU_DAEMON_EVENT_MEMORY_COPY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "gpu_daemon/event/kernel_memory.h"
#include "shm/layout.h"

namespace carillon::gpud {

// Bytes after which a copy may be interrupted.
struct CopyChunks {
  uint64_t in = 0;
  uint64_t out = 0;
};

// Made by the control plane, then owned by the back-end until it ends.
struct MemoryCopy {
  CopyDirection direction = CopyDirection::kIn;
  // As kernels are given them; what keeps them alive is in on_end().
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
  uint32_t priority = 0;
  std::shared_ptr<DeviceMemory> memory;  // whose it is
  uint64_t token = 0;                    // the caller's own, for LaunchFilter
  // Called once, on any thread, without a lock held.
  std::function<void(const LaunchResult&)> on_end;
  Nanoseconds queued_ns = 0;

  // The back-end's:
  uint64_t issued = 0;     // bytes of chunks that have begun
  uint64_t copied = 0;     // of those that have ended
  uint32_t under_way = 0;  // chunks that have begun and not ended
  std::optional<Nanoseconds> started_ns;
  uint64_t losses = 0;  // KernelMemory::losses() when it started
  bool failed = false;  // the GPU was lost
  // Set: no chunk follows, and it ends as aborted for this reason.
  std::optional<shm::EventStatus> cancelled;

  bool HasNextChunk() const { return !cancelled && !failed && issued < bytes; }
  uint64_t NextChunk(const CopyChunks& chunks) const {
    return std::min(direction == CopyDirection::kIn ? chunks.in : chunks.out,
                    bytes - issued);
  }
  LaunchResult ResultAt(Nanoseconds now) const {
    LaunchResult result{.state = shm::EventState::kDone,
                        .queued_ns = queued_ns,
                        .dispatched_ns = started_ns.value_or(0),
                        .finished_ns = now};
    if (cancelled) {
      result.state = shm::EventState::kAborted;
      result.status = static_cast<uint32_t>(*cancelled);
    } else if (failed) {
      result.state = shm::EventState::kFailed;
      result.status = static_cast<uint32_t>(shm::EventStatus::kKernelFault);
    }
    return result;
  }
};

// Whose chunk is next, of copies that have one. The most urgent one's, but nobody
// waits for ever.
class CopyTurns {
 public:
  static constexpr uint32_t kMostOvertakings = 32;

  MemoryCopy* Next(MemoryCopy* most_urgent, MemoryCopy* oldest) {
    overtakings_ = most_urgent == oldest ? 0 : overtakings_ + 1;
    if (overtakings_ <= kMostOvertakings) return most_urgent;
    overtakings_ = 0;
    return oldest;
  }

 private:
  uint32_t overtakings_ = 0;  // of the oldest, one after the other
};

// A copy that has not ended.
struct CopyProgress {
  std::string device;
  CopyDirection direction = CopyDirection::kIn;
  uint32_t priority = 0;
  uint64_t bytes = 0;
  uint64_t copied = 0;
  Nanoseconds age_ns = 0;  // since it came
};
inline CopyProgress ProgressOf(const MemoryCopy& copy, Nanoseconds now) {
  return {.device = copy.memory->name(),
          .direction = copy.direction,
          .priority = copy.priority,
          .bytes = copy.bytes,
          .copied = copy.copied,
          .age_ns = now - std::min(now, copy.queued_ns)};
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_MEMORY_COPY_H_
