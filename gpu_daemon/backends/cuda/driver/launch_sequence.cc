#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"

#include <cstring>
#include <vector>

#include "base/status.h"

namespace carillon::gpud::cuda {

// A kernel's parameters as the driver takes them. Refers to what it was made
// from, and to itself: neither copied nor moved.
class LaunchSequence::Parameters {
 public:
  Parameters(const KernelMetadata& kmd, simt::EventFrame& frame,
             std::byte* args, const simt::Dim3& first = {0, 0, 0})
      : is_users_(kmd.kernel->is_users()),
        part_{first, kmd.grid},
        by_value_{&frame, args, &part_},
        packed_(args, kmd.kernel->args_size) {}
  // Of a user's kernel's slice.
  Parameters(const KernelMetadata& kmd, const std::byte* args,
             const SliceFunction& slice, const simt::Dim3& first)
      : is_users_(true),
        part_{first, kmd.grid},
        with_part_(slice.part_offset + sizeof(part_)),
        by_value_{},
        packed_(with_part_.data(), with_part_.size()) {
    // It may have none.
    if (args != nullptr) {
      std::memcpy(with_part_.data(), args, kmd.kernel->args_size);
    }
    std::memcpy(with_part_.data() + slice.part_offset, &part_, sizeof(part_));
  }
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  void** parameters() { return is_users_ ? nullptr : by_value_; }
  void** extra() { return is_users_ ? packed_.extra() : nullptr; }

 private:
  const bool is_users_;
  simt::GridPart part_;
  std::vector<std::byte> with_part_;
  void* by_value_[3];  // of carillon_call_<name>
  PackedArguments packed_;
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

namespace {

CUresult AddAll(const Driver& driver,
                std::span<const CUDA_KERNEL_NODE_PARAMS> kernels,
                KernelGraph& made) {
  CUgraphNode last = nullptr;
  for (const CUDA_KERNEL_NODE_PARAMS& kernel : kernels) {
    CUgraphNode& node = last == nullptr ? made.first : made.second;
    const CUresult result = driver.cuGraphAddKernelNode(
        &node, made.graph.get(), &last, last == nullptr ? 0 : 1, &kernel);
    if (result != CUDA_SUCCESS) return result;
    last = node;
  }
  return CUDA_SUCCESS;
}

CUresult CaptureAll(const Driver& driver,
                    std::span<const CUDA_KERNEL_NODE_PARAMS> kernels,
                    CUstream stream, KernelGraph& made) {
  // Relaxed: it forbids no thread anything.
  CUresult result =
      driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (result != CUDA_SUCCESS) return result;
  for (const CUDA_KERNEL_NODE_PARAMS& kernel : kernels) {
    if (result != CUDA_SUCCESS) break;
    result = driver.cuLaunchKernel(
        kernel.func, kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ,
        kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ,
        kernel.sharedMemBytes, stream, kernel.kernelParams, kernel.extra);
  }
  CUgraph graph = nullptr;
  const CUresult ended = driver.cuStreamEndCapture(stream, &graph);
  if (graph != nullptr) made.graph = Graph(&driver, graph);
  if (result == CUDA_SUCCESS) result = ended;
  size_t count = 1;
  if (result == CUDA_SUCCESS) {
    result = driver.cuGraphGetRootNodes(graph, &made.first, &count);
  }
  if (result != CUDA_SUCCESS || kernels.size() == 1) return result;
  CUgraphNode both[2] = {};
  count = 2;
  result = driver.cuGraphGetNodes(graph, both, &count);
  made.second = both[0] == made.first ? both[1] : both[0];
  return result;
}

}  // namespace

absl::StatusOr<KernelGraph> MakeKernelGraph(
    const Driver& driver, std::span<const CUDA_KERNEL_NODE_PARAMS> kernels,
    CUstream capture) {
  KernelGraph made;
  if (capture != nullptr) {
    RETURN_IF_ERROR(ToStatus(driver, CaptureAll(driver, kernels, capture, made),
                             "capture a kernel for a graph"));
    return made;
  }
  ASSIGN_OR_RETURN(made.graph, MakeGraph(driver));
  RETURN_IF_ERROR(ToStatus(driver, AddAll(driver, kernels, made),
                           "add a kernel to a graph"));
  return made;
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
    ASSIGN_OR_RETURN(sequence.slice_, gpu.SlicesOf(kmd));
  } else if (!kmd.kernel->uses_barriers || kmd.kernel->leaves_together) {
    ASSIGN_OR_RETURN(sequence.ptb_, gpu.FunctionFor("carillon_ptb_", kmd));
  }
  return sequence;
}

CUresult LaunchSequence::LaunchSlice(const Driver& driver,
                                     const KernelMetadata& kmd,
                                     simt::EventFrame frame, std::byte* args,
                                     CUstream stream,
                                     const GridSlice& slice) const {
  const bool is_whole = slice.size == kmd.grid;
  if (!IsSliceOf(kmd.grid, slice) || (!is_whole && WhyWhole(kmd))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool by_version = kmd.kernel->is_users() && !is_whole;
  const auto launch = [&](CUfunction kernel, Parameters&& parameters) {
    return driver.cuLaunchKernel(
        kernel, slice.size.x, slice.size.y, slice.size.z, kmd.block.x,
        kmd.block.y, kmd.block.z, Modules::DynamicShared(kmd), stream,
        parameters.parameters(), parameters.extra());
  };
  CUresult result =
      by_version
          ? launch(slice_.function, Parameters(kmd, args, slice_, slice.first))
          : launch(kernel_, Parameters(kmd, frame, args, slice.first));
  if (result != CUDA_SUCCESS || complete_ == nullptr) return result;
  void* complete_parameters[] = {&frame};
  result = driver.cuLaunchKernel(complete_, 1, 1, 1, 1, 1, 1, 0, stream,
                                 complete_parameters, nullptr);
  if (result == CUDA_SUCCESS || IsContextFault(result)) return result;
  return CUDA_ERROR_LAUNCH_FAILED;
}

CUresult LaunchSequence::LaunchPtb(const Driver& driver,
                                   const KernelMetadata& kmd,
                                   simt::EventFrame frame, std::byte* args,
                                   CUstream stream, simt::BlockSupply supply,
                                   uint32_t resident) const {
  if (!has_ptb() || resident == 0) return CUDA_ERROR_INVALID_VALUE;
  void* parameters[] = {&frame, args, &supply};
  return driver.cuLaunchKernel(ptb_, resident, 1, 1, kmd.block.x, kmd.block.y,
                               kmd.block.z, Modules::DynamicShared(kmd), stream,
                               parameters, nullptr);
}

absl::StatusOr<KernelGraph> LaunchSequence::AsGraph(
    const Driver& driver, const KernelMetadata& kmd) const {
  simt::EventFrame frame{};
  std::vector<std::byte> args(kmd.kernel->args_size);
  Parameters parameters(kmd, frame, args.data());
  void* complete_parameters[] = {&frame};
  std::vector kernels = {
      NodeParams(kernel_, kmd.grid, kmd.block, Modules::DynamicShared(kmd),
                 parameters.parameters(), parameters.extra())};
  if (complete_ != nullptr) {
    kernels.push_back(
        NodeParams(complete_, {1, 1, 1}, {1, 1, 1}, 0, complete_parameters));
  }
  return MakeKernelGraph(driver, kernels, nullptr);
}

CUresult LaunchSequence::Set(const Driver& driver, CUgraphExec exec,
                             const KernelGraph& graph,
                             const KernelMetadata& kmd, simt::EventFrame frame,
                             std::byte* args) const {
  const auto set = [&](CUgraphNode node,
                       const CUDA_KERNEL_NODE_PARAMS& params) {
    return driver.cuGraphExecKernelNodeSetParams(exec, node, &params);
  };
  Parameters parameters(kmd, frame, args);
  const CUresult result =
      set(graph.first,
          NodeParams(kernel_, kmd.grid, kmd.block, Modules::DynamicShared(kmd),
                     parameters.parameters(), parameters.extra()));
  if (result != CUDA_SUCCESS || complete_ == nullptr) return result;
  void* complete_parameters[] = {&frame};
  return set(graph.second, NodeParams(complete_, {1, 1, 1}, {1, 1, 1}, 0,
                                      complete_parameters));
}

}  // namespace carillon::gpud::cuda
