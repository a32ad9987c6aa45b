#include "gpu_daemon/backends/remote/remote_backend.h"

#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/remote/remote_launcher.h"
#include "gpu_daemon/backends/remote/remote_link.h"
#include "gpu_daemon/dispatch/front_end.h"

namespace carillon::gpud {
namespace {

constexpr LaunchPathInfo kPath = {"remote",
                                  "by link: the events run on another host"};

absl::Status NotOverALink(std::string_view what) {
  return absl::UnimplementedError(fmt::format(
      "the remote back-end has no {}: the GPU is another host's, and a link "
      "carries nothing but events; have gpud started with another --backend",
      what));
}

// Devices' apertures are the host's own; there is no GPU.
class HostMemory final : public KernelMemory {
 public:
  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) override {
    return std::make_unique<HostMapping>(memory.data());
  }
  absl::StatusOr<std::unique_ptr<GpuMemory>> Allocate(uint64_t) override {
    return NotOverALink("GPU memory");
  }
  absl::Status Copy(CopyDirection, std::byte*, const std::byte*,
                    uint64_t) override {
    return NotOverALink("copies");
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> RemoteBackend::Create(
    const BackendOptions& options) {
  RETURN_IF_ERROR(CheckFor(kRemoteBackend, options));
  std::unique_ptr<RemoteBackend> backend(new RemoteBackend(options));
  ASSIGN_OR_RETURN(
      backend->link_,
      RemoteLink::Start(
          options.remote,
          [self = backend.get()](const std::shared_ptr<DeviceMemory>& device,
                                 std::string why) {
            self->End(device, std::move(why));
          }));
  return backend;
}

RemoteBackend::RemoteBackend(const BackendOptions& options)
    : options_(options),
      memory_(std::make_unique<HostMemory>()),
      paths_({{kPath,
               [this](bool tracing)
                   -> absl::StatusOr<std::unique_ptr<LaunchPath>> {
                 return std::make_unique<FrontEnd>(
                     FrontEnd::Options{.gpu = options_.gpu,
                                       .tracing = tracing,
                                       .max_spin_ns = options_.max_spin_ns,
                                       .on_violation = options_.on_violation,
                                       .thread_name = "gpud-remote"},
                     std::make_unique<RemoteLauncher>(link_.get()));
               }}},
             options.tracing) {}

// The link's threads call paths_, whose launcher calls the link.
RemoteBackend::~RemoteBackend() {
  paths_.Stop();
  link_.reset();
}

std::string RemoteBackend::description() const {
  return fmt::format("by link to {}", link_->ToString());
}

bool RemoteBackend::idle() const { return link_->in_flight() == 0; }

void RemoteBackend::End(const std::shared_ptr<DeviceMemory>& device,
                        std::string why) {
  paths_.RemoveDevice(device.get());
  if (options_.on_link_lost) options_.on_link_lost(device, std::move(why));
}

absl::Status RemoteBackend::CheckBackground() const {
  return NotOverALink("background kernels and copies");
}

// CheckBackground() keeps them away.
void RemoteBackend::Submit(std::unique_ptr<KernelLaunch> launch) {
  launch->on_end(
      launch->ResultOf(shm::EventState::kAborted,
                       static_cast<uint32_t>(shm::EventStatus::kNotLaunched)));
}
void RemoteBackend::Submit(std::unique_ptr<MemoryCopy> copy) {
  copy->on_end({.state = shm::EventState::kAborted});
}

absl::Status RemoteBackend::SetPolicy(std::string_view) {
  return NotOverALink("sharing policy");
}

absl::StatusOr<std::vector<const simt::KernelInfo*>> RemoteBackend::LoadKernels(
    const ModuleSource&) {
  return NotOverALink("kernels of users");
}

}  // namespace carillon::gpud
