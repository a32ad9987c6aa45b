#include "gpu_daemon/backends/cuda/cuda_backend.h"

#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/edge/cuda_module.h"
#include "gpu_daemon/backends/cuda/paths/baseline_path.h"
#include "gpu_daemon/backends/cuda/paths/edge_path.h"
#include "gpu_daemon/backends/cuda/paths/graph_path.h"
#include "gpu_daemon/backends/cuda/paths/pagoda/pagoda_ring_path.h"
#include "gpu_daemon/backends/cuda/paths/persistent_path.h"
#include "gpu_daemon/backends/cuda/paths/stream_wait_path.h"
#include "gpu_daemon/dispatch/front_end.h"

namespace carillon::gpud::cuda {
namespace {

PtbCounts CountsOf(const PtbFigures& figures) {
  PtbCounts counts = {.launches = figures.persistent, .stops = figures.stopped};
  const PathCounter reasons[] = {{"all_fit", figures.whole_all_fit},
                                 {"most_urgent", figures.whole_most_urgent},
                                 {"users_kernel", figures.whole_users_kernel},
                                 {"barriers", figures.whole_barriers}};
  for (const PathCounter& reason : reasons) {
    if (reason.value != 0) counts.whole.push_back(reason);
  }
  return counts;
}

// It lies beside gpud.
absl::StatusOr<Driver> LoadSimDriver() {
  std::error_code failed;
  const auto gpud = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto library = gpud.parent_path() / "libcarillon_sim_cuda.so";
  if (failed || !std::filesystem::exists(library)) {
    return absl::NotFoundError(fmt::format(
        "no {} beside gpud: the driver of --driver sim is built with gpud, "
        "and runs from where it was built",
        library.string()));
  }
  // The same library stands in for NVIDIA's, whose faults stay
  // (fake/fake_settings.h). Here gpud goes on.
  const char* const settings = std::getenv("CARILLON_FAKE_CUDA");
  setenv("CARILLON_FAKE_CUDA",
         fmt::format("{},faults_stay=0", settings != nullptr ? settings : "")
             .c_str(),
         1);
  return Driver::Load(library.string());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CudaBackend::Create(
    const BackendOptions& options) {
  // Before cuInit: all hardware queues, so that streams do not wait for each
  // other; and no loading of kernels while others run, which may wait for them.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  ASSIGN_OR_RETURN(auto driver, options.driver == kSimDriver ? LoadSimDriver()
                                                             : Driver::Load());
  return CreateOn(driver, options,
                  {.image = CudaModule(),
                   .reserved_sms = options.reserved_sms,
                   .recovers = options.driver == kSimDriver,
                   .restart_mark = options.restart_mark,
                   .on_unusable = EndToStartAgain});
}

void CudaBackend::EndToStartAgain(const std::string& why) {
  spdlog::critical("gpud ends with exit code {}, to be started again: {}",
                   kStartAgainCode, why);
  spdlog::default_logger()->flush();
  // At once: whoever is in the driver may never return from there.
  std::_Exit(kStartAgainCode);
}

absl::StatusOr<std::unique_ptr<Backend>> CudaBackend::CreateOn(
    Driver driver, const BackendOptions& options,
    const Gpu::Options& gpu_options) {
  std::unique_ptr<CudaBackend> backend(new CudaBackend(options));
  RETURN_IF_ERROR(backend->Open(driver, gpu_options));
  return backend;
}

absl::Status CudaBackend::Open(Driver driver, const Gpu::Options& gpu_options) {
  ASSIGN_OR_RETURN(gpu_, Gpu::Open(driver, gpu_options));
  gpu_->SetTracing(options_.tracing);
  memory_ = std::make_unique<CudaMemory>(gpu_.get());
  GpuModel rest = gpu_->model();
  rest.sms -= gpu_->reserved_sms();
  gate_ = std::make_unique<LaunchGate>(
      rest, Nanoseconds{options_.preempt_us} * 1'000);
  ASSIGN_OR_RETURN(background_, Background::Create(gpu_.get(), gate_.get()));
  RETURN_IF_ERROR(SetPolicy(options_.policy));
  copies_ = std::make_unique<CopyQueue>(
      memory_.get(),
      CopyChunks{options_.copy_in_chunk, options_.copy_out_chunk});
  std::vector<PathSet::Entry> entries;
  entries.push_back(
      {{kEdgePath, "resident dispatchers poll, launch and complete on the GPU"},
       [this](bool tracing) {
         return MakeEdgePath(gpu_.get(), ResidentOptionsFor(tracing));
       }});
  // What takes its place comes nearest to it: first the other one without a CPU
  // in an event's way, then those that launch with the least work. Last, what
  // keeps SMs for itself.
  entries.push_back(
      {{"stream_wait",
        "kernels launched ahead, each behind a wait for its doorbell"},
       [this](bool tracing) {
         return MakeStreamWaitPath(gpu_.get(), ResidentOptionsFor(tracing));
       }});
  entries.push_back(HostPath(
      {"graph", "a CPU thread launches a graph made beforehand"}, "gpud-graph",
      [this] { return std::make_unique<GraphPath>(gpu_.get(), gate_.get()); }));
  entries.push_back(HostPath(
      {"baseline", "a CPU thread launches every kernel and polls for its end"},
      "gpud-baseline", [this] {
        return std::make_unique<BaselinePath>(
            gpu_.get(), gate_.get(), BaselinePath::Completion::kEventPolling);
      }));
  entries.push_back(HostPath(
      {"baseline_flag",
       "a CPU thread launches every kernel; its epilogue tells the device"},
      "gpud-base-flag", [this] {
        return std::make_unique<BaselinePath>(
            gpu_.get(), gate_.get(), BaselinePath::Completion::kEpilogue);
      }));
  entries.push_back({{"persistent", "resident thread blocks poll and run"},
                     [this](bool tracing) {
                       return MakePersistentPath(gpu_.get(),
                                                 ResidentOptionsFor(tracing));
                     }});
  entries.push_back(
      {{"pagoda_ring", "resident schedulers poll, executor warps run tasks"},
       [this](bool tracing) {
         return MakePagodaRingPath(gpu_.get(), ResidentOptionsFor(tracing));
       }});
  entries.push_back(
      {{"pagoda", "a CPU thread spawns tasks, executor warps run them"},
       [this](bool tracing) -> absl::StatusOr<std::unique_ptr<LaunchPath>> {
         ASSIGN_OR_RETURN(auto launcher, PagodaLauncher::Create(gpu_.get()));
         {
           MutexLock lock(mutex_);
           pagoda_ = launcher.get();
         }
         return OnFrontEnd(std::move(launcher), "gpud-pagoda", tracing);
       }});
  paths_ = std::make_unique<PathSet>(std::move(entries), options_.tracing);
  return absl::OkStatus();
}

CudaBackend::~CudaBackend() {
  if (paths_ != nullptr) Stop();
  paths_.reset();
  copies_.reset();
  background_.reset();
  if (gpu_ != nullptr) gpu_->AwaitRetired();
  memory_.reset();
}

ResidentOptions CudaBackend::ResidentOptionsFor(bool tracing) const {
  return {.tracing = tracing,
          .on_violation = options_.on_violation,
          .longest_kernel = gpu_->longest_kernel()};
}

PathSet::Entry CudaBackend::HostPath(
    LaunchPathInfo info, std::string thread_name,
    std::function<std::unique_ptr<HostLauncher>()> make) {
  return {info,
          [this, thread_name = std::move(thread_name), make = std::move(make)](
              bool tracing) -> absl::StatusOr<std::unique_ptr<LaunchPath>> {
            std::unique_ptr<HostLauncher> launcher = make();
            {
              MutexLock lock(mutex_);
              launchers_.push_back(launcher.get());
            }
            return OnFrontEnd(std::move(launcher), thread_name, tracing);
          }};
}

std::unique_ptr<LaunchPath> CudaBackend::OnFrontEnd(
    std::unique_ptr<Launcher> launcher, std::string thread_name, bool tracing) {
  return std::make_unique<FrontEnd>(
      FrontEnd::Options{.gpu = gpu_->model(),
                        .tracing = tracing,
                        .max_spin_ns = options_.max_spin_ns,
                        .on_violation = options_.on_violation,
                        .thread_name = std::move(thread_name)},
      std::move(launcher));
}

std::string CudaBackend::description() const {
  std::string text = gpu_->description();
  if (gate_->reserves()) {
    const SmParts parts = gpu_->parts();
    text += fmt::format(", {} SMs for events and {} for background kernels",
                        parts.events, parts.background);
  } else if (const uint32_t sms = gpu_->reserved_sms()) {
    text += fmt::format(", {} SMs reserved for launch path edge", sms);
  }
  if (const uint64_t losses = gpu_->losses()) {
    text += fmt::format(", context lost {}", FormatPlural(losses, "time"));
  }
  if (auto status = gpu_->health(); !status.ok()) {
    text += fmt::format(", UNUSABLE: {}", status.message());
  }
  return text;
}

BackendFigures CudaBackend::figures() const {
  return {.background_kernels = background_->kernels(),
          .background_blocks = background_->blocks(),
          .slices = gate_->slices().figures(),
          .ptb = CountsOf(gate_->ptb().figures())};
}

std::vector<QueueLength> CudaBackend::queue_lengths() const {
  std::vector<QueueLength> lengths;
  const auto waiting = background_->waiting();
  for (uint32_t priority = 0; priority < kPriorities; ++priority) {
    lengths.push_back({.priority = priority, .kernels = waiting[priority]});
  }
  return lengths;
}

std::vector<LaunchProgress> CudaBackend::launches() const {
  std::vector<LaunchProgress> all = background_->launches();
  for (const HostLauncher* launcher : launchers()) {
    for (LaunchProgress& launch : launcher->launches()) {
      all.push_back(std::move(launch));
    }
  }
  return all;
}

std::vector<HostLauncher*> CudaBackend::launchers() const {
  MutexLock lock(mutex_);
  return launchers_;
}

void CudaBackend::Cancel(const LaunchFilter& which, shm::EventStatus why) {
  background_->Cancel(which, why);
  copies_->Cancel(which, why);
  // To wait for events that have ended may pause what is resident on the GPU.
  if (!which.names_events()) return;
  for (HostLauncher* launcher : launchers()) launcher->Cancel(which, why);
  PagodaLauncher* pagoda = nullptr;
  {
    MutexLock lock(mutex_);
    pagoda = pagoda_;
  }
  if (pagoda != nullptr) pagoda->Cancel(which, why);
}

absl::Status CudaBackend::SetPolicy(std::string_view name) {
  RETURN_IF_ERROR(CheckPolicy(Sharer::kCuda, name));
  MutexLock lock(policy_mutex_);
  if (name == kReservationPolicy && !is_prepared_) {
    const absl::Status status = PrepareReservation();
    if (!status.ok()) {
      return absl::Status(status.code(),
                          fmt::format("sharing policy '{}': {}", name,
                                      std::string(status.message())));
    }
    is_prepared_ = true;
  }
  return gate_->SetPolicy(name);
}

// Quiet, so that nobody makes a stream meanwhile: who does so later finds the GPU
// divided. Undone in the same use, so that what cannot be had is not wanted again by
// those who come later, nor in a new context.
absl::Status CudaBackend::PrepareReservation() {
  const Gpu::PauseResidents quiet(gpu_.get());
  while (true) {
    const Gpu::ContextLease use = gpu_->Enter();
    if (!use) return gpu_->health();
    absl::Status status = gpu_->Divide();
    if (status.ok()) status = background_->PrepareForParts();
    for (HostLauncher* launcher : launchers()) {
      if (status.ok()) status = launcher->PrepareForParts();
    }
    if (status.ok()) return status;
    if (gpu_->reserved_sms() == 0) {
      background_->DropParts();
      for (HostLauncher* launcher : launchers()) launcher->DropParts();
      gpu_->Undivide();
    }
    if (!gpu_->Faulted()) return status;
  }
}

void CudaBackend::Stop() {
  paths_->Stop();
  background_->Stop();
  copies_->Stop();
}

}  // namespace carillon::gpud::cuda
