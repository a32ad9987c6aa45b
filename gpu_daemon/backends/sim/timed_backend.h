// The sim back-end with its time: a testbed that lives on the simulated GPU's
// clock (docs/simulated_time.md).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_BACKEND_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_BACKEND_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/sim/sim_kernels.h"
#include "gpu_daemon/backends/sim/sim_memory.h"
#include "gpu_daemon/backends/sim/timed_launcher.h"
#include "gpu_daemon/dispatch/front_end.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/options/backend_options.h"
#include "gpu_daemon/options/policy_names.h"

namespace carillon::gpud {

// One launch path, `edge`: the simulated GPU has the doorbells' hardware itself.
// How events and other kernels share it is the configuration's to say, until a
// policy is set.
class TimedBackend final : public Backend {
 public:
  // Errors: those of LoadConfig() (options.timing), of SetPolicy(), Unimplemented (options of
  // other back-ends), InvalidArgument (the event log), Internal (gpud's own PTX).
  static absl::StatusOr<std::unique_ptr<Backend>> Create(
      const BackendOptions& options);
  ~TimedBackend() override;

  std::string_view name() const override { return "sim"; }
  std::string description() const override;
  const GpuModel& gpu() const override { return model_; }
  uint32_t workers() const override { return 0; }
  BackendFigures figures() const override;
  std::vector<QueueLength> queue_lengths() const override { return {}; }
  std::vector<LaunchProgress> launches() const override;
  std::vector<CopyProgress> copies() const override;
  bool idle() const override { return launcher_->unfinished() == 0; }

  PathSet& paths() override { return paths_; }
  bool simulates_time() const override { return true; }
  void AddDevice(const std::shared_ptr<DeviceMemory>& memory) override;

  void Submit(std::unique_ptr<KernelLaunch> launch) override;
  void Submit(std::unique_ptr<MemoryCopy> copy) override;
  void Cancel(const LaunchFilter& which, shm::EventStatus why) override;

  absl::Status ReleaseBarrier(const DeviceMemory& device) override;

  std::string policy() const override;
  std::vector<const PolicyInfo*> policies() const override {
    return PoliciesOf(Sharer::kSimulatedGpu);
  }
  absl::Status SetPolicy(std::string_view name) override;

  KernelMemory& memory() override { return *memory_; }
  absl::StatusOr<std::vector<const simt::KernelInfo*>> LoadKernels(
      const ModuleSource& source) override;
  absl::Status CheckKernel(const simt::KernelInfo& kernel) const override {
    return ptx_->kernels.Check(kernel);
  }

  void Stop() override;
  void Join() override {}

 private:
  TimedBackend(const BackendOptions& options, const GpuModel& model,
               std::unique_ptr<PtxEngine> ptx,
               std::unique_ptr<SimMemory> memory, TimedLauncher* launcher,
               std::unique_ptr<FrontEnd> front_end);

  const std::string timing_;
  const uint32_t reserved_sms_;
  const GpuModel model_;
  const std::unique_ptr<PtxEngine> ptx_;
  const std::unique_ptr<SimMemory> memory_;
  TimedLauncher* const launcher_;  // the front-end's
  const std::chrono::steady_clock::time_point started_ =
      std::chrono::steady_clock::now();
  mutable Mutex policy_mutex_;
  std::string policy_ ABSL_GUARDED_BY(policy_mutex_){kConfiguredPolicy};
  std::once_flag stopped_;
  FrontEnd* const front_end_;  // paths_ has it
  PathSet paths_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_BACKEND_H_
