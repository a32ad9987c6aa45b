#include "gpu_daemon/backends/cpu/pagoda_ring_launcher.h"

namespace carillon::gpud {

PagodaRingLauncher::PagodaRingLauncher(Kmu* kmu, PagodaMtbs* mtbs)
    : TaskQueueLauncher(kmu, mtbs),
      port_(mtbs->SchedulerPort(0)),
      placer_(port_, mtbs->table(), mtbs->mtb(0).block, 0) {}

bool PagodaRingLauncher::GiveOut() {
  bool placed = false;
  while (placing_ || BeginOldest()) {
    placing_ = !placer_.Step();
    if (placing_) break;
    placed = true;
  }
  return placed;
}

bool PagodaRingLauncher::BeginOldest() {
  PagodaTask* const task = Oldest();
  if (task == nullptr) return false;
  const TaskTable& table = mtbs().table();
  for (uint32_t row = 0; row < table.rows; ++row) {
    if (port_.PollState(&table.Column(0)[row].state) != TaskState::kFree) {
      continue;
    }
    // Of this thread's own table: no copy can fail.
    (void)mtbs().StoreEntry(row, PagodaMtbs::EntryOf(task));
    TakeOldest();
    placer_.Begin(row);
    return true;
  }
  return false;
}

}  // namespace carillon::gpud
