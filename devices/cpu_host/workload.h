// The background kernels that a CPU host launches, with their data and the
// check of their results. A workload is one class, one line in
// WorkloadKinds() and one in MakeWorkload().
#ifndef CARILLON_DEVICES_CPU_HOST_WORKLOAD_H_
#define CARILLON_DEVICES_CPU_HOST_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "devices/cpu_host/cpu_host_options.h"
#include "devices/sdk/edge.h"

namespace carillon::cpu_host {

// The launches of one run.
struct RunFigures {
  uint32_t launches = 0;
  uint64_t blocks = 0;
  Nanoseconds kernel_ns = 0;  // sum over the launches, queueing included
};

// Not thread safe.
class Workload {
 public:
  virtual ~Workload() = default;
  // The room that it needs in the device's apertures.
  virtual uint64_t submission_bytes() const = 0;
  virtual uint64_t completion_bytes() const = 0;
  // Allocates and fills the buffers. Errors: those of AllocateBuffer.
  virtual absl::Status Prepare(edge::Device& device) = 0;
  // Does one piece of work, always of the same length. Errors: those of
  // LaunchKernel.
  virtual absl::StatusOr<RunFigures> Run(edge::Device& device) = 0;
  // Compares the last run's result with a plain computation. Empty if it is
  // right, otherwise a description of the first difference.
  virtual std::string Verify() const = 0;
};

// Errors: NotFound.
absl::StatusOr<std::unique_ptr<Workload>> MakeWorkload(
    const std::string& name, const WorkloadOptions& options);

// Waits for the launch's end as long as gpud lives. Errors: those of LaunchKernel.
absl::Status LaunchAndCount(edge::Device& device,
                            const edge::Device::LaunchSpec& spec,
                            RunFigures* figures);

// `size` has been checked and is not 0.
std::unique_ptr<Workload> MakeMatmul(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeBfs(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeBusy(const WorkloadOptions& options);
// arithmetic_workloads.cc.
std::unique_ptr<Workload> MakeBlackScholes(const WorkloadOptions& options);
std::unique_ptr<Workload> MakePathfinder(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeSgemm(const WorkloadOptions& options);
// layer_workloads.cc.
std::unique_ptr<Workload> MakeBp(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeConv1(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeConv2(const WorkloadOptions& options);
// plane_workloads.cc.
std::unique_ptr<Workload> MakeHeartwall(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeHotspot(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeLud(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeSradV1(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeSradV2(const WorkloadOptions& options);
// point_workloads.cc.
std::unique_ptr<Workload> MakeBfsFrontier(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeKmn(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeSc(const WorkloadOptions& options);
// field_workloads.cc.
std::unique_ptr<Workload> MakeCutcp(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeLbm(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeMriQ(const WorkloadOptions& options);
std::unique_ptr<Workload> MakeStencil(const WorkloadOptions& options);

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_WORKLOAD_H_
