// A back-end: what runs the kernels. gpud has one, chosen when it starts
// (gpu_daemon/backends/registry.h).
#ifndef CARILLON_GPU_DAEMON_EVENT_BACKEND_H_
#define CARILLON_GPU_DAEMON_EVENT_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "fmt/format.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "gpu_daemon/event/kernel_memory.h"
#include "gpu_daemon/event/launch_filter.h"
#include "gpu_daemon/event/launch_path.h"
#include "gpu_daemon/event/memory_copy.h"
#include "gpu_daemon/event/path_set.h"
#include "gpu_daemon/event/user_kernel.h"

namespace carillon::gpud {

struct PolicyInfo;  // gpu_daemon/options/policy_names.h

struct QueueLength {
  bool event = false;
  uint32_t priority = 0;
  uint32_t kernels = 0;
};

// A launch that has not ended.
struct LaunchProgress {
  std::string device;
  std::string kernel;
  bool event = false;
  uint64_t sequence = 0;  // an event's
  uint32_t priority = 0;
  uint64_t blocks = 0;
  uint64_t running = 0;
  uint64_t ended = 0;
  uint64_t slices = 0;  // that have ended; 0 where launches run whole
  // While it has blocks to place: since its last one was, or it came.
  Nanoseconds wait_ns = 0;
};
// Without wait_ns.
inline LaunchProgress ProgressOf(const KernelLaunch& launch) {
  return {.device = launch.memory == nullptr ? "" : launch.memory->name(),
          .kernel = std::string(launch.kmd.kernel->name),
          .event = launch.is_event(),
          .sequence = launch.is_event() ? launch.sequence.value() : 0,
          .priority = launch.priority,
          // Of one that was cancelled, no further block begins.
          .blocks = launch.cancelled ? launch.next_block : launch.kmd.blocks(),
          .running = launch.running(),
          .ended = launch.ended_blocks,
          .slices = launch.slices};
}

// Where launches are cut into slices before the GPU (policy gpes, cuda).
struct SliceFigures {
  uint64_t sliced = 0;  // launches
  uint64_t slices = 0;
  // Of those, that took longer than --preempt-us: a wave may, and so may one
  // whose kernel's blocks have become longer.
  uint64_t over_bound = 0;
  std::vector<PathCounter> whole;  // launches that ran whole, by reason
};

// Where a launch is persistent blocks that can be stopped (policy ptb, cuda).
struct PtbCounts {
  uint64_t launches = 0;
  uint64_t stops = 0;              // how often one left before its end
  std::vector<PathCounter> whole;  // launches that ran whole, by reason
};

struct BackendFigures {
  uint32_t resident_blocks = 0;
  // Those of the KMU, by SM; empty: it has none.
  std::vector<uint32_t> blocks_of_sms = {};
  uint64_t background_kernels = 0;
  uint64_t background_blocks = 0;
  SliceFigures slices;
  PtbCounts ptb = {};
};

// Thread safe.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  // What it runs on, in words.
  virtual std::string description() const = 0;
  virtual const GpuModel& gpu() const = 0;
  // Threads that run thread blocks; 0 if no thread of gpud's does.
  virtual uint32_t workers() const = 0;
  virtual BackendFigures figures() const = 0;
  virtual std::vector<QueueLength> queue_lengths() const = 0;
  // Launches that have not ended, but for events that launch paths hold or run
  // by themselves.
  virtual std::vector<LaunchProgress> launches() const = 0;
  // Copies that have not ended; their order says nothing.
  virtual std::vector<CopyProgress> copies() const = 0;
  // True when nothing waits and nothing runs.
  virtual bool idle() const = 0;

  virtual PathSet& paths() = 0;

  // Whether time is the simulated GPU's, and passes by turns
  // (shm/simulated_time.h): devices that do not live by it must not attach.
  virtual bool simulates_time() const { return false; }
  // A device has attached; PathSet::RemoveDevice() tells of its end.
  virtual void AddDevice(const std::shared_ptr<DeviceMemory>&) {}

  // Whether events can be handed on from one device to another
  // (dispatch/chain.h): not where the GPU itself ends them.
  virtual bool has_chains() const { return false; }

  // Whether it runs background kernels and copies. Errors: Unimplemented.
  virtual absl::Status CheckBackground() const { return absl::OkStatus(); }

  // A background kernel, or the second event of a chain; it ends exactly once, by
  // KernelLaunch::on_end. Its block must fit an SM (CheckKernelMetadata).
  virtual void Submit(std::unique_ptr<KernelLaunch> launch) = 0;
  // It ends exactly once, by MemoryCopy::on_end.
  virtual void Submit(std::unique_ptr<MemoryCopy> copy) = 0;
  // Takes back the launches and copies that `which` names, as far as they have not begun.
  // When this returns, those that remain write nothing that their owner has not
  // kept alive for them.
  virtual void Cancel(const LaunchFilter& which, shm::EventStatus why) = 0;

  // edgeReleaseBarrier of a device, at its time: the blocks of all kernels that
  // wait at the wait-release barrier go on, and who has found no work waits
  // again. Errors: Unimplemented, where the GPU has no such barrier.
  virtual absl::Status ReleaseBarrier(const DeviceMemory&) {
    return absl::UnimplementedError(fmt::format(
        "the {} back-end has no wait-release barrier: launch the event with a "
        "doorbell instead",
        name()));
  }

  virtual std::string policy() const = 0;
  // Those it can do, its default first.
  virtual std::vector<const PolicyInfo*> policies() const = 0;
  // From now on, whatever runs. Errors: those of CheckPolicy();
  // InvalidArgument (the policy needs another GPU).
  virtual absl::Status SetPolicy(std::string_view name) = 0;

  virtual KernelMemory& memory() = 0;

  // A user's own kernels, one a declaration, in order; they live as long as the
  // back-end. All of them or none. Errors: InvalidArgument (the image, a
  // parameter), Unimplemented (an instruction, with its place), NotFound (a
  // symbol), ResourceExhausted.
  virtual absl::StatusOr<std::vector<const simt::KernelInfo*>> LoadKernels(
      const ModuleSource& source) = 0;

  // Whether it can run a kernel of the catalogue, in words if not. Errors:
  // FailedPrecondition.
  virtual absl::Status CheckKernel(const simt::KernelInfo&) const {
    return absl::OkStatus();
  }

  // Stops the launch paths; what waits is aborted with kShutdown.
  virtual void Stop() = 0;
  // After Stop(): waits for kernels that still run.
  virtual void Join() = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_BACKEND_H_
