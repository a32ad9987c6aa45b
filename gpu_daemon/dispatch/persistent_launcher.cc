#include "gpu_daemon/dispatch/persistent_launcher.h"

#include "fmt/format.h"
#include "gpu_daemon/dispatch/run_event.h"

namespace carillon::gpud {

absl::Status PersistentLauncher::Prepare(EventKernel& event) {
  const simt::KernelInfo& kernel = *event.kmd().kernel;
  if (!kernel.unbounded) {
    event_kernels_.fetch_add(1, std::memory_order_relaxed);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "kernel '{}' runs for as long as its arguments say: on launch path "
      "persistent every other event would wait for it; use another path",
      kernel.name));
}

bool PersistentLauncher::Launch(const std::shared_ptr<EventKernel>& event,
                                shm::Sequence sequence, CheckedEntry& entry) {
  RunEvent(*runner_, *event, sequence, entry);
  return true;
}

}  // namespace carillon::gpud
