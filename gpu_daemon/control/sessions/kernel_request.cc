#include "gpu_daemon/control/sessions/kernel_request.h"

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

absl::StatusOr<KernelMetadata> MakeKernelMetadata(
    const std::string& kernel, const v1::Dim3* grid, const v1::Dim3* block,
    uint32_t shared_bytes, const KernelCatalog& kernels, const GpuModel& gpu) {
  const simt::KernelInfo* info = kernels.Find(kernel);
  if (info == nullptr) {
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
  const KernelMetadata kmd{.kernel = info,
                           .grid = ToDim3(grid),
                           .block = ToDim3(block),
                           .shared_bytes = shared_bytes};
  if (auto status = CheckKernelMetadata(kmd, gpu); !status.ok()) {
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

absl::Status CheckPriority(uint32_t priority) {
  if (priority < kPriorities) return absl::OkStatus();
  return Error(absl::StatusCode::kInvalidArgument,
               fmt::format("priority {}: must be from 0 (lowest) to {}",
                           priority, kPriorities - 1),
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
