// What a CPU thread launches to have an event's, or a background kernel's, frame
// completed when the kernel has ended. A kernel of gpud's own completes it in its
// epilogue. A user's has none: it is launched as it is, and behind it, in the
// same stream or graph, one thread of carillon_complete.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_LAUNCH_SEQUENCE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_LAUNCH_SEQUENCE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

CUDA_KERNEL_NODE_PARAMS NodeParams(CUfunction function, simt::Dim3 grid,
                                   simt::Dim3 block, uint32_t shared_bytes,
                                   void** parameters, void** extra = nullptr);

// Functions of one context: good until it is lost. Copied freely.
class LaunchSequence {
 public:
  struct Nodes {
    CUgraphNode kernel = nullptr;
    CUgraphNode complete = nullptr;
  };

  LaunchSequence() = default;
  // Under a use, as all that follows. Errors: those of Gpu::Function
  // and Gpu::UserFunction.
  static absl::StatusOr<LaunchSequence> Make(Gpu& gpu,
                                             const KernelMetadata& kmd);

  // Into a stream. `kmd`: of the same kernel, in any shape. A fault, as of
  // IsContextFault(), also when the kernel was launched and what completes it
  // could not be: then only the context's end ends it.
  CUresult Launch(const Driver& driver, const KernelMetadata& kmd,
                  simt::EventFrame frame, std::byte* args,
                  CUstream stream) const;

  // As the nodes of a graph, with arguments that Set() must replace.
  absl::StatusOr<Nodes> AddTo(const Driver& driver, CUgraph graph,
                              const KernelMetadata& kmd) const;
  // For the next launch of `exec`, an instance of that graph.
  CUresult Set(const Driver& driver, CUgraphExec exec, const Nodes& nodes,
               const KernelMetadata& kmd, simt::EventFrame frame,
               std::byte* args) const;

 private:
  class Parameters;

  CUfunction kernel_ = nullptr;
  CUfunction complete_ = nullptr;  // of a user's kernel
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_LAUNCH_SEQUENCE_H_
