// The simulated GPU with its time: grids go in, cycles pass, results come out.
//
//   Gpu gpu(*LoadConfig("edge_table2"), &memory, {});
//   const GridId grid = *gpu.Submit(launch, {});
//   gpu.Run();
//   gpu.result(grid)->completed  // cycles
//
// The same submissions at the same cycles always give the same cycles and
// statistics: SMs and schedulers act in the order of their numbers.
#ifndef CARILLON_SIM_TIMING_GPU_H_
#define CARILLON_SIM_TIMING_GPU_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/exec/warp.h"
#include "sim/timing/config.h"
#include "sim/timing/edge/event_dispatcher.h"
#include "sim/timing/edge/event_table.h"
#include "sim/timing/edge/reservation.h"
#include "sim/timing/grid.h"
#include "sim/timing/kmu.h"
#include "sim/timing/memory/memory_system.h"
#include "sim/timing/observer.h"
#include "sim/timing/preempt/preemption.h"
#include "sim/timing/sm.h"
#include "sim/timing/statistics.h"

namespace carillon::sim::timing {

// Not thread safe.
class Gpu {
 public:
  struct Options {
    // As for FunctionalGpu, separately for each grid.
    uint64_t no_progress_limit = uint64_t{1} << 30;
    // As for FunctionalGpu; a look counts as kLook instructions.
    bool alone = false;
    static constexpr uint64_t kLook = 1 << 12;
    PrintBuffer* printed = nullptr;  // receives what kernels print
    // The value of %globaltimer at cycle 0.
    uint64_t nanoseconds = 0;
    // Called in the cycle in which a grid ends. It may call Submit().
    std::function<void(const GridResult&)> ended;
    Observer observer;
  };

  // `memory` must outlive it.
  Gpu(Config config, const Memory* memory, Options options);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // The program must live until the grid has ended, and must not change for as
  // long as the GPU lives. Errors: those of CheckLaunch(); InvalidArgument (a
  // block is too large for an SM, or the blocks of a cooperative launch for the
  // GPU; names what it lacks); NotFound, FailedPrecondition
  // (SubmitOptions::announcement is unknown, or was used).
  absl::StatusOr<GridId> Submit(Launch launch, const SubmitOptions& options);
  // Stops the grid; its status is Cancelled. Errors: NotFound (no such grid, or
  // it has ended).
  absl::Status Cancel(GridId grid);

  // The host begins to launch the grid in that cycle, or now if it has passed
  // (PEP's announcement). Submit() with the result as
  // SubmitOptions::announcement follows when the grid is on its way. Errors:
  // those of Submit(); FailedPrecondition (preemption.technique is none).
  absl::StatusOr<AnnouncementId> Announce(const Launch& launch,
                                          const SubmitOptions& options,
                                          Cycle at);
  // What is known of the kernel's blocks before any has run here. Errors:
  // FailedPrecondition, as Announce().
  absl::Status SetBlockProfile(const ProgramFunction* kernel,
                               const BlockProfile& profile);

  // Blocks make room by the `preemption` of this configuration from now on.
  // Errors: FailedPrecondition (one of the techniques is none).
  absl::Status SetPreemption(const Config& config);

  // How grids share the GPU from this cycle on, whatever runs; what is on an SM
  // or in its table of event warps goes on. `reserve_sms` is for the
  // reservations, 0: half of them. Errors: FailedPrecondition (with a
  // preemption.technique, whose configuration decides), InvalidArgument (a
  // reservation that leaves nothing for one side).
  absl::Status SetSharing(Sharing sharing, uint32_t reserve_sms);

  // Registers an event of EDGE: a launch that can be rung again and again.
  // Errors: those of Submit(); ResourceExhausted (the table is full).
  absl::StatusOr<EventId> RegisterEvent(EventKernel kernel);
  // Grids that the event has launched go on. Errors: NotFound.
  absl::Status UnregisterEvent(EventId event);
  // Launches the event at that cycle, or now if it has passed. `parameters` are
  // for this launch; without them it has the registered ones. Errors: NotFound,
  // those of Submit().
  absl::StatusOr<GridId> RingDoorbell(EventId event, Cycle at,
                                      std::vector<std::byte> parameters = {});

  bool HasEvent(EventId event) const {
    return event_table_.Find(event) != nullptr;
  }
  // A kernel of the GPU rings the event in this cycle. The event goes to the TB
  // scheduler, with kernels that kernels launch. Errors: as RingDoorbell().
  absl::StatusOr<GridId> RingFromGpu(EventId event,
                                     std::vector<std::byte> parameters);

  // For interrupts.h: accesses to these addresses stay near each SM.
  void SetInterruptRegisters(DeviceAddress begin, uint64_t bytes);
  // Keeps the function's first lines in each SM's i-cache, as many as
  // Config::edge says. Errors: InvalidArgument.
  absl::Status ReserveInstructions(const Program* program,
                                   const ProgramFunction& function);
  // Calls it in that cycle, or in the next if it has passed, before anything
  // else happens there. A pending call does not keep Run() going.
  void CallAt(Cycle at, std::function<void()> call) {
    calls_.emplace(std::max(at, cycle_ + 1), std::move(call));
  }

  // Releases the wait-release barrier on every SM in that cycle, or in the next
  // if it has passed, as __release_threads() does on one.
  void ReleaseThreads(Cycle at);

  // Blocks that run reach the memory's segments as they are now, and no others:
  // so some may be freed that they have reached, between two calls of Run().
  void TakeSegments() {
    for (Sm& sm : sms_) sm.TakeSegments();
  }

  // Runs until no grid is left, until the given cycle (which happens next), or
  // until the end of a cycle in which Stop() was called. Returns true if no
  // grid is left.
  bool Run(Cycle until = kNever);
  // Options::ended and CallAt() may call it.
  void Stop() { stop_ = true; }
  // Whether nothing will happen until the caller does something.
  bool stands_still() const { return Next() == kNever; }

  // The next cycle to happen; all before it have.
  Cycle cycle() const { return cycle_; }
  uint64_t nanoseconds() const { return NanosecondsAt(cycle_); }
  uint64_t NanosecondsAt(Cycle cycle) const {
    return options_.nanoseconds + cycle * 1000 / config_.clock.core_mhz;
  }

  // The result of a grid that has ended; otherwise nullptr.
  const GridResult* result(GridId grid) const;
  // How far a grid is that has not ended; nullopt if there is none.
  struct Progress {
    uint64_t started = 0;  // blocks
    uint64_t ended = 0;
    uint64_t slices = 0;    // that have ended
    Cycle waits_since = 0;  // it came, or its last block began
  };
  std::optional<Progress> progress(GridId grid) const;
  // Forgets results, so that they do not accumulate.
  void ForgetResults() { results_.clear(); }

  Statistics statistics();
  // Preemption of blocks; nullptr if preemption.technique is none.
  const Preemption* preemption() const { return preemption_.get(); }
  const Config& config() const { return config_; }
  const Sm& sm(size_t index) const { return sms_[index]; }

 private:
  // The contexts of a block, after a check that an SM can hold it.
  absl::StatusOr<Contexts> ContextsFor(const Launch& launch, uint32_t registers,
                                       bool event) const;
  // Whether all blocks of a cooperative launch have room at once.
  absl::Status CheckCoResident(const Launch& launch, const Contexts& block,
                               const SubmitOptions& options) const;
  absl::StatusOr<GridId> RingDoorbell(EventId event, SubmitOptions options,
                                      std::vector<std::byte> parameters);
  absl::StatusOr<const LoadedProgram*> Load(const Program* program);
  void Step();
  // The contexts of each SM that only events may use.
  Contexts Reserved() const;
  void ReserveSms();
  void AdvanceEvents();
  Cycle Next() const;
  void EndGrids();
  void EndEvent(const GridRun& grid);
  void FailAll();

  Config config_;
  const Options options_;
  MemorySystem memory_system_;
  SmSignals signals_;
  std::deque<Sm> sms_;
  Kmu kmu_;
  EventTable event_table_;
  std::multimap<Cycle, std::function<void()>> calls_;
  std::map<Cycle, uint32_t> releases_;  // pending ones, by their cycle
  EventDispatcher event_dispatcher_;
  // What the configuration says, while something else is in force.
  const Reservation configured_reservation_;
  const uint32_t configured_reserve_sms_;
  std::optional<SmReservation> reservation_;
  std::unique_ptr<Preemption> preemption_;
  uint32_t events_ = 0;  // how many of grids_ are events
  Cycle cycle_ = 0;
  bool stop_ = false;
  GridId next_id_ = 1;
  uint64_t ended_grids_ = 0;
  // All that have not ended, by id.
  std::vector<std::unique_ptr<GridRun>> grids_;
  std::map<GridId, GridResult> results_;
  std::vector<std::unique_ptr<LoadedProgram>> programs_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_GPU_H_
