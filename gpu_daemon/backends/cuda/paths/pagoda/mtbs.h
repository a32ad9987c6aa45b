// What launch paths `pagoda` and `pagoda_ring` have in common on the host: which
// kernels their MTBs take as tasks, how many MTBs there are to be, and the module
// with their MasterKernels.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_MTBS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_MTBS_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "kernels/simt/types.h"

namespace carillon::gpud::cuda {

inline constexpr uint32_t kMtbThreads =
    (1 + kTaskMaxExecutors) * simt::kWarpSize;

// InvalidArgument: why the kernel is none that an MTB could run.
absl::Status TaskRefusal(const simt::KernelInfo& kernel, std::string_view why);

// Whether MTBs of that launch path can run the event kernel, as it is registered,
// with arguments of at most `most_args` bytes. Errors: TaskRefusal().
absl::Status CheckTaskKernel(const EventKernel& event, std::string_view path,
                             uint32_t most_args);
// Whether they can in this shape.
absl::Status CheckTaskShape(const KernelMetadata& kmd);

// TaskEntry::kernel. Requires CheckTaskKernel().
uint64_t TaskKernelNumber(const simt::KernelInfo& kernel);

// A MasterKernel in the context.
class MasterKernel {
 public:
  // Errors: those of the driver; Unimplemented (a GPU whose SMs hold no MTB).
  absl::Status Load(const Gpu& gpu, std::string_view path, const char* name);
  void Reset() { module_.Reset(); }
  void Abandon();

  CUfunction function() const { return function_; }
  // So many MTBs at most: one an SM, and some SMs stay whole.
  uint32_t most_mtbs() const { return most_mtbs_; }
  // Of an MTB.
  const BlockCost& cost() const { return cost_; }

 private:
  Module module_;
  CUfunction function_ = nullptr;
  uint32_t most_mtbs_ = 0;
  BlockCost cost_;
};

// How many MTBs the events of some rings fill, by what runs out first: executors,
// barriers or shared memory. Rows never do: a task has at least a warp.
class WantedMtbs {
 public:
  void Add(const KernelMetadata& kmd, uint32_t entries);
  uint32_t AtMost(uint32_t most) const;

 private:
  uint64_t warps_ = 0;
  uint64_t barriers_ = 0;
  uint64_t shared_bytes_ = 0;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_MTBS_H_
