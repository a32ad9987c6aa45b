#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"

#include <vector>

#include "base/status.h"

namespace carillon::gpud::cuda {

// A kernel's parameters as the driver takes them. Refers to what it was made
// from, and to itself: neither copied nor moved.
class LaunchSequence::Parameters {
 public:
  Parameters(const simt::KernelInfo& kernel, simt::EventFrame& frame,
             std::byte* args)
      : size_(kernel.args_size),
        by_value_{&frame, args},
        packed_{CU_LAUNCH_PARAM_BUFFER_POINTER, args,
                CU_LAUNCH_PARAM_BUFFER_SIZE, &size_, CU_LAUNCH_PARAM_END} {
    if (!kernel.is_users()) {
      parameters_ = by_value_;
    } else if (size_ != 0) {
      extra_ = packed_;
    }
  }
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  void** parameters() const { return parameters_; }
  void** extra() const { return extra_; }

 private:
  size_t size_;
  void* by_value_[2];  // of carillon_call_<name>
  void* packed_[5];    // a user's: laid out as in its image
  void** parameters_ = nullptr;
  void** extra_ = nullptr;
};

CUDA_KERNEL_NODE_PARAMS NodeParams(CUfunction function, simt::Dim3 grid,
                                   simt::Dim3 block, uint32_t shared_bytes,
                                   void** parameters, void** extra) {
  CUDA_KERNEL_NODE_PARAMS node = {};
  node.func = function;
  node.gridDimX = grid.x;
  node.gridDimY = grid.y;
  node.gridDimZ = grid.z;
  node.blockDimX = block.x;
  node.blockDimY = block.y;
  node.blockDimZ = block.z;
  node.sharedMemBytes = shared_bytes;
  node.kernelParams = parameters;
  node.extra = extra;
  return node;
}

absl::StatusOr<LaunchSequence> LaunchSequence::Make(Gpu& gpu,
                                                    const KernelMetadata& kmd) {
  LaunchSequence sequence;
  const bool is_users = kmd.kernel->is_users();
  ASSIGN_OR_RETURN(sequence.kernel_,
                   is_users ? gpu.UserFunction(kmd)
                            : gpu.FunctionFor("carillon_call_", kmd));
  if (is_users) {
    ASSIGN_OR_RETURN(sequence.complete_, gpu.Function("carillon_complete"));
  }
  return sequence;
}

CUresult LaunchSequence::Launch(const Driver& driver, const KernelMetadata& kmd,
                                simt::EventFrame frame, std::byte* args,
                                CUstream stream) const {
  const Parameters parameters(*kmd.kernel, frame, args);
  CUresult result = driver.cuLaunchKernel(
      kernel_, kmd.grid.x, kmd.grid.y, kmd.grid.z, kmd.block.x, kmd.block.y,
      kmd.block.z, Gpu::DynamicShared(kmd), stream, parameters.parameters(),
      parameters.extra());
  if (result != CUDA_SUCCESS || complete_ == nullptr) return result;
  void* complete_parameters[] = {&frame};
  result = driver.cuLaunchKernel(complete_, 1, 1, 1, 1, 1, 1, 0, stream,
                                 complete_parameters, nullptr);
  if (result == CUDA_SUCCESS || IsContextFault(result)) return result;
  return CUDA_ERROR_LAUNCH_FAILED;
}

absl::StatusOr<LaunchSequence::Nodes> LaunchSequence::AddTo(
    const Driver& driver, CUgraph graph, const KernelMetadata& kmd) const {
  Nodes nodes;
  simt::EventFrame frame{};
  std::vector<std::byte> args(kmd.kernel->args_size);
  const Parameters parameters(*kmd.kernel, frame, args.data());
  CUDA_KERNEL_NODE_PARAMS params =
      NodeParams(kernel_, kmd.grid, kmd.block, Gpu::DynamicShared(kmd),
                 parameters.parameters(), parameters.extra());
  CUresult result =
      driver.cuGraphAddKernelNode(&nodes.kernel, graph, nullptr, 0, &params);
  if (result == CUDA_SUCCESS && complete_ != nullptr) {
    void* complete_parameters[] = {&frame};
    params =
        NodeParams(complete_, {1, 1, 1}, {1, 1, 1}, 0, complete_parameters);
    result = driver.cuGraphAddKernelNode(&nodes.complete, graph, &nodes.kernel,
                                         1, &params);
  }
  RETURN_IF_ERROR(ToStatus(driver, result, "add a kernel to a graph"));
  return nodes;
}

CUresult LaunchSequence::Set(const Driver& driver, CUgraphExec exec,
                             const Nodes& nodes, const KernelMetadata& kmd,
                             simt::EventFrame frame, std::byte* args) const {
  const Parameters parameters(*kmd.kernel, frame, args);
  CUDA_KERNEL_NODE_PARAMS params =
      NodeParams(kernel_, kmd.grid, kmd.block, Gpu::DynamicShared(kmd),
                 parameters.parameters(), parameters.extra());
  const CUresult result =
      driver.cuGraphExecKernelNodeSetParams(exec, nodes.kernel, &params);
  if (result != CUDA_SUCCESS || complete_ == nullptr) return result;
  void* complete_parameters[] = {&frame};
  params = NodeParams(complete_, {1, 1, 1}, {1, 1, 1}, 0, complete_parameters);
  return driver.cuGraphExecKernelNodeSetParams(exec, nodes.complete, &params);
}

}  // namespace carillon::gpud::cuda
