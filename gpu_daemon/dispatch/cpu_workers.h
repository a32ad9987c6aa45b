// The CPU back-end's cores: threads that run the thread blocks that the KMU
// gives out.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_CPU_WORKERS_H_
#define CARILLON_GPU_DAEMON_DISPATCH_CPU_WORKERS_H_

#include <cstdint>
#include <thread>
#include <vector>

#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/event/block_runner.h"

namespace carillon::gpud {

// One core is the front-end's: as many workers as this process has others, at
// least one.
uint32_t DefaultWorkers();

class CpuWorkers {
 public:
  // Starts `count` (>= 1) threads.
  CpuWorkers(uint32_t count, Kmu* kmu, BlockRunner* runner);
  // Joins them; the KMU must have been stopped.
  ~CpuWorkers();

  uint32_t count() const { return static_cast<uint32_t>(threads_.size()); }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_CPU_WORKERS_H_
