#include "sim/experiments/workloads/isolated.h"

#include <utility>

#include "base/status.h"
#include "sim/timing/gpu.h"

namespace carillon::sim::figures {
namespace {

// Adds up the times of blocks.
struct BlockTimes {
  void Add(const timing::Observation& observation) {
    using What = timing::Observation::What;
    // Modulo 2^64, the sum of ends less that of starts in any order.
    if (observation.what == What::kBlockStart) cycles -= observation.cycle;
    if (observation.what != What::kBlockEnd) return;
    cycles += observation.cycle;
    ++blocks;
  }
  double mean() const {
    return static_cast<double>(cycles) / static_cast<double>(blocks);
  }

  timing::Cycle cycles = 0;
  uint64_t blocks = 0;
};

absl::StatusOr<timing::GridResult> RunOne(
    timing::Gpu& gpu, Launch launch, const timing::SubmitOptions& options) {
  ASSIGN_OR_RETURN(const auto grid, gpu.Submit(std::move(launch), options));
  gpu.Run();
  timing::GridResult result = *gpu.result(grid);
  gpu.ForgetResults();
  if (!result.status.ok()) return result.status;
  return result;
}

}  // namespace

absl::StatusOr<IsolatedRun> RunIsolated(const timing::Config& config,
                                        Background& background,
                                        const Memory& memory, uint32_t seed) {
  background.Start(seed);
  BlockTimes times;
  timing::Gpu gpu(
      config, &memory,
      {.observer = [&times](const timing::Observation& observation) {
        times.Add(observation);
      }});
  IsolatedRun run;
  while (auto launch = background.Next()) {
    ASSIGN_OR_RETURN(
        const auto result,
        RunOne(gpu, *std::move(launch), {.registers = background.registers()}));
    run.cycles = result.completed;
    run.warp_instructions += result.warp_instructions;
    ++run.launches;
  }
  run.block_cycles = times.mean();
  run.statistics = gpu.statistics();
  RETURN_IF_ERROR(background.Check());
  return run;
}

absl::StatusOr<IsolatedRun> RunIsolated(const timing::Config& config,
                                        EventKernel& event,
                                        const Memory& memory, uint32_t seed,
                                        uint32_t events) {
  event.Start(seed);
  timing::Gpu gpu(config, &memory, {});
  IsolatedRun run;
  timing::Cycle sum = 0;
  for (uint32_t i = 0; i < events; ++i) {
    const uint32_t slot = i % event.slots();
    event.Prepare(slot);
    ASSIGN_OR_RETURN(const auto result,
                     RunOne(gpu, event.launch(slot),
                            {.origin = timing::LaunchOrigin::kDevice}));
    sum += result.completed - result.dispatched;
    run.warp_instructions += result.warp_instructions;
    ++run.launches;
    RETURN_IF_ERROR(event.Check(slot));
  }
  run.cycles = sum / events;
  run.statistics = gpu.statistics();
  return run;
}

}  // namespace carillon::sim::figures
