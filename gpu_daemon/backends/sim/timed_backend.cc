#include "gpu_daemon/backends/sim/timed_backend.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "sim/exec/memory.h"
#include "sim/timing/config.h"

namespace carillon::gpud {
namespace {

using sim::timing::Sharing;

Sharing SharingOf(std::string_view policy) {
  static constexpr std::pair<std::string_view, Sharing> kSharings[] = {
      {kFirstComePolicy, Sharing::kFirstCome},
      {kPriorityPolicy, Sharing::kPriority},
      {kP1Policy, Sharing::kP1},
      {kP2Policy, Sharing::kP2},
      {kReservationPolicy, Sharing::kReservation},
      {kDynamicReservationPolicy, Sharing::kDynamicReservation},
      {kExclusivePolicy, Sharing::kExclusive},
      {kGpesPolicy, Sharing::kGpes},
  };
  for (const auto& [name, sharing] : kSharings) {
    if (name == policy) return sharing;
  }
  return Sharing::kConfigured;
}

double Milliseconds(Nanoseconds ns) { return static_cast<double>(ns) * 1e-6; }

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> TimedBackend::Create(
    const BackendOptions& options) {
  RETURN_IF_ERROR(CheckFor(kSimBackend, options));
  ASSIGN_OR_RETURN(auto config, sim::timing::LoadConfig(options.timing));
  const GpuModel model{.sms = config.sm.count,
                       .blocks_per_sm = config.sm.blocks,
                       .threads_per_sm = config.sm.warps * sim::kLanes,
                       .registers_per_sm = config.sm.registers,
                       .shared_bytes_per_sm = config.sm.shared_bytes};
  ASSIGN_OR_RETURN(auto latencies,
                   ReadDeviceLatencies(options.device_latencies));
  ASSIGN_OR_RETURN(auto order, ReadDeviceOrder(options.device_order));
  if (order.size() >= sim::kMaxRanges) {
    return absl::InvalidArgumentError(
        fmt::format("--device-order: {} devices; allowed: {}", order.size(),
                    sim::kMaxRanges - 1));
  }
  auto ptx = std::make_unique<PtxEngine>(sim::Addresses::kOwn);
  RETURN_IF_ERROR(ptx->memory.SetHeapBytes(options.heap_bytes));
  RETURN_IF_ERROR(ptx->kernels.LoadOwn());
  if (!order.empty()) ptx->kernels.LowerAllOwn();
  auto memory = std::make_unique<SimMemory>(ptx.get(), order);
  ASSIGN_OR_RETURN(auto launcher,
                   TimedLauncher::Make({.gpu = std::move(config),
                                        .first_devices = options.first_devices,
                                        .device_order = std::move(order),
                                        .latencies = std::move(latencies),
                                        .event_log = options.event_log,
                                        .copy_chunks = {options.copy_in_chunk,
                                                        options.copy_out_chunk},
                                        .on_violation = options.on_violation},
                                       ptx.get(), memory.get()));
  TimedLauncher* const launches = launcher.get();
  // Time needs its thread from the first device on.
  auto front_end = std::make_unique<FrontEnd>(
      FrontEnd::Options{.gpu = model,
                        .tracing = options.tracing,
                        .max_spin_ns = options.max_spin_ns,
                        .on_violation = options.on_violation,
                        .ticks = NoTicks,  // its order is the simulation's
                        .thread_name = "gpud-sim"},
      std::move(launcher));
  std::unique_ptr<Backend> backend(
      new TimedBackend(options, model, std::move(ptx), std::move(memory),
                       launches, std::move(front_end)));
  if (!options.policy.empty()) {
    RETURN_IF_ERROR(backend->SetPolicy(options.policy));
  }
  return backend;
}

TimedBackend::TimedBackend(const BackendOptions& options, const GpuModel& model,
                           std::unique_ptr<PtxEngine> ptx,
                           std::unique_ptr<SimMemory> memory,
                           TimedLauncher* launcher,
                           std::unique_ptr<FrontEnd> front_end)
    : timing_(options.timing),
      reserved_sms_(options.reserved_sms),
      model_(model),
      ptx_(std::move(ptx)),
      memory_(std::move(memory)),
      launcher_(launcher),
      front_end_(front_end.get()),
      paths_({kEdgePath, "the simulated GPU's own doorbells, in its time"},
             std::move(front_end), options.tracing) {}

TimedBackend::~TimedBackend() { Stop(); }

std::string TimedBackend::description() const {
  const std::string waits_for = launcher_->waits_for();
  return fmt::format("PTX on {} in its own time, now {:.6f} ms{}", timing_,
                     Milliseconds(launcher_->now_ns()),
                     waits_for.empty() ? "" : "; waits for " + waits_for);
}

BackendFigures TimedBackend::figures() const {
  return {.background_kernels = launcher_->background_kernels(),
          .background_blocks = launcher_->background_blocks()};
}

void TimedBackend::AddDevice(const std::shared_ptr<DeviceMemory>& memory) {
  front_end_->AddDevice(memory);
}

void TimedBackend::Submit(std::unique_ptr<KernelLaunch> launch) {
  front_end_->Call([&] { launcher_->Submit(std::move(launch)); });
}

void TimedBackend::Submit(std::unique_ptr<MemoryCopy> copy) {
  front_end_->Call([&] { launcher_->Submit(std::move(copy)); });
}

void TimedBackend::Cancel(const LaunchFilter& which, shm::EventStatus why) {
  front_end_->Call([&] { launcher_->Cancel(which, why); });
}

absl::Status TimedBackend::ReleaseBarrier(const DeviceMemory& device) {
  if (launcher_->LatencyOf(device.name()) != 0) {
    return absl::UnimplementedError(fmt::format(
        "device '{}' is at the end of a link, which carries no releases of a "
        "barrier: put it on the GPU's host",
        device.name()));
  }
  front_end_->Call([&] { launcher_->ReleaseBarrier(device); });
  return absl::OkStatus();
}

std::vector<LaunchProgress> TimedBackend::launches() const {
  std::vector<LaunchProgress> launches;
  front_end_->Call([&] { launches = launcher_->launches(); });
  return launches;
}

std::vector<CopyProgress> TimedBackend::copies() const {
  std::vector<CopyProgress> copies;
  front_end_->Call([&] { copies = launcher_->copies(); });
  return copies;
}

std::string TimedBackend::policy() const {
  MutexLock lock(policy_mutex_);
  return policy_;
}

absl::Status TimedBackend::SetPolicy(std::string_view name) {
  RETURN_IF_ERROR(CheckPolicy(Sharer::kSimulatedGpu, name));
  if (name.empty()) name = DefaultPolicy(Sharer::kSimulatedGpu);
  // One at a time: the name is the one that was set last.
  MutexLock lock(policy_mutex_);
  absl::Status status;
  front_end_->Call(
      [&] { status = launcher_->SetSharing(SharingOf(name), reserved_sms_); });
  if (!status.ok()) {
    return absl::Status(status.code(),
                        fmt::format("sharing policy '{}': {}", name,
                                    std::string(status.message())));
  }
  policy_ = std::string(name);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const simt::KernelInfo*>> TimedBackend::LoadKernels(
    const ModuleSource& source) {
  return ptx_->kernels.Load(source);
}

void TimedBackend::Stop() {
  std::call_once(stopped_, [this] {
    paths_.Stop();
    Cancel(LaunchFilter::All(), shm::EventStatus::kShutdown);
    const auto statistics = launcher_->statistics();
    const std::chrono::duration<double> wall =
        std::chrono::steady_clock::now() - started_;
    spdlog::info(
        "simulated {:.6f} ms in {:.1f} s: {} cycles, {} grids, {} warp "
        "instructions",
        Milliseconds(launcher_->now_ns()), wall.count(), statistics.cycles,
        statistics.grids, Total(statistics).instructions);
  });
}

}  // namespace carillon::gpud
