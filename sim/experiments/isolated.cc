#include "sim/experiments/isolated.h"

#include <utility>

#include "sim/exec/functional.h"
#include "sim/timing/gpu.h"

namespace carillon::sim::figures {
namespace {

absl::StatusOr<timing::GridResult> RunOne(
    timing::Gpu& gpu, Launch launch, const timing::SubmitOptions& options) {
  const auto grid = gpu.Submit(std::move(launch), options);
  if (!grid.ok()) return grid.status();
  gpu.Run();
  timing::GridResult result = *gpu.result(*grid);
  gpu.ForgetResults();
  if (!result.status.ok()) return result.status;
  return result;
}

}  // namespace

absl::StatusOr<IsolatedRun> RunIsolated(const timing::Config& config,
                                        Background& background,
                                        const Memory& memory, uint32_t seed) {
  background.Start(seed);
  timing::Gpu gpu(config, &memory, {});
  IsolatedRun run;
  while (auto launch = background.Next()) {
    const auto result =
        RunOne(gpu, *std::move(launch), {.registers = background.registers()});
    if (!result.ok()) return result.status();
    run.cycles = result->completed;
    run.warp_instructions += result->warp_instructions;
    ++run.launches;
  }
  run.statistics = gpu.statistics();
  if (auto status = background.Check(); !status.ok()) return status;
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
    const auto result = RunOne(gpu, event.launch(slot),
                               {.origin = timing::LaunchOrigin::kDevice});
    if (!result.ok()) return result.status();
    sum += result->completed - result->dispatched;
    run.warp_instructions += result->warp_instructions;
    ++run.launches;
    if (auto status = event.Check(slot); !status.ok()) return status;
  }
  run.cycles = sum / events;
  run.statistics = gpu.statistics();
  return run;
}

absl::StatusOr<uint64_t> RunFunctionally(Background& background,
                                         const Memory& memory, uint32_t seed) {
  background.Start(seed);
  FunctionalGpu gpu(&memory, {});
  uint64_t instructions = 0;
  while (const auto launch = background.Next()) {
    const auto result = gpu.Run(*launch);
    if (!result.ok()) return result.status();
    instructions += result->warp_instructions;
  }
  if (auto status = background.Check(); !status.ok()) return status;
  return instructions;
}

}  // namespace carillon::sim::figures
