// Computes without memory or a result: a load of chosen length.
#include "base/status.h"
#include "devices/cpu_host/workload.h"

namespace carillon::cpu_host {
namespace {

class Busy : public Workload {
 public:
  explicit Busy(const WorkloadOptions& options)
      : spec_{.kernel = "busy",
              .grid = {32, 1, 1},
              .block = {128, 1, 1},
              .priority = options.priority,
              .parameters = {edge::Constant("iterations", options.size)}} {}

  uint64_t submission_bytes() const override { return shm::kPageSize; }
  uint64_t completion_bytes() const override { return shm::kPageSize; }
  absl::Status Prepare(edge::Device&) override { return absl::OkStatus(); }
  absl::StatusOr<RunFigures> Run(edge::Device& device) override {
    RunFigures figures;
    RETURN_IF_ERROR(LaunchAndCount(device, spec_, &figures));
    return figures;
  }
  std::string Verify() const override { return ""; }

 private:
  const edge::Device::LaunchSpec spec_;
};

}  // namespace

std::unique_ptr<Workload> MakeBusy(const WorkloadOptions& options) {
  return std::make_unique<Busy>(options);
}

}  // namespace carillon::cpu_host
