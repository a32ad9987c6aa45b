#include "tools/bench/narrow/narrow_run.h"

#include <atomic>
#include <cstddef>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/status.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/machine.h"
#include "tools/bench/narrow/cell_plan.h"
#include "tools/bench/narrow/cells.h"
#include "tools/bench/narrow/on_gpud.h"
#include "tools/bench/narrow/simulated.h"

namespace carillon::bench {
namespace {

// Makes and runs the plan's cells in simulated time. Each simulation is a thread's own.
absl::Status Simulate(const NarrowOptions& options, CellPlan& plan) {
  NarrowReport& report = plan.report();
  report.backend = "sim";
  RETURN_IF_ERROR(plan.MakeCells(SimulatedPaths()));
  auto config = LoadSimulatedGpu(options.timing);
  if (absl::IsUnimplemented(config.status())) return config.status();
  if (!config.ok()) {
    return absl::FailedPreconditionError(config.status().message());
  }
  const SimulatedOptions all{.config = *std::move(config),
                             .call_us = options.call_us,
                             .store_us = options.store_us,
                             .empty_update_us = options.empty_update_us,
                             .copy_back_us = options.copy_back_us,
                             .batch = report.batch,
                             .may_go_on = CheckInterrupt};
  // Between the threads: the next cell, and what has been found.
  std::atomic<size_t> next{0};
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < report.cells.size(); i = next++) {
      if (!CheckInterrupt().ok()) return;
      NarrowCell& cell = report.cells[i];
      SimulatedOptions own = all;
      own.copies = cell.copies();
      auto outcome = RunSimulated(plan.WorkloadOf(cell), cell.path, own);
      std::lock_guard lock(mutex);
      if (outcome.ok()) {
        cell.Add(/*round=*/0, *std::move(outcome));
      } else if (absl::IsResourceExhausted(outcome.status())) {
        // No room for the MasterKernel, or for a task in one of its MTBs.
        cell.Refuse(outcome.status());
      } else {
        cell.Fail(outcome.status());
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < UsableCpus().size(); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  RETURN_IF_ERROR(CheckInterrupt());
  report.conditions = {{"timing", options.timing},
                       {"sms", all.config.sm.count},
                       {"core_mhz", all.config.clock.core_mhz},
                       {"kdu", all.config.dispatch.grids},
                       {"link_mb_per_s", all.config.pcie.megabytes_per_second},
                       {"link_chunk_ns", all.config.pcie.chunk_ns},
                       {"call_us", options.call_us},
                       {"store_us", options.store_us},
                       {"host_read_us", all.host_read_us},
                       {"empty_update_us", options.empty_update_us},
                       {"copy_back_us", options.copy_back_us}};
  return absl::OkStatus();
}

}  // namespace

const std::vector<std::string>& NarrowParts() {
  static const auto* const parts =
      new std::vector<std::string>{"tasks", "copies", "irregular", "threads"};
  return *parts;
}

absl::StatusOr<BenchResult> RunNarrow(const BenchRun& run,
                                      const NarrowOptions& options) {
  CellPlan plan(run, options);
  RETURN_IF_ERROR(plan.CheckOptions());
  CatchInterrupts();
  RETURN_IF_ERROR(options.backend == "sim"
                      ? Simulate(options, plan)
                      : RunOnGpud(run.session, options.backend, plan));
  return plan.report().ToResult();
}

}  // namespace carillon::bench
