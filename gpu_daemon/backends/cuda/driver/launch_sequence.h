// What a CPU thread launches to have an event's, or a background kernel's, frame
// completed when the kernel has ended. A kernel of gpud's own completes it in its
// epilogue. A user's has none: it is launched as it is, and behind it, in the
// same stream or graph, one thread of carillon_complete.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_LAUNCH_SEQUENCE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_LAUNCH_SEQUENCE_H_

#include <cstddef>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/grid_slice.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

CUDA_KERNEL_NODE_PARAMS NodeParams(CUfunction function, simt::Dim3 grid,
                                   simt::Dim3 block, uint32_t shared_bytes,
                                   void** parameters, void** extra = nullptr);

// A user's arguments as the driver takes them, laid out as in the kernel's image.
// Refers to them, and to itself: neither copied nor moved.
class PackedArguments {
 public:
  PackedArguments(std::byte* args, size_t bytes)
      : bytes_(bytes),
        extra_{CU_LAUNCH_PARAM_BUFFER_POINTER, args,
               CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes_, CU_LAUNCH_PARAM_END} {}
  PackedArguments(const PackedArguments&) = delete;
  PackedArguments& operator=(const PackedArguments&) = delete;

  // nullptr: a kernel without parameters takes none.
  void** extra() { return bytes_ != 0 ? extra_ : nullptr; }

 private:
  size_t bytes_;
  void* extra_[5];
};

// A graph of one kernel, or of one behind the other.
struct KernelGraph {
  Graph graph;
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
};
// On the SMs that `capture` has, a stream in which nobody else does anything
// meanwhile; nullptr: on those of the context that is current (Context::OnSms).
absl::StatusOr<KernelGraph> MakeKernelGraph(
    const Driver& driver, std::span<const CUDA_KERNEL_NODE_PARAMS> kernels,
    CUstream capture);

// Functions of one context: good until it is lost. Copied freely.
class LaunchSequence {
 public:
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
                  CUstream stream) const {
    return LaunchSlice(driver, kmd, frame, args, stream, {.size = kmd.grid});
  }
  // The same of a slice of the grid, which completes as a launch of its own.
  // InvalidValue: it is none, or the kernel has none but its grid.
  CUresult LaunchSlice(const Driver& driver, const KernelMetadata& kmd,
                       simt::EventFrame frame, std::byte* args, CUstream stream,
                       const GridSlice& slice) const;

  // Why the kernel has no slices in this shape, if it has none.
  std::optional<WholeReason> WhyWhole(const KernelMetadata& kmd) const {
    if (!kmd.kernel->is_users()) return std::nullopt;
    if (slice_.function == nullptr) return slice_.why_whole;
    if (kmd.threads() > slice_.most_threads) return WholeReason::kRefused;
    return std::nullopt;
  }
  // Whether it can be launched as persistent blocks: not a user's kernel, nor one
  // whose threads leave it before others of their block meet at a barrier.
  bool has_ptb() const { return ptb_ != nullptr; }
  // As `resident` of them, which complete as one launch. has_ptb(), and frame and
  // `supply` as BlockSupply wants them.
  CUresult LaunchPtb(const Driver& driver, const KernelMetadata& kmd,
                     simt::EventFrame frame, std::byte* args, CUstream stream,
                     simt::BlockSupply supply, uint32_t resident) const;

  // What a block of a slice takes from its SM.
  BlockCost CostOfSlice(const KernelMetadata& kmd) const {
    if (slice_.function == nullptr) {
      return CostOf(kmd.threads(), kmd.kernel->registers_per_thread,
                    kmd.total_shared());
    }
    return CostOf(kmd.threads(), slice_.registers_per_thread,
                  slice_.static_shared_bytes + Modules::DynamicShared(kmd));
  }

  // As a graph of the current context's, with arguments that Set() must replace.
  absl::StatusOr<KernelGraph> AsGraph(const Driver& driver,
                                      const KernelMetadata& kmd) const;
  // For the next launch of `exec`, an instance of that graph. In the context that
  // was current to AsGraph().
  CUresult Set(const Driver& driver, CUgraphExec exec, const KernelGraph& graph,
               const KernelMetadata& kmd, simt::EventFrame frame,
               std::byte* args) const;

 private:
  class Parameters;

  CUfunction kernel_ = nullptr;
  // Of a user's kernel:
  CUfunction complete_ = nullptr;
  SliceFunction slice_;
  // Of gpud's own:
  CUfunction ptb_ = nullptr;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_LAUNCH_SEQUENCE_H_
