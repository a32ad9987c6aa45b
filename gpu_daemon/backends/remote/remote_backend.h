// The remote back-end: no GPU here. Events run on another host's gpud, where
// linkd (devices/link) rings for this one's devices (docs/mesh.md).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_BACKEND_H_
#define CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_BACKEND_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/options/backend_options.h"

namespace carillon::gpud {

class RemoteLink;

class RemoteBackend final : public Backend {
 public:
  // Errors: those of RemoteLink::Start().
  static absl::StatusOr<std::unique_ptr<Backend>> Create(
      const BackendOptions& options);
  ~RemoteBackend() override;

  std::string_view name() const override { return "remote"; }
  std::string description() const override;
  // By which registrations are judged here; the other host judges them again.
  const GpuModel& gpu() const override { return options_.gpu; }
  uint32_t workers() const override { return 0; }
  BackendFigures figures() const override { return {}; }
  std::vector<QueueLength> queue_lengths() const override { return {}; }
  std::vector<LaunchProgress> launches() const override { return {}; }
  std::vector<CopyProgress> copies() const override { return {}; }
  bool idle() const override;

  PathSet& paths() override { return paths_; }

  // Unimplemented.
  absl::Status CheckBackground() const override;
  void Submit(std::unique_ptr<KernelLaunch> launch) override;
  void Submit(std::unique_ptr<MemoryCopy> copy) override;
  void Cancel(const LaunchFilter&, shm::EventStatus) override {}

  std::string policy() const override { return "of the other host"; }
  std::vector<const PolicyInfo*> policies() const override { return {}; }
  absl::Status SetPolicy(std::string_view name) override;

  KernelMemory& memory() override { return *memory_; }
  absl::StatusOr<std::vector<const simt::KernelInfo*>> LoadKernels(
      const ModuleSource& source) override;

  void Stop() override { paths_.Stop(); }
  void Join() override {}

 private:
  explicit RemoteBackend(const BackendOptions& options);
  // Of all devices, or of one, whose rings the other host has lost.
  void End(const std::shared_ptr<DeviceMemory>& device, std::string why);

  const BackendOptions options_;
  const std::unique_ptr<KernelMemory> memory_;
  std::unique_ptr<RemoteLink> link_;
  PathSet paths_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_BACKEND_H_
