// The scheduler warp of launch path `pagoda`'s MasterKernel: a thread of the host
// spawns tasks into the TaskTable (task_spawner.h), and mtb_scheduler.h takes them
// from there. For CPU and GPU code.
//
// A PagodaRingTable serves it without rings and records: an event's RingTask lies
// in front of its arguments in the entry, so that both come in the entry's one
// copy. The command lies in device memory (PagodaWords), where column 0 puts the
// host's: else every MTB would read it over PCIe all the time.
//
// A Port is mtb_scheduler.h's, with mtb_crew.h's; its Pause() calls
// PassCommandOn() in one lane of column 0's scheduler warp.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_SPAWNED_TASKS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_SPAWNED_TASKS_H_

#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_crew.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_scheduler.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"

namespace carillon::gpud {

// That a kernel's arguments may have beside the record.
inline constexpr uint32_t kSpawnedMaxArgs = kTaskMaxArgs - sizeof(RingTask);
static_assert(offsetof(TaskEntry, args) % alignof(RingTask) == 0 &&
              sizeof(RingTask) % 16 == 0);
// MtbScheduler asks for TaskCommand.
static_assert(static_cast<uint32_t>(TaskCommand::kLeave) == kPagodaLeave);

// Writable: a task's threads note their failure there.
CARILLON_HOST_DEVICE RingTask& SpawnedRecord(const TaskEntry& entry) {
  return *reinterpret_cast<RingTask*>(const_cast<std::byte*>(entry.args));
}
CARILLON_HOST_DEVICE const std::byte* SpawnedArgs(const TaskEntry& entry) {
  return entry.args + sizeof(RingTask);
}

// And says that column 0 lives. The count lies in device memory, since the
// scheduler warp has no register left for it.
template <class Port>
CARILLON_EDGE void PassCommandOn(Port& port, const PagodaRingTable& table) {
  port.StoreSystem(&table.report->reports,
                   port.AddDevice(&table.words->looks, 1u) + 1);
  if (port.PollWord(&table.control->trap) != 0) port.Trap();
  const uint32_t command = port.PollWord(&table.control->command);
  if (command != 0) port.FreeDevice(&table.words->command, command);
}

template <class Port>
CARILLON_EDGE void ScheduleSpawned(Port& port, const PagodaRingTable& table,
                                   MtbBlock& block, uint32_t column) {
  MtbCrew<Port> crew(port, table, block, column);
  const bool all = crew.AwaitAll();
  if (all) {
    MtbScheduler<Port>(port, table.tasks, block, column).Run();
  } else {
    // The last column may find all there and look for the command where only
    // column 0 puts it.
    port.Elect([&] {
      if (column == 0) PassCommandOn(port, table);
      port.StoreBlock(&block.leave, 1);
    });
  }
  crew.AwaitEnd(all);
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_SPAWNED_TASKS_H_
