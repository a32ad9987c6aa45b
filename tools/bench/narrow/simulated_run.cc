#include "tools/bench/narrow/simulated_run.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <span>
#include <string>

#include "base/status.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "kernels/own_kernels_ptx.h"
#include "sim/lower/lower.h"
#include "tools/bench/narrow/narrow_ptx.h"

namespace carillon::bench {
namespace {

// The run is asked after so many whether it may go on.
constexpr Cycle kTurn = 1 << 16;
constexpr uint32_t kMtbsOfAnSm = 2;

using Module = absl::StatusOr<std::shared_ptr<const sim::ptx::Module>>;

Module Parse(std::span<const std::byte> text, const char* file) {
  ASSIGN_OR_RETURN(
      auto module,
      sim::ptx::ParseModule(
          std::string(reinterpret_cast<const char*>(text.data()), text.size()),
          file));
  return std::make_shared<const sim::ptx::Module>(std::move(module));
}
// Many runs need them.
const Module& OwnKernels() {
  static const auto* const module =
      new Module(Parse(kernels::OwnKernelsPtx(), "kernels.ptx"));
  return *module;
}
const Module& NarrowKernels() {
  static const auto* const module =
      new Module(Parse(NarrowPtx(), "narrow_tasks.ptx"));
  return *module;
}

absl::StatusOr<std::shared_ptr<const sim::Program>> Load(
    const Module& module, std::string_view kernel, sim::Memory* memory) {
  if (!module.ok()) return module.status();
  return sim::Lower(*module, memory, {.kernel = kernel});
}

}  // namespace

absl::StatusOr<std::shared_ptr<const sim::Program>> LoadOwnKernel(
    std::string_view kernel, sim::Memory* memory) {
  return Load(OwnKernels(), kernel, memory);
}

absl::StatusOr<std::shared_ptr<const sim::Program>> LoadNarrowKernel(
    std::string_view kernel, sim::Memory* memory) {
  return Load(NarrowKernels(), kernel, memory);
}

absl::StatusOr<uint32_t> MtbsFor(const NarrowWorkload& workload,
                                 const sim::timing::Config& config,
                                 uint32_t shared_bytes) {
  constexpr uint32_t kMostThreads = gpud::kTaskMaxExecutors * sim::kLanes;
  for (const NarrowUnit& task : workload.tasks()) {
    if (task.threads <= kMostThreads) continue;
    return absl::ResourceExhaustedError(fmt::format(
        "a task has {} threads: an MTB has {}, of {} executor warps, as its "
        "first warp schedules",
        task.threads, kMostThreads, gpud::kTaskMaxExecutors));
  }
  const auto& sm = config.sm;
  const uint32_t mtbs =
      std::min({kMtbsOfAnSm, sm.warps * sim::kLanes / kMtbThreads,
                sm.registers / (kMtbThreads * kMtbRegisters),
                sm.shared_bytes / shared_bytes});
  if (mtbs == 0) {
    return absl::ResourceExhaustedError(
        fmt::format("an SM of {} has no room for an MTB: {} threads, {} "
                    "registers each, {} bytes of shared memory",
                    config.name, kMtbThreads, kMtbRegisters, shared_bytes));
  }
  return mtbs * sm.count;
}

absl::StatusOr<NarrowOutcome> SimulatedRun::Execute() {
  const auto begun = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(data_, memory_.Allocate(workload_.bytes(), "data"));
  ASSIGN_OR_RETURN(const auto data, memory_.At(data_, workload_.bytes(), true));
  std::ranges::copy(workload_.initial(), data.begin());
  const uint64_t count = workload_.tasks().size();
  ASSIGN_OR_RETURN(status_at_,
                   memory_.Allocate(count * sizeof(uint32_t), "status"));
  gpu_ = std::make_unique<sim::timing::Gpu>(
      options_.config, &memory_,
      sim::timing::Gpu::Options{
          // Idle warps of a MasterKernel look for tasks all the time.
          .no_progress_limit = ~uint64_t{0},
          .ended = [this](const sim::timing::GridResult& grid) {
            error_.Update(grid.status);
            instructions_ += grid.warp_instructions;
            GridEnded(grid);
          }});
  RETURN_IF_ERROR(RunTasks());
  RETURN_IF_ERROR(error_);
  ASSIGN_OR_RETURN(const auto status,
                   memory_.At(status_at_, count * sizeof(uint32_t)));
  for (size_t i = 0; i < count; ++i) {
    uint32_t word;
    std::memcpy(&word, &status[i * sizeof(word)], sizeof(word));
    if (word == 0) continue;
    return absl::InternalError(
        fmt::format("{}: task {} ({}) failed with status {}", workload_.name(),
                    i, Task(i).kernel->name, word));
  }
  RETURN_IF_ERROR(workload_.Check(data));
  if (options_.copies) CopyOutputs();
  NarrowOutcome outcome;
  for (const Times& times : times_) {
    outcome.tasks.push_back(
        {gpu_->NanosecondsAt(times.begun), gpu_->NanosecondsAt(times.ended)});
  }
  outcome.launches = launches_;
  outcome.warp_instructions = instructions_;
  outcome.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun)
          .count();
  return outcome;
}

absl::Status SimulatedRun::AwaitEnd() {
  const uint64_t before = ends_;
  while (ends_ == before) {
    RETURN_IF_ERROR(options_.may_go_on());
    const bool none_left = gpu_->Run(gpu_->cycle() + kTurn);
    gpu_->ForgetResults();
    if (ends_ == before && none_left) {
      return absl::InternalError("no kernel runs, and tasks have not ended");
    }
  }
  host_ = std::max(host_, gpu_->cycle());
  return error_;
}

Cycle SimulatedRun::CopyInput(size_t task) {
  times_[task].begun = host_;
  if (!options_.copies || Task(task).in.bytes == 0) return host_;
  const Cycle arrived = in_.Copy(host_, Task(task).in.bytes);
  AdvanceTo(host_ + Call());
  return arrived;
}

void SimulatedRun::CopyOutputs() {
  std::vector<size_t> order(times_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {},
                           [&](size_t i) { return times_[i].ended; });
  Link out(options_.config);
  for (const size_t task : order) {
    times_[task].ended = out.Copy(times_[task].ended, Task(task).out.bytes);
  }
}

}  // namespace carillon::bench
