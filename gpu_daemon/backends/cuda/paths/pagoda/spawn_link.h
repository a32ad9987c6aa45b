// A TaskTable in GPU memory, by copies in one CUDA stream (Pagoda 4.2.1): an
// entry's copy passes by the MasterKernel that runs.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_SPAWN_LINK_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_SPAWN_LINK_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/pagoda/task_link.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"

namespace carillon::gpud::cuda {

// Calls come under a use of the Gpu's, one at a time.
class SpawnLink final : public TaskLink {
 public:
  explicit SpawnLink(Gpu* gpu) : gpu_(*gpu) {}

  // In a new context: a table of so many entries. Quiet.
  absl::Status Prepare(uint32_t entries);
  void Free();
  void Abandon();

  TaskEntry* table() const { return table_.as<TaskEntry>(); }
  // All entries are free. Neither a MasterKernel nor a copy is under way.
  absl::Status Clear();
  // Whether all copies have arrived. False also where the context is lost.
  bool IsIdle() const;

  absl::Status CopyEntry(uint32_t entry, const TaskEntry& from) override;
  absl::Status CopyState(uint32_t entry, TaskState state) override;
  // Unimplemented: CUDA maps no GPU memory for a CPU.
  absl::Status StoreEntry(uint32_t entry, const TaskEntry& from) override;
  absl::Status CopyBack(uint32_t first, std::span<TaskState> states) override;

 private:
  // What a copy is made from stays as it is until the entry is free again, and so
  // the copy has arrived.
  struct Staged {
    TaskEntry entry;
    TaskState state;
    uint64_t reserved;
  };

  Gpu& gpu_;
  Stream stream_;
  DeviceBytes table_;
  PinnedBytes staged_;  // Staged[entries]
  PinnedBytes back_;    // TaskEntry[entries]
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_SPAWN_LINK_H_
