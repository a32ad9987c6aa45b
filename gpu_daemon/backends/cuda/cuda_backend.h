// The CUDA back-end: kernels on an NVIDIA GPU, by every launch path that CUDA
// has (docs/launch_paths.md).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_CUDA_BACKEND_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_CUDA_BACKEND_H_

#include <sysexits.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/cuda/driver/cuda_memory.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/paths/background.h"
#include "gpu_daemon/backends/cuda/paths/host_launcher.h"
#include "gpu_daemon/backends/cuda/paths/launch_gate.h"
#include "gpu_daemon/backends/cuda/paths/pagoda/pagoda_launcher.h"
#include "gpu_daemon/backends/cuda/paths/resident_engine.h"
#include "gpu_daemon/dispatch/copy_queue.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/options/backend_options.h"

namespace carillon::gpud::cuda {

// gpud's exit code when its GPU needs another process: it was well until then, so
// start it again (docs/decisions/032-a-fault-ends-gpud.md).
inline constexpr int kStartAgainCode = EX_TEMPFAIL;

class CudaBackend : public Backend {
 public:
  // On the first GPU of the machine's driver. Errors: those of Driver::Load and
  // Gpu::Open; InvalidArgument (options that only an emulated GPU has).
  static absl::StatusOr<std::unique_ptr<Backend>> Create(
      const BackendOptions& options);
  // On a driver of the caller's.
  static absl::StatusOr<std::unique_ptr<Backend>> CreateOn(
      Driver driver, const BackendOptions& options,
      const Gpu::Options& gpu_options);
  ~CudaBackend() override;

  // Gpu::Options::on_unusable of a gpud: ends it with kStartAgainCode.
  [[noreturn]] static void EndToStartAgain(const std::string& why);

  std::string_view name() const override { return "cuda"; }
  std::string description() const override;
  const GpuModel& gpu() const override { return gpu_->model(); }
  uint32_t workers() const override { return 0; }
  BackendFigures figures() const override;
  std::vector<QueueLength> queue_lengths() const override;
  // Background kernels, and events that wait for what the policy says: the GPU
  // holds the others.
  std::vector<LaunchProgress> launches() const override;
  std::vector<CopyProgress> copies() const override {
    return copies_->copies();
  }
  bool idle() const override { return background_->idle() && copies_->idle(); }

  PathSet& paths() override { return *paths_; }

  void Submit(std::unique_ptr<KernelLaunch> launch) override {
    background_->Submit(std::move(launch));
  }
  void Submit(std::unique_ptr<MemoryCopy> copy) override {
    copies_->Submit(std::move(copy));
  }
  void Cancel(const LaunchFilter& which, shm::EventStatus why) override;

  std::string policy() const override { return gate_->policy(); }
  std::vector<const PolicyInfo*> policies() const override {
    return PoliciesOf(Sharer::kCuda);
  }
  absl::Status SetPolicy(std::string_view name) override;

  KernelMemory& memory() override { return *memory_; }
  absl::StatusOr<std::vector<const simt::KernelInfo*>> LoadKernels(
      const ModuleSource& source) override {
    const Gpu::PauseResidents quiet(gpu_.get());
    return gpu_->LoadKernels(source);
  }

  // Of all devices: their kernels have one word to look at.
  absl::Status ReleaseBarrier(const DeviceMemory&) override {
    return gpu_->ReleaseBarrier();
  }

  void Stop() override;
  void Join() override {}

 private:
  explicit CudaBackend(const BackendOptions& options) : options_(options) {}
  absl::Status Open(Driver driver, const Gpu::Options& gpu_options);
  PathSet::Entry HostPath(LaunchPathInfo info, std::string thread_name,
                          std::function<std::unique_ptr<HostLauncher>()> make);
  // The path of a launcher that a CPU thread drives.
  std::unique_ptr<LaunchPath> OnFrontEnd(std::unique_ptr<Launcher> launcher,
                                         std::string thread_name, bool tracing);
  std::vector<HostLauncher*> launchers() const;
  // Makes the two parts of the SMs, and what launches on them: then a change to
  // policy reservation, or from it, is where the next launch goes.
  absl::Status PrepareReservation();
  ResidentOptions ResidentOptionsFor(bool tracing) const;

  const BackendOptions options_;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<CudaMemory> memory_;
  std::unique_ptr<LaunchGate> gate_;
  std::unique_ptr<Background> background_;
  std::unique_ptr<CopyQueue> copies_;
  Mutex policy_mutex_;  // changes one at a time
  bool is_prepared_ ABSL_GUARDED_BY(policy_mutex_) = false;
  mutable Mutex mutex_;
  // Of the paths that have started:
  std::vector<HostLauncher*> launchers_ ABSL_GUARDED_BY(mutex_);
  PagodaLauncher* pagoda_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<PathSet> paths_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_CUDA_BACKEND_H_
