// Runs a thread block in the calling thread: a worker's, or the front-end's on
// the short path.
#ifndef CARILLON_GPU_DAEMON_EVENT_BLOCK_RUNNER_H_
#define CARILLON_GPU_DAEMON_EVENT_BLOCK_RUNNER_H_

#include <cstdint>

#include "base/clock.h"
#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/event/kernel_metadata.h"

namespace carillon::gpud {

// What the blocks of one launch share while they run. Made when it is submitted.
struct LaunchRun {
  LaunchRun() = default;
  explicit LaunchRun(const DeviceMemory& memory)
      : releases(&memory.releases()), releases_over(releases->OverNow()) {}

  // Its device's; null: nobody releases it.
  WaitReleases* releases = nullptr;
  uint64_t releases_over = 0;
  // Writers: blocks, by compare-and-swap from 0; readers: they, and who ends the
  // launch after its last block, whom a lock tells of that. So relaxed.
  uint32_t fail_status = 0;  // simt::FailStatus
  // Of a user's kernel, under its runner's lock: how many of its blocks run, since
  // when any has, and for how long any had before.
  uint32_t running_blocks = 0;
  Nanoseconds runs_since = 0;
  Nanoseconds ran_ns = 0;
};

// Thread safe: different blocks run at once in different threads.
class BlockRunner {
 public:
  virtual ~BlockRunner() = default;

  // Runs one thread block (`block`: flattened index, x fastest) to its end, in
  // the calling thread. The first block that fails sets run->fail_status. What the
  // back-end has to say about a failure of its own goes to gpud's log.
  virtual void Run(const KernelMetadata& kmd, uint64_t block, const void* args,
                   LaunchRun* run) = 0;
};

// Coordinates of a block in the grid.
inline simt::Dim3 BlockIndex(const simt::Dim3& grid, uint64_t block) {
  if (block == 0) return {0, 0, 0};
  return {static_cast<uint32_t>(block % grid.x),
          static_cast<uint32_t>(block / grid.x % grid.y),
          static_cast<uint32_t>(block / grid.x / grid.y)};
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_BLOCK_RUNNER_H_
