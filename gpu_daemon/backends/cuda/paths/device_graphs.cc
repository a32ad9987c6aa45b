#include "gpu_daemon/backends/cuda/paths/device_graphs.h"

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"

namespace carillon::gpud::cuda {
namespace {

// Does nothing, and completes the event of the frame.
constexpr char kCompleteFrame[] = "carillon_event_null_event";

}  // namespace

absl::StatusOr<GraphExec> MakeDeviceGraph(
    Gpu& gpu, std::span<const CUDA_KERNEL_NODE_PARAMS> kernels,
    std::optional<uint32_t> priority, CUstream stream) {
  const Driver& driver = gpu.driver();
  ASSIGN_OR_RETURN(const auto graph,
                   MakeKernelGraph(driver, kernels,
                                   gpu.reserved_sms() != 0 ? stream : nullptr));
  uint64_t flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                   CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  if (priority) {
    CUkernelNodeAttrValue value = {};
    value.priority = gpu.NativePriority(*priority);
    for (CUgraphNode node : {graph.first, graph.second}) {
      if (node == nullptr) continue;
      RETURN_IF_ERROR(ToStatus(driver,
                               driver.cuGraphKernelNodeSetAttribute(
                                   node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value),
                               "give a graph's kernel a priority"));
    }
    // Without it a node's priority counts for nothing.
    flags |= CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  }
  return Instantiate(driver, graph.graph.get(), flags, stream);
}

absl::Status CheckFixedArguments(const EventKernel& event,
                                 std::string_view path) {
  const simt::KernelInfo& kernel = *event.kmd().kernel;
  const auto& writable = event.arguments().writable();
  if (!kernel.is_users() || writable.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "parameter '{}' of kernel '{}' of {} is to be written with every event, "
      "and the GPU cannot change an argument of a user's own kernel: launch "
      "path {} takes constants and fixed buffers for it; put what changes "
      "into a buffer, or use launch path graph, baseline or baseline_flag",
      kernel.params[writable.front().parameter].name, kernel.name, kernel.file,
      path));
}

absl::StatusOr<GraphExec> MakeUserGraph(Gpu& gpu, const EventKernel& event,
                                        uint32_t slot, simt::EventFrame* frame,
                                        std::optional<uint32_t> priority,
                                        CUstream stream) {
  const KernelMetadata& kmd = event.kmd();
  ASSIGN_OR_RETURN(const auto kernel, gpu.UserFunction(kmd));
  ASSIGN_OR_RETURN(const auto complete, gpu.Function(kCompleteFrame));
  // Nothing in them comes from an entry.
  ArgumentBlock args;
  event.arguments().Build(slot, nullptr, args.data());
  PackedArguments packed(args.data(), kmd.kernel->args_size);
  void* parameters[] = {&frame};
  const CUDA_KERNEL_NODE_PARAMS kernels[] = {
      NodeParams(kernel, kmd.grid, kmd.block, Modules::DynamicShared(kmd),
                 nullptr, packed.extra()),
      NodeParams(complete, {1, 1, 1}, {1, 1, 1}, 0, parameters)};
  return MakeDeviceGraph(gpu, kernels, priority, stream);
}

}  // namespace carillon::gpud::cuda
