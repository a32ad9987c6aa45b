#include "devices/cpu_host/workload.h"

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::cpu_host {
namespace {

struct Kind {
  std::string_view name;
  std::string_view size_is;
  uint32_t default_size;
  uint32_t largest_size;
  std::unique_ptr<Workload> (*make)(const WorkloadOptions&);
};

constexpr Kind kKinds[] = {
    {"matmul", "rows of each matrix", 256, 4096, MakeMatmul},
    {"bfs", "vertices of the graph", 65536, 1u << 24, MakeBfs},
    {"busy", "steps of each thread", 2000, 1u << 30, MakeBusy},
};

}  // namespace

std::vector<std::string> WorkloadNames() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Workload>> MakeWorkload(
    const std::string& name, const WorkloadOptions& options) {
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    WorkloadOptions filled = options;
    if (filled.size == 0) filled.size = kind.default_size;
    if (filled.size > kind.largest_size) {
      return absl::InvalidArgumentError(
          fmt::format("size {} ({}): {} takes 1 to {}", filled.size,
                      kind.size_is, name, kind.largest_size));
    }
    return kind.make(filled);
  }
  return absl::NotFoundError(fmt::format("no workload '{}'; there are {}", name,
                                         fmt::join(WorkloadNames(), ", ")));
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
