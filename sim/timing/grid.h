// Grids on their way through the GPU.
#ifndef CARILLON_SIM_TIMING_GRID_H_
#define CARILLON_SIM_TIMING_GRID_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "sim/exec/warp.h"
#include "sim/timing/config.h"
#include "sim/timing/occupancy.h"
#include "sim/timing/op_table.h"

namespace carillon::sim::timing {

using GridId = uint64_t;

// The class of warps that a scheduler prefers, in EDGE's order.
enum class WarpClass : uint8_t {
  kVictim,  // on its way out, to make room
  kEvent,
  kNormal,
};
inline constexpr size_t kWarpClasses = 3;

enum class LaunchOrigin : uint8_t {
  kHost,
  kDevice,  // an event, or another kernel
};

inline constexpr uint32_t kAnySm = ~uint32_t{0};

struct SubmitOptions {
  uint32_t priority = 0;  // larger goes first
  Cycle not_before = 0;   // when it reaches the KMU
  LaunchOrigin origin = LaunchOrigin::kHost;
  WarpClass warp_class = WarpClass::kNormal;
  uint32_t registers = 0;  // per thread; 0: what the kernel needs
  // An event of EDGE takes the path that Config::edge says, as with
  // Gpu::RingDoorbell(). Then `origin` and `warp_class` do not matter.
  bool event = false;
  // An event that is an interrupt's routine: it always takes the short path,
  // and reaches an SM's table after edge.interrupt_cycles.
  bool privileged = false;
  uint32_t sm = kAnySm;  // the SM for one that takes the short path
  // The event does not take the short path, whatever Config::edge says.
  bool by_tb_scheduler = false;
  uint64_t announcement = 0;  // what Gpu::Announce() returned for this launch
  // For Sharing::kExclusive: whose it is, by any number, and of what weight.
  uint64_t device = 0;
  uint32_t weight = 1;
};

// How an event got its place.
enum class EventPlace : uint8_t {
  kNone,  // no place yet, or no event
  // Like any block; also an event that is too large for the short path.
  kTbScheduler,
  kFree,       // a context that nobody used
  kReserved,   // the same, which nobody else could have used
  kPreempted,  // victims'
};
const char* NameOf(EventPlace place);

struct GridResult {
  GridId id = 0;
  // Not OK for the reasons of FunctionalGpu::Run(), and after Cancel().
  absl::Status status;
  Cycle submitted = 0;        // reached the KMU
  Cycle dispatched = kNever;  // its first block started
  Cycle completed = 0;        // its last block's last operation was done
  uint64_t warp_instructions = 0;
  uint64_t blocks = 0;  // blocks that have ended

  // For an event: its scheduling latency is dispatched - arrived, its
  // preemption latency flushed - selected. With several blocks, those of the
  // first that starts.
  bool event = false;
  Cycle arrived = kNever;   // at the TB scheduler, or an SM's table
  Cycle selected = kNever;  // when its victims were first selected
  Cycle flushed = kNever;   // their pipelines were empty
  EventPlace place = EventPlace::kNone;
  uint32_t sm = 0;
  uint32_t victims = 0;
  // Because a victim exited first or became unsuitable.
  uint32_t reselections = 0;
  bool saved_registers = false;
};

// A program as the GPU stores it.
struct LoadedProgram {
  const Program* program = nullptr;
  uint64_t code = 0;  // where instruction fetch finds it
  std::vector<OpTiming> operations;
};

struct GridRun {
  Launch launch;
  SubmitOptions options;
  const LoadedProgram* program = nullptr;
  Contexts contexts;  // per block
  GridResult result;
  Cycle ready = 0;  // for its first block
  Dim3 next{0, 0, 0};
  bool more = true;           // blocks to start, from `next` on
  std::vector<Dim3> flushed;  // blocks to start again, before these
  uint64_t running = 0;       // blocks, those that were switched out included
  uint64_t placed = 0;        // on the short path: in SMs' tables
  bool in_kdu = false;
  bool arrival_seen = false;  // by preempt/preemption.h
  uint64_t started = 0;       // blocks, each once
  Cycle last_started = 0;     // the last one, by the TB scheduler
  uint64_t slices = 0;        // that were begun, with Sharing::kGpes
  // Blocks of other grids that were placed since one of its own was, where it
  // lacked room.
  uint32_t overtaken = 0;
  // Warp instructions since a store, or since a warp passed a barrier or ended.
  uint64_t idle = 0;
  // How often in a row a warp looked again for what others do (Warp::Looks()),
  // while no warp did anything else.
  uint64_t looks = 0;

  bool failed() const { return !result.status.ok(); }
  bool has_blocks() const { return more || !flushed.empty(); }
  // Its blocks must run together.
  bool waits_for_all_blocks() const { return launch.grid_workspace != 0; }
  bool begun() const { return result.dispatched != kNever; }
  bool done() const { return (!has_blocks() || failed()) && running == 0; }
  // Takes the index of the block that starts next.
  Dim3 TakeBlock() {
    if (!flushed.empty()) {
      const Dim3 block = flushed.back();
      flushed.pop_back();
      return block;
    }
    const Dim3 block = next;
    ++started;
    Advance();
    return block;
  }
  void Advance() {
    if (++next.x < launch.grid.x) return;
    next.x = 0;
    if (++next.y < launch.grid.y) return;
    next.y = 0;
    more = ++next.z < launch.grid.z;
  }
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_GRID_H_
