#include "devices/cpu_host/workload.h"

#include <chrono>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::cpu_host {
namespace {

struct Maker {
  std::string_view name;
  std::unique_ptr<Workload> (*make)(const WorkloadOptions&);
};

constexpr Maker kMakers[] = {
    {"matmul", MakeMatmul},
    {"bfs", MakeBfs},
    {"bfs_frontier", MakeBfsFrontier},
    {"black_scholes", MakeBlackScholes},
    {"bp", MakeBp},
    {"busy", MakeBusy},
    {"conv1", MakeConv1},
    {"conv2", MakeConv2},
    {"cutcp", MakeCutcp},
    {"heartwall", MakeHeartwall},
    {"hotspot", MakeHotspot},
    {"kmn", MakeKmn},
    {"lbm", MakeLbm},
    {"lud", MakeLud},
    {"mri_q", MakeMriQ},
    {"pathfinder", MakePathfinder},
    {"sc", MakeSc},
    {"sgemm", MakeSgemm},
    {"srad_v1", MakeSradV1},
    {"srad_v2", MakeSradV2},
    {"stencil", MakeStencil},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Workload>> MakeWorkload(
    const std::string& name, const WorkloadOptions& options) {
  WorkloadOptions filled = options;
  for (const WorkloadKind& kind : WorkloadKinds()) {
    if (kind.name == name && filled.size == 0) filled.size = kind.default_size;
  }
  for (const Maker& maker : kMakers) {
    if (maker.name == name) return maker.make(filled);
  }
  return absl::NotFoundError(fmt::format("no workload '{}'", name));
}

absl::Status LaunchAndCount(edge::Device& device,
                            const edge::Device::LaunchSpec& spec,
                            RunFigures* figures) {
  // gpud's death ends the call. Until then it may be stopped, or the launch may
  // have to wait for many others.
  constexpr std::chrono::hours kWhileGpudLives{24 * 365};
  edge::Device::LaunchSpec patient = spec;
  patient.timeout = kWhileGpudLives;
  ASSIGN_OR_RETURN(const auto times, device.LaunchKernel(patient));
  ++figures->launches;
  figures->blocks += uint64_t{spec.grid.x} * spec.grid.y * spec.grid.z;
  figures->kernel_ns += times.finished_ns;
  return absl::OkStatus();
}

}  // namespace carillon::cpu_host
