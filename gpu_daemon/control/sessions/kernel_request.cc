#include "gpu_daemon/control/sessions/kernel_request.h"

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/names.h"

namespace carillon::gpud {
namespace {

simt::Dim3 ToDim3(const v1::Dim3* from) {
  if (from == nullptr) return {};
  return {from->x(), from->y(), from->z()};
}

simt::LaunchShape ShapeOf(const KernelMetadata& kmd) {
  return {kmd.grid, kmd.block, kmd.total_shared()};
}

}  // namespace

absl::StatusOr<const simt::KernelInfo*> FindKernel(
    const std::string& kernel, const KernelCatalog& kernels) {
  const simt::KernelInfo* info = kernels.Find(kernel);
  if (info != nullptr) return info;
  if (const std::string why = kernels.WhyLost(kernel); !why.empty()) {
    return Error(absl::StatusCode::kDataLoss,
                 fmt::format("kernel {} was loaded into an earlier gpud and "
                             "is lost: {}; load it again",
                             Quoted(kernel), why),
                 reason::kKernelLost, kernel, "carillon kernel load");
  }
  const std::string_view nearest = kernels.Nearest(kernel);
  return Error(
      absl::StatusCode::kNotFound,
      fmt::format(
          "there is no kernel {}{}", Quoted(kernel),
          nearest.empty()
              ? std::string("; 'carillon kernels' lists those there are")
              : fmt::format(": did you mean '{}'?", nearest)),
      reason::kUnknownKernel, kernel, "carillon kernels");
}

absl::StatusOr<KernelMetadata> MakeKernelMetadata(const std::string& kernel,
                                                  const v1::Dim3* grid,
                                                  const v1::Dim3* block,
                                                  uint32_t shared_bytes,
                                                  const KernelCatalog& kernels,
                                                  const Backend& backend) {
  ASSIGN_OR_RETURN(const simt::KernelInfo* info, FindKernel(kernel, kernels));
  if (auto status = backend.CheckKernel(*info); !status.ok()) {
    return WithDetail(status, reason::kNoGpuCode, kernel);
  }
  const KernelMetadata kmd{.kernel = info,
                           .grid = ToDim3(grid),
                           .block = ToDim3(block),
                           .shared_bytes = shared_bytes};
  if (auto status = CheckKernelMetadata(kmd, backend.gpu()); !status.ok()) {
    return WithDetail(status, reason::kBadDimensions, kernel);
  }
  if (info->check_shape != nullptr) {
    if (const char* rule = info->check_shape(ShapeOf(kmd))) {
      return Error(absl::StatusCode::kInvalidArgument,
                   fmt::format("kernel '{}': {}", info->name, rule),
                   reason::kBadDimensions, kernel);
    }
  }
  return kmd;
}

absl::Status CheckPriority(std::string_view device, uint32_t priority,
                           uint32_t highest) {
  if (priority >= kPriorities) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("priority {}: must be from 0 (lowest) to {}",
                             priority, kPriorities - 1),
                 reason::kBadPriority, "priority");
  }
  if (priority <= highest) return absl::OkStatus();
  return Error(
      absl::StatusCode::kPermissionDenied,
      fmt::format("device '{}' asks for priority {}, and gpud's operator "
                  "allows {} at most: ask for less, or have gpud started with "
                  "a higher --max-priority (max_priority in a topology), or "
                  "the device's share raised (carillon policy --device)",
                  device, priority, highest),
      reason::kBadPriority, "priority");
}

absl::Status CheckFixedArguments(const KernelMetadata& kmd,
                                 const ArgumentPlan& plan) {
  if (kmd.kernel->validate == nullptr) return absl::OkStatus();
  ArgumentBlock args;
  plan.Build(0, nullptr, args.data());
  const char* rule = kmd.kernel->validate(ShapeOf(kmd), args.data());
  if (rule == nullptr) return absl::OkStatus();
  return Error(absl::StatusCode::kInvalidArgument,
               fmt::format("kernel '{}': {}", kmd.kernel->name, rule),
               reason::kBadBinding, kmd.kernel->name);
}

}  // namespace carillon::gpud
