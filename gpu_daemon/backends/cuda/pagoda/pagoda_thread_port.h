// The Port of mtb_scheduler.h whose warps are threads.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_THREAD_PORT_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_THREAD_PORT_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_thread_port.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"

namespace carillon::gpud {

// What an MTB's warps cannot do by memory alone. Called by their threads.
class PagodaThreadGpu {
 public:
  virtual ~PagodaThreadGpu() = default;
  virtual void RunTask(uint32_t column, const TaskEntry& entry,
                       const TaskWarp& warp) = 0;
  // False: the context is lost, and every warp's thread ends.
  virtual bool alive() const = 0;
};

class PagodaThreadPort : public EdgeThreadPort {
 public:
  PagodaThreadPort(PagodaThreadGpu* gpu, uint32_t column)
      : EdgeThreadPort(nullptr, column), gpu_(gpu), column_(column) {}

  // Acquire, as TSan knows no fences.
  TaskState PollState(const TaskState* state) {
    return std::atomic_ref<TaskState>(*const_cast<TaskState*>(state))
        .load(std::memory_order_acquire);
  }
  void RunTask(const TaskEntry& entry, const TaskWarp& warp) {
    gpu_->RunTask(column_, entry, warp);
  }
  bool SkipsTask(const TaskEntry&) { return false; }
  void Pause(uint32_t) {
    if (!gpu_->alive()) throw EdgeContextLost();
    sched_yield();
  }

 private:
  PagodaThreadGpu* const gpu_;
  const uint32_t column_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_THREAD_PORT_H_
