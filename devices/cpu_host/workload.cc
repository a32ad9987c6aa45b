#include "devices/cpu_host/workload.h"

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::cpu_host {
namespace {

struct Kind {
  std::string_view name;
  uint32_t default_size;
  std::unique_ptr<Workload> (*make)(const WorkloadOptions&);
};

constexpr Kind kKinds[] = {
    {kMatmul, 256, MakeMatmul}, {kBfs, 65536, MakeBfs},
    {kBusy, 2000, MakeBusy},    {kBlackScholes, 65536, MakeBlackScholes},
    {kCutcp, 4, MakeCutcp},     {kLbm, 32, MakeLbm},
    {kMriQ, 4096, MakeMriQ},    {kPathfinder, 65536, MakePathfinder},
    {kSgemm, 256, MakeSgemm},   {kStencil, 64, MakeStencil},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Workload>> MakeWorkload(
    const std::string& name, const WorkloadOptions& options) {
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    WorkloadOptions filled = options;
    if (filled.size == 0) filled.size = kind.default_size;
    return kind.make(filled);
  }
  return absl::NotFoundError(fmt::format("no workload '{}'", name));
}

absl::Status LaunchAndCount(edge::Device& device,
                            const edge::Device::LaunchSpec& spec,
                            RunFigures* figures) {
  ASSIGN_OR_RETURN(const auto times, device.LaunchKernel(spec));
  ++figures->launches;
  figures->blocks += uint64_t{spec.grid.x} * spec.grid.y * spec.grid.z;
  figures->kernel_ns += times.finished_ns;
  return absl::OkStatus();
}

}  // namespace carillon::cpu_host
