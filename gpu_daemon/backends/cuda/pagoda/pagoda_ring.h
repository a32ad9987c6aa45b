// What the host and the MasterKernel of launch path `pagoda_ring` share: scheduler
// warps take events from doorbells and make tasks of them, so nobody spawns. Plain
// data for CPU and GPU code; pagoda_ring_scheduler.h says who does what with it, and
// spawned_tasks.h what launch path `pagoda` uses of it.
//
//   host-mapped memory                      device memory
//   +-------------------------------+      +------------------------------------+
//   | PagodaControl  host -> GPU    |<-----| PagodaRingTable (a parameter)      |
//   | PagodaReport   GPU -> host    |<-----|   words: doorbells, command, up    |
//   | doorbells, ESQ         (read) |      |   rings[32]: PagodaRing            |
//   | ECQ, lives            (write) |      |   tasks[column][row]: TaskEntry    |
//   +-------------------------------+      |   records[column][row]: RingTask   |
//                                          +------------------------------------+
//
// The host's side of the contract
//   before the start  Nothing of it runs. The host fills in rings and words, and
//                     launches as many blocks as there are columns, no more than
//                     fit on the GPU at once.
//   while it runs     The host reads the report, each word for itself, and writes
//                     the control. Device memory is the GPU's.
//   kPagodaLeave      No event is taken any more; what was taken ends; all blocks
//                     end. Then each ring's head says which events were taken:
//                     all before it, and all of them have completed.
//   trap              The context is lost, if column 0 is on the GPU.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_RING_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_RING_H_

#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "kernels/simt/event_frame.h"
#include "kernels/simt/types.h"
#include "shm/layout.h"

namespace carillon::gpud {

// Each lane of a scheduler warp looks at one.
inline constexpr uint32_t kPagodaMaxRings = 32;
static_assert(kPagodaMaxRings == simt::kWarpSize);
// Column 0's looks at the doorbells from one look at the control to the next: a
// ring would wait for each of them.
inline constexpr uint32_t kPagodaLooksACommand = 16;
// Column 0's looks from one report to the next.
inline constexpr uint32_t kPagodaLooksAReport = 256;
// Looks for which a column without room for the ring whose turn it is keeps that
// turn, and gives its executors to no other ring.
inline constexpr uint32_t kPagodaPatience = 1 << 14;
// A task's arguments, a ring's own dimensions and the header.
inline constexpr uint32_t kPagodaEntryBytes =
    sizeof(shm::EsqEntryHeader) + sizeof(shm::KmdOverride) + kTaskMaxArgs;
static_assert(kPagodaEntryBytes % 16 == 0);

// Host memory. Writer: the host, release; readers: scheduler warps.
struct alignas(128) PagodaControl {
  // kPagodaLeave, and EdgeTracing, times 2.
  uint32_t command;
  uint32_t trap;            // 1: stop the context at once
  int64_t clock_offset_ns;  // as EdgeControl's
  uint32_t padding[28];
};
inline constexpr uint32_t kPagodaLeave = 1;
constexpr uint32_t PagodaTracing(EdgeTracing tracing) {
  return static_cast<uint32_t>(tracing) << 1;
}
static_assert(sizeof(PagodaControl) == 128);

// Host memory. Writer: column 0's scheduler warp, relaxed, but for `violation`;
// reader: the host.
struct PagodaRingReport {
  simt::EventTotals totals;  // launched + refused: were taken
  uint32_t doorbell;         // as it was seen last
  // 1: the doorbell is further than the ring has free slots. Writers: scheduler
  // warps.
  uint32_t violation;
  uint64_t reserved[3];
};
static_assert(sizeof(PagodaRingReport) == 64);

struct alignas(128) PagodaReport {
  PagodaRingReport rings[kPagodaMaxRings];
  // A heartbeat: of kPagodaLooksAReport looks each; on `pagoda`, of looks at the
  // control.
  uint64_t reports;
  uint64_t tasks;  // that were begun
  uint32_t up;     // columns, once all of them are on the GPU; 0 before
  uint32_t any;    // 1: one of them is. Writer: the first one's warp
};

// In device memory. The host writes it while nothing runs.
struct alignas(128) PagodaRing {
  // Without execs, frames, scratch and inline kernel.
  EdgeEntry entry;
  const uint32_t* doorbell;  // host-mapped
  uint64_t kernel;           // TaskKernel
  // The doorbell shows ring_of_zero + s once event s is rung.
  uint32_t ring_of_zero;
  uint32_t
      static_shared_bytes;  // of the kernel's, beside what an entry asks for
  uint32_t sync;            // 1: threads of a block meet at barriers
  uint32_t modifyable;      // 1: an entry may bring dimensions of its own
  // As registered; shared memory with the static one.
  simt::Dim3 grid;
  simt::Dim3 block;
  uint32_t shared_bytes;
  uint32_t reserved;
  // Counts all events since the ring began, but `launched`. Writers: executor and
  // scheduler warps, relaxed additions.
  simt::EventTotals totals;

  // The sequence that is taken next. Writers: scheduler warps, who take it by
  // compare-and-swap; so what was taken is all before it.
  alignas(128) uint64_t head;
};
static_assert(sizeof(PagodaRing) == 384);

// In device memory; zero when the MasterKernel starts, but for the doorbells.
struct alignas(128) PagodaWords {
  // What column 0 has seen. Writer: its scheduler warp, release; readers: the
  // others', acquire.
  uint32_t doorbells[kPagodaMaxRings];
  alignas(128) uint32_t command;  // the same of PagodaControl's
  // Columns that are on the GPU. Writers: all, once.
  alignas(128) uint32_t up;
  uint64_t tasks;  // begun; writers: scheduler warps
  // On `pagoda`, of column 0 at the control. Writer: its scheduler warp.
  uint32_t looks;
  // Columns none of whose warps has anything to do any more. Writers: all, once;
  // reader: column 0, which looks for a trap until then.
  alignas(128) uint32_t out;
};

// A task besides its TaskEntry. Writer: the scheduler warp while the entry is
// kFree; readers: executors while it is kRuns.
struct alignas(16) RingTask {
  simt::EventFrame
      frame;  // without scratch; the arguments are in the TaskEntry
  simt::Dim3 grid;
  simt::Dim3 block;
  uint32_t shared_bytes;  // of a block
  // The first failure. Writers: the task's threads, by compare-and-swap; reader:
  // its last warp.
  uint32_t fail_status;
};
static_assert(sizeof(RingTask) == 96);

struct PagodaRingTable {
  TaskTable tasks;    // `pagoda_ring`: without a command
  RingTask* records;  // as tasks.entries
  PagodaRing* rings;  // [ring_count]
  PagodaWords* words;
  const PagodaControl* control;
  PagodaReport* report;
  uint32_t ring_count;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_RING_H_
