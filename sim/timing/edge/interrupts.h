// Interrupts of the GPU (thesis 5.3). A device's message makes a privileged
// warp (PGW) run the interrupt service routine. The routine launches an event
// kernel (its bottom half, which the TB scheduler places as it does any kernel)
// or releases the wait-release barriers of its SM.
//
//   auto interrupts = *Interrupts::Create(&gpu, &memory, isr_program);
//   options.ended = [&](const GridResult& r) { interrupts->Ended(r); ... };
//   interrupts->Raise({.vector = Vector::kLaunchEvent, .event = event}, cycle);
//
// A PGW takes the short path to an SM's table of event warps, whatever
// Config::edge::path says of events, and gets its place as they do. The
// registers of its SM's interrupt controller (sim/timing/edge/isr.h) tell it
// what the interrupt is about, and receive what it wants done.
#ifndef CARILLON_SIM_TIMING_EDGE_INTERRUPTS_H_
#define CARILLON_SIM_TIMING_EDGE_INTERRUPTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/timing/edge/isr.h"
#include "sim/timing/gpu.h"

namespace carillon::sim::timing {

using InterruptId = uint64_t;

struct Interrupt {
  isr::Vector vector = isr::Vector::kNothing;
  // For kLaunchEvent: an event of Gpu::RegisterEvent(), with parameters as
  // Gpu::RingDoorbell() takes them.
  EventId event = 0;
  std::vector<std::byte> parameters;
  uint32_t barrier = 0;  // kReleaseBarrier
  // The SM that runs the routine. kAnySm: any one for an event, all of them for
  // kReleaseBarrier.
  uint32_t sm = kAnySm;
  uint32_t delay = 0;  // turns of an empty loop of the routine
};

struct InterruptResult {
  InterruptId id = 0;
  Cycle raised = 0;
  std::vector<GridResult> routines;  // one; of a release of all SMs, one each
  std::optional<GridResult> event;   // what it launched
  // Not OK if the routine failed, or asked for an event that does not exist.
  absl::Status status;
};

// Not thread safe. Must live as long as the GPU; a GPU has one of these.
class Interrupts {
 public:
  // `isr` is isr.ptx; it must live as long as the GPU. Errors: NotFound (it has
  // no kernel carillon_isr), InvalidArgument (an SM cannot hold it, or the
  // i-cache cannot reserve edge.reserve_icache_lines), ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Interrupts>> Create(Gpu* gpu,
                                                            Memory* memory,
                                                            const Program* isr);

  // Raises the interrupt at that cycle, or now if it has passed. Errors:
  // NotFound (the event), InvalidArgument (the barrier), ResourceExhausted
  // (kMaxPending).
  absl::StatusOr<InterruptId> Raise(const Interrupt& interrupt, Cycle at);
  // Raises the interrupt every `period` cycles from now on. Counts what Raise()
  // refuses then. Errors: InvalidArgument (the period), those of Raise().
  absl::Status Every(uint32_t period, const Interrupt& interrupt);
  void StopTimers() { ++timers_stopped_; }
  uint64_t refused() const { return refused_; }

  // Gpu::Options::ended must call it for every grid.
  void Ended(const GridResult& grid);

  // The result of an interrupt that has ended, with what it launched; otherwise
  // nullptr.
  const InterruptResult* result(InterruptId id) const;
  void ForgetResults() { results_.clear(); }
  size_t pending() const { return pending_.size(); }

  // The limit of routines that wait or run.
  static constexpr uint32_t kMaxPending = 1024;

 private:
  struct Pending {
    InterruptResult result;
    Interrupt interrupt;
    uint32_t left = 0;  // grids
  };
  struct Routine {
    InterruptId interrupt = 0;
    uint32_t registers = 0;  // the index of its register set
  };

  Interrupts(Gpu* gpu, Launch launch, DeviceAddress address,
             std::span<std::byte> registers);
  absl::Status Check(const Interrupt& interrupt) const;
  void Arm(uint32_t period, Interrupt interrupt);
  absl::StatusOr<GridId> Submit(const Interrupt& interrupt, Cycle at,
                                uint32_t sm, uint32_t set);
  void RoutineEnded(const GridResult& grid, const Routine& routine);
  void End(std::map<InterruptId, Pending>::iterator pending);
  isr::InterruptRegisters* SetOf(uint32_t set);

  Gpu* const gpu_;
  const Launch launch_;  // without parameters
  const DeviceAddress address_;
  const std::span<std::byte> registers_;
  std::vector<uint32_t> free_sets_;
  InterruptId next_ = 1;
  std::map<InterruptId, Pending> pending_;
  std::map<GridId, Routine> routines_;
  std::map<GridId, InterruptId> events_;
  std::map<InterruptId, InterruptResult> results_;
  uint64_t timers_stopped_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_EDGE_INTERRUPTS_H_
