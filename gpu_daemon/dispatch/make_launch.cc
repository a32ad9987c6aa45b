#include "gpu_daemon/dispatch/make_launch.h"

#include <cstring>

namespace carillon::gpud {

std::unique_ptr<KernelLaunch> MakeLaunch(
    const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
    const CheckedEntry& entry) {
  const KernelMetadata& kmd = entry.kmd;
  auto launch = std::make_unique<KernelLaunch>();
  launch->kmd = kmd;
  launch->cost = CostOf(kmd.threads(), kmd.kernel->registers_per_thread,
                        kmd.total_shared());
  launch->priority = event->allowed_priority();
  launch->args = std::make_unique<std::byte[]>(kmd.kernel->args_size);
  std::memcpy(launch->args.get(), entry.args.data(), kmd.kernel->args_size);
  launch->memory = event->shared_memory();
  launch->event = event;
  launch->sequence = sequence;
  launch->life = entry.life;
  return launch;
}

}  // namespace carillon::gpud
