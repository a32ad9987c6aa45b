// What all paths of a simulated GPU have: its memory with the workload's data, a
// copy engine, and the host's one thread.
#ifndef CARILLON_TOOLS_BENCH_NARROW_SIMULATED_RUN_H_
#define CARILLON_TOOLS_BENCH_NARROW_SIMULATED_RUN_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/timing/gpu.h"
#include "tools/bench/narrow/order.h"
#include "tools/bench/narrow/outcome.h"
#include "tools/bench/narrow/record.h"
#include "tools/bench/narrow/simulated.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

using sim::timing::Cycle;
using sim::timing::GridId;

// How exactly the end of a MasterKernel's tasks is known.
inline constexpr Cycle kLook = 64;
// A step of a host that waits.
inline constexpr Cycle kWaitCycles = 128;
// Tasks whose inputs the host has copied ahead of their spawn, or their doorbell.
inline constexpr size_t kCopiesAhead = 64;
// MasterKernel (Pagoda 4.1).
inline constexpr uint32_t kMtbThreads = 1024;
inline constexpr uint32_t kMtbRegisters = 32;

// A kernel of gpud's module; of narrow_tasks.ptx.
absl::StatusOr<std::shared_ptr<const sim::Program>> LoadOwnKernel(
    std::string_view kernel, sim::Memory* memory);
absl::StatusOr<std::shared_ptr<const sim::Program>> LoadNarrowKernel(
    std::string_view kernel, sim::Memory* memory);

// How many MTBs with so much shared memory a GPU has, at most two an SM.
// ResourceExhausted: none has room, or one of the tasks is larger than an MTB.
absl::StatusOr<uint32_t> MtbsFor(const NarrowWorkload& workload,
                                 const sim::timing::Config& config,
                                 uint32_t shared_bytes);

// A copy engine: one copy after another.
class Link {
 public:
  Link(const sim::timing::Config& config)
      : cycles_per_byte_(config.clock.core_mhz /
                         static_cast<double>(config.pcie.megabytes_per_second)),
        chunk_(config.pcie.chunk_ns * config.clock.core_mhz / 1000) {}
  // When a copy ends that could begin at `at`.
  Cycle Copy(Cycle at, uint64_t bytes) {
    if (bytes == 0) return at;
    free_ = std::max(free_, at) + chunk_ +
            static_cast<Cycle>(static_cast<double>(bytes) * cycles_per_byte_);
    return free_;
  }

 private:
  const double cycles_per_byte_;
  const Cycle chunk_;
  Cycle free_ = 0;
};

// A GPU, its memory with the workload's data, and the host's one thread.
class SimulatedRun {
 public:
  SimulatedRun(const NarrowWorkload& workload, const SimulatedOptions& options)
      : workload_(workload),
        options_(options),
        order_(workload),
        in_(options.config),
        times_(workload.tasks().size()) {}
  virtual ~SimulatedRun() = default;

  absl::StatusOr<NarrowOutcome> Execute();

 protected:
  struct Times {
    Cycle begun = 0;
    Cycle ended = 0;
  };

  // Begins all tasks and returns when all have ended.
  virtual absl::Status RunTasks() = 0;
  virtual void GridEnded(const sim::timing::GridResult& grid) = 0;

  const NarrowUnit& Task(size_t task) const { return workload_.tasks()[task]; }
  Cycle Cycles(double us) const {
    return static_cast<Cycle>(
        std::llround(us * options_.config.clock.core_mhz));
  }
  Cycle Call() const { return Cycles(options_.call_us); }
  Cycle Store() const { return Cycles(options_.store_us); }

  // The host does something until then. Without a grid the GPU's own time stands
  // still.
  void AdvanceTo(Cycle cycle) {
    host_ = std::max(host_, cycle);
    while (gpu_->cycle() < host_ && !gpu_->Run(host_)) {
    }
  }
  // The host waits until a grid has ended, and sees it at once. Internal: none
  // runs.
  absl::Status AwaitEnd();
  // In GridEnded().
  void Stop() {
    ++ends_;
    gpu_->Stop();
  }
  void TaskEnded(size_t task, Cycle cycle) {
    times_[task].ended = cycle;
    order_.Ended(task);
  }
  // The host copies a task's input: when that has arrived.
  Cycle CopyInput(size_t task);
  NarrowRecord RecordOf(size_t task) const {
    return bench::RecordOf(Task(task), data_, StatusOf(task));
  }
  uint64_t StatusOf(size_t task) const {
    return status_at_ + task * sizeof(uint32_t);
  }

  const NarrowWorkload& workload_;
  const SimulatedOptions& options_;
  NarrowOrder order_;
  Link in_;
  std::vector<Times> times_;
  sim::Memory memory_;
  sim::DeviceAddress data_ = 0;
  sim::DeviceAddress status_at_ = 0;
  std::unique_ptr<sim::timing::Gpu> gpu_;
  Cycle host_ = 0;  // the host's time, not before the GPU's
  uint64_t launches_ = 0;
  absl::Status error_;

 private:
  // In the order of the tasks' ends, beside what else happens: the calls for it
  // are another thread's.
  void CopyOutputs();

  uint64_t ends_ = 0;
  uint64_t instructions_ = 0;
};

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_SIMULATED_RUN_H_
