#include "sim/timing/edge/event_table.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace carillon::sim::timing {

absl::StatusOr<EventId> EventTable::Add(EventKernel kernel) {
  for (Entry& entry : entries_) {
    if (entry.id != 0) continue;
    entry = {next_++, std::move(kernel)};
    return entry.id;
  }
  return absl::ResourceExhaustedError(fmt::format(
      "{}: the event kernel table has {} entries (edge.ekt), and all are "
      "taken: unregister one",
      kernel.launch.kernel->name, entries_.size()));
}

absl::Status EventTable::Remove(EventId event) {
  for (Entry& entry : entries_) {
    if (entry.id != event || event == 0) continue;
    entry = {};
    return absl::OkStatus();
  }
  return absl::NotFoundError(fmt::format("event {}: there is none", event));
}

const EventKernel* EventTable::Find(EventId event) const {
  for (const Entry& entry : entries_) {
    if (entry.id == event && event != 0) return &entry.kernel;
  }
  return nullptr;
}

uint32_t EventTable::most_registers() const {
  uint32_t most = 0;
  for (const Entry& entry : entries_) {
    if (entry.id == 0) continue;
    const uint32_t own = entry.kernel.launch.kernel->registers;
    most = std::max(most,
                    entry.kernel.registers != 0 ? entry.kernel.registers : own);
  }
  return most;
}

}  // namespace carillon::sim::timing
