#include "sim/experiments/preemption_job.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "kernels/busy.cuh"
#include "sim/experiments/in_fork.h"
#include "sim/experiments/workloads/pep_kernels.h"
#include "sim/timing/gpu.h"

namespace carillon::sim::figures {
namespace {

using timing::BlockProfile;
using timing::Cycle;
using timing::Gpu;
using timing::kNever;
using timing::PreemptionRecord;

// A job checks after so many cycles whether it is done.
constexpr Cycle kTurn = 512;
// The preemptor's blocks: two fill an SM's 2,048 threads, and none has room
// beside the kernel's.
constexpr uint32_t kPreemptorThreads = 1024;
constexpr uint64_t kPreemptorSteps = 1'000'000;

class PreemptedRun {
  // Its name, and the configuration with it.
  using Technique = std::pair<std::string, timing::Config>;

 public:
  PreemptedRun(const Job& job, const timing::Config& config,
               const JobControl& control)
      : job_(job), config_(config), control_(control) {}

  absl::StatusOr<Json> Run() {
    const auto found =
        std::ranges::find(PepKernels(), job_.preempted, &PepKernel::name);
    if (found == PepKernels().end()) {
      return absl::NotFoundError(
          fmt::format("{}: no kernel to be preempted", job_.preempted));
    }
    kernel_ = &*found;
    ASSIGN_OR_RETURN(auto kernels, Kernels::Load(&memory_));
    kernels_ = std::move(kernels);
    ASSIGN_OR_RETURN(
        auto background,
        MakeBackground(kernel_->background, job_.size, kernels_.get()));
    background_ = std::move(background);
    status_word_ = kernels_->Allocate<uint32_t>(1, "status of the preemptor");
    RETURN_IF_ERROR(kernels_->status());
    for (const auto& [name, overrides] : job_.techniques) {
      ASSIGN_OR_RETURN(auto changed, Override(config_, overrides));
      techniques_.emplace_back(name, std::move(changed));
    }
    RETURN_IF_ERROR(RunAlone());
    ASSIGN_OR_RETURN(const Json runs, RunAll());
    return Json{{"alone",
                 {{"block_cycles", profile_.cycles},
                  {"block_instructions", profile_.instructions},
                  {"blocks_per_sm", blocks_per_sm_}}},
                {"mhz", config_.clock.core_mhz},
                {"runs", runs}};
  }

 private:
  // The kernel's one launch, with its data.
  absl::StatusOr<Launch> Prepare() {
    background_->Start(job_.seed);
    auto launch = background_->Next();
    if (launch.has_value()) return *std::move(launch);
    return absl::InternalError(
        fmt::format("{} launches nothing", kernel_->background));
  }

  absl::Status CheckCancelled() const {
    if (control_.cancelled != nullptr && *control_.cancelled) {
      return absl::CancelledError();
    }
    return absl::OkStatus();
  }

  // The mean of as many blocks as the GPU holds.
  absl::Status RunAlone() {
    ASSIGN_OR_RETURN(const auto launch, Prepare());
    Gpu gpu(config_, &memory_, {});
    const timing::Contexts block =
        timing::ContextsOfBlock(launch, background_->registers(), config_);
    blocks_per_sm_ = timing::OccupancyOf(block, config_).blocks;
    const uint64_t enough = std::min<uint64_t>(
        launch.grid.count(), uint64_t{blocks_per_sm_} * config_.sm.count);
    RETURN_IF_ERROR(
        gpu.Submit(launch, {.registers = background_->registers()}).status());
    while (Total(gpu.statistics()).blocks < enough) {
      RETURN_IF_ERROR(CheckCancelled());
      if (gpu.Run(gpu.cycle() + kTurn)) break;
    }
    profile_ = gpu.preemption()->ProfileOf(launch.kernel);
    return absl::OkStatus();
  }

  // A grid that fills the SMs that make room with blocks.
  Launch PreemptorFor(const timing::Config& config) const {
    const uint32_t sms =
        config.preemption.sms != 0 ? config.preemption.sms : config.sm.count;
    return kernels_->Make(
        kernels::busy_info,
        {config.sm.warps * kLanes / kPreemptorThreads * sms, 1, 1},
        {kPreemptorThreads, 1, 1}, kernels::BusyArgs{kPreemptorSteps},
        status_word_);
  }

  absl::StatusOr<Json> RunAll() {
    ASSIGN_OR_RETURN(const auto launch, Prepare());
    Gpu gpu(config_, &memory_, {});
    RETURN_IF_ERROR(gpu.SetBlockProfile(launch.kernel, profile_));
    RETURN_IF_ERROR(
        gpu.Submit(launch, {.registers = background_->registers()}).status());
    Json runs = Json::object();
    for (const uint32_t progress : job_.progress) {
      const Cycle announced =
          config_.dispatch.host_cycles + profile_.cycles * progress / 100;
      RETURN_IF_ERROR(RunUntil(announced, &gpu));
      ASSIGN_OR_RETURN(const Json of_progress, InFork(control_, [&] {
                         return RunFrom(progress, &gpu);
                       }));
      for (const auto& [name, some] : of_progress.items()) {
        for (const Json& run : some) runs[name].push_back(run);
      }
    }
    return runs;
  }

  // From an announcement in this cycle on. What announces nothing shares the
  // time until the arrivals as well.
  absl::StatusOr<Json> RunFrom(uint32_t progress, Gpu* gpu) {
    Json runs = Json::object();
    std::vector<const Technique*> unannounced;
    for (const Technique& technique : techniques_) {
      const auto& [name, config] = technique;
      if (config.preemption.technique != timing::PreemptionTechnique::kPep) {
        unannounced.push_back(&technique);
        continue;
      }
      ASSIGN_OR_RETURN(
          const Json of_technique,
          InFork(control_, [&]() -> absl::StatusOr<Json> {
            RETURN_IF_ERROR(gpu->SetPreemption(config));
            timing::SubmitOptions options{.priority = 1};
            ASSIGN_OR_RETURN(
                options.announcement,
                gpu->Announce(PreemptorFor(config), options, gpu->cycle()));
            return RunArrivals(progress, {&technique}, options, gpu);
          }));
      runs.update(of_technique);
    }
    ASSIGN_OR_RETURN(const Json others,
                     RunArrivals(progress, unannounced, {.priority = 1}, gpu));
    runs.update(others);
    return runs;
  }

  absl::StatusOr<Json> RunArrivals(
      uint32_t progress, const std::vector<const Technique*>& techniques,
      const timing::SubmitOptions& options, Gpu* gpu) {
    Json runs = Json::object();
    const Cycle announced = gpu->cycle();
    for (const uint32_t launch_ns : job_.launch_ns) {
      RETURN_IF_ERROR(RunUntil(
          announced + uint64_t{launch_ns} * config_.clock.core_mhz / 1000,
          gpu));
      for (const Technique* const technique : techniques) {
        const auto& [name, config] = *technique;
        ASSIGN_OR_RETURN(
            Json run, InFork(control_, [&]() -> absl::StatusOr<Json> {
              RETURN_IF_ERROR(gpu->SetPreemption(config));
              RETURN_IF_ERROR(
                  gpu->Submit(PreemptorFor(config), options).status());
              gpu->Run(gpu->cycle() + 1);
              const auto& records = gpu->preemption()->records();
              while (!records.empty() && records[0].vacated == kNever) {
                gpu->Run(gpu->cycle() + kTurn);
              }
              return Describe(launch_ns, progress, records);
            }));
        runs[name].push_back(std::move(run));
      }
    }
    return runs;
  }

  absl::Status RunUntil(Cycle cycle, Gpu* gpu) const {
    while (gpu->cycle() < cycle) {
      RETURN_IF_ERROR(CheckCancelled());
      gpu->Run(std::min(cycle, gpu->cycle() + kTurn));
    }
    return absl::OkStatus();
  }

  static Json Describe(uint32_t launch_ns, uint32_t progress,
                       const std::vector<PreemptionRecord>& records) {
    Json run{{"launch_ns", launch_ns},
             {"progress", progress},
             {"latency", Json()},
             {"cases", Json::object()},
             {"blocks", 0},
             {"base", 0},
             {"incremental", 0},
             {"in_place", 0},
             {"shared_written", 0},
             {"shared_whole", 0},
             {"base_cycles", 0},
             {"incremental_cycles", 0}};
    if (records.empty()) return run;
    const PreemptionRecord& record = records[0];
    run["latency"] = record.vacated - record.arrived;
    run["blocks"] = record.blocks.size();
    timing::SavedLines saved;
    Cycle base_cycles = 0;
    Cycle incremental_cycles = 0;
    for (const timing::PreemptedBlock& block : record.blocks) {
      Json& count = run["cases"][std::string(NameOf(block.way))];
      count = count.is_null() ? 1 : count.get<uint64_t>() + 1;
      base_cycles += block.base_cycles;
      incremental_cycles += block.incremental_cycles;
      saved.base += block.saved.base;
      saved.incremental += block.saved.incremental;
      saved.in_place += block.saved.in_place;
      saved.shared_written += block.saved.shared_written;
      saved.shared_whole += block.saved.shared_whole;
    }
    run["base"] = saved.base;
    run["incremental"] = saved.incremental;
    run["in_place"] = saved.in_place;
    run["shared_written"] = saved.shared_written;
    run["shared_whole"] = saved.shared_whole;
    run["base_cycles"] = base_cycles;
    run["incremental_cycles"] = incremental_cycles;
    return run;
  }

  const Job& job_;
  const timing::Config& config_;
  const JobControl& control_;
  Memory memory_;
  const PepKernel* kernel_ = nullptr;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Background> background_;
  Array<uint32_t> status_word_;
  BlockProfile profile_;
  uint32_t blocks_per_sm_ = 0;
  std::vector<Technique> techniques_;
};

}  // namespace

absl::StatusOr<Json> RunPreempted(const Job& job, const timing::Config& config,
                                  const JobControl& control) {
  return PreemptedRun(job, config, control).Run();
}

}  // namespace carillon::sim::figures
