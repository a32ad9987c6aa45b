// The CPU back-end: kernels on cores of this machine, under an emulated GPU's
// limits; gpud's own as compiled for a CPU, users' as PTX. The embedded default. It makes the KMU and the workers, and for each
// launch path, when an event kernel first asks for it, a FrontEnd and a Launcher
// of gpu_daemon/dispatch (the table kPaths).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_CPU_BACKEND_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_CPU_BACKEND_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cpu/pagoda_mtbs.h"
#include "gpu_daemon/backends/sim/sim_kernels.h"
#include "gpu_daemon/dispatch/copy_queue.h"
#include "gpu_daemon/dispatch/cpu_workers.h"
#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/block_runner.h"
#include "gpu_daemon/options/backend_options.h"

namespace carillon::gpud {

// Also the base of what runs blocks on threads of this machine in another way.
class CpuBackend : public Backend {
 public:
  // Errors: those of MakePolicy().
  static absl::StatusOr<std::unique_ptr<Backend>> Create(
      const BackendOptions& options);
  ~CpuBackend() override;

  std::string_view name() const override { return "cpu"; }
  std::string description() const override;
  const GpuModel& gpu() const override { return options_.gpu; }
  uint32_t workers() const override { return workers_->count(); }
  BackendFigures figures() const override;
  std::vector<QueueLength> queue_lengths() const override {
    return kmu_.queue_lengths();
  }
  std::vector<LaunchProgress> launches() const override;
  std::vector<CopyProgress> copies() const override { return copies_.copies(); }
  bool idle() const override;

  PathSet& paths() override { return paths_; }
  bool has_chains() const override { return true; }

  void Submit(std::unique_ptr<KernelLaunch> launch) override {
    kmu_.Submit(std::move(launch));
  }
  void Submit(std::unique_ptr<MemoryCopy> copy) override {
    copies_.Submit(std::move(copy));
  }
  void Cancel(const LaunchFilter& which, shm::EventStatus why) override;

  // Of a user's PTX; gpud's own kernels do not wait there.
  absl::Status ReleaseBarrier(const DeviceMemory& device) override {
    ptx_->latch.Release(device.releases());
    return absl::OkStatus();
  }

  std::string policy() const override { return kmu_.policy_name(); }
  std::vector<const PolicyInfo*> policies() const override {
    return PoliciesOf(Sharer::kKmu);
  }
  absl::Status SetPolicy(std::string_view name) override;

  KernelMemory& memory() override { return *memory_; }
  // PTX text only: the simulated GPU's executor runs its blocks. Errors:
  // InvalidArgument, Unimplemented (the PTX, with its place in the file),
  // NotFound (a symbol).
  absl::StatusOr<std::vector<const simt::KernelInfo*>> LoadKernels(
      const ModuleSource& source) override;

  void Stop() override;
  void Join() override;

 protected:
  // Threads of this machine that run blocks in another way.
  CpuBackend(const BackendOptions& options,
             std::unique_ptr<SharingPolicy> policy,
             std::unique_ptr<BlockRunner> runner,
             std::unique_ptr<KernelMemory> memory,
             std::unique_ptr<PtxEngine> ptx);
  const PtxEngine& ptx() const { return *ptx_; }

 private:
  const BackendOptions options_;
  const std::unique_ptr<PtxEngine> ptx_;  // outlives what runs its kernels
  const std::unique_ptr<BlockRunner> runner_;
  const std::unique_ptr<KernelMemory> memory_;
  Kmu kmu_;
  CopyQueue copies_;
  std::optional<CpuWorkers> workers_;
  // Without a thread until their paths start.
  PagodaMtbs pagoda_mtbs_;
  PagodaMtbs pagoda_ring_mtbs_;
  PathSet paths_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_CPU_BACKEND_H_
