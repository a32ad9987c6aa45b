#include "gpu_daemon/event/kernel_launch.h"

#include "gpu_daemon/event/backend.h"

namespace carillon::gpud {

LaunchProgress ProgressOf(const KernelLaunch& launch) {
  return {.device = launch.memory == nullptr ? "" : launch.memory->name(),
          .kernel = std::string(launch.kmd.kernel->name),
          .event = launch.is_event(),
          .sequence = launch.is_event() ? launch.sequence.value() : 0,
          .priority = launch.priority,
          .blocks = launch.kmd.blocks(),
          .running = launch.running(),
          .ended = launch.ended_blocks,
          .slices = launch.slices};
}

}  // namespace carillon::gpud
