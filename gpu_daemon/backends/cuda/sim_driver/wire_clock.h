// Counts what one event waits for on its way over the wire, from the store to
// its doorbell to the store that completes it, and gives each thing its cost.
// One clock a warp: an instruction is issued when its registers are there, a
// load gives its registers a time at which they will be, and the warp whose
// clock shows least goes next. So loads that are on their way together cost one
// trip, and those that wait for each other as many as there are.
//
// The event's way is what its warps wait for, one after the other: a warp is on
// it from the load that sees what another one on it has stored (the device, the
// doorbell), and a kernel from its launch.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_WIRE_CLOCK_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_WIRE_CLOCK_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/exec/program.h"
#include "sim/exec/warp.h"

namespace carillon::gpud::cuda {

// Nanoseconds on an H200 with driver 580, as gpu_check's probes `host_reads`,
// `fence_cost` and `launch_rate` have measured them there. Estimated are
// host_write, what stays in an SM, and how a launch's time divides into its two.
struct WireCosts {
  // PCIe. A read of host memory, there and back: half of it lies before what the
  // memory says and half behind. Not counted here: reads of the same
  // 32 bytes by several warps follow each other at 1,000 (`poll_rtt`). A posted
  // write, until the CPU sees it.
  double host_read = 1150;
  double host_write = 450;
  // A trip to L2 or the GPU's memory, and an atomic operation there whose result
  // is used.
  double l2 = 135;
  double l2_atomic = 136;
  double l1 = 20;
  double shared = 15;
  double shared_atomic = 60;
  // What releases waits for the stores before it to arrive, and then for this.
  // What only acquires (CCTL.IVALL) takes L1 with it.
  double release_system = 545;
  double release_device = 133;
  double release_block = 10;
  double acquire = 1;
  // Two cycles until a warp's next instruction, four until the result, a branch
  // that is taken, what lanes do together.
  double issue = 1.1;
  double result = 2.3;
  double branch = 5;
  double warp_wide = 13;
  // cudaGraphLaunch() on the GPU: the call, and until the kernel's first
  // instruction.
  double launch_call = 1760;
  double launch_start = 1000;
};

// What is waited for.
enum class WireStep : uint8_t {
  kHostRead,
  kHostWrite,
  kSystemFence,    // releases and acquires, system scope
  kSystemRelease,  // releases only
  kDeviceRelease,
  kAcquire,
  kL2,
  kAtomic,  // with a result
  kShared,
  kLaunch,
  kInstruction,  // L1, results, lanes together
  kSeen,         // until a warp looks, asleep or busy with something else
};
inline constexpr size_t kWireSteps = 12;

// One event's way.
struct WireTrip {
  // Both by WireStep: what was waited for, and how many such things were begun.
  std::array<double, kWireSteps> ns{};
  std::array<uint32_t, kWireSteps> counts{};

  double& Ns(WireStep step) { return ns[static_cast<size_t>(step)]; }
  double Ns(WireStep step) const { return ns[static_cast<size_t>(step)]; }
  uint32_t Count(WireStep step) const {
    return counts[static_cast<size_t>(step)];
  }
  double total() const;
  // Those that it waits for; two at the same time are one.
  double host_reads(const WireCosts& costs) const {
    return Ns(WireStep::kHostRead) / costs.host_read;
  }
  double l2_trips(const WireCosts& costs) const {
    return Ns(WireStep::kL2) / costs.l2;
  }
};

// Goes with an InterleavedGpu without weak memory: Due() and Executed() are its
// options `due` and `executed`, longest_turn is 1. Not thread safe.
class WireClock {
 public:
  using IsHost = std::function<bool(uint64_t address)>;

  explicit WireClock(const sim::Program* program, IsHost is_host,
                     WireCosts costs = {})
      : program_(program), is_host_(std::move(is_host)), costs_(costs) {}

  const WireCosts& costs() const { return costs_; }

  // When the warp's next instruction can be issued.
  double Due(const sim::Warp& warp);
  void Executed(const sim::Warp& warp, const sim::Op& op, sim::LaneMask lanes);
  // What was executed last, was at this time.
  double now() const { return now_; }

  // The device has just stored the doorbell there; the event is complete when
  // something is stored at `completion`.
  void Rung(const void* doorbell, const void* completion);
  // The event's way, once it is complete. Its device sees it so long after the
  // doorbell's store.
  const std::optional<WireTrip>& done() const { return done_; }

  // The warp, in cudaGraphLaunch(), launches what runs as Launch::id.
  void Launches(const sim::Warp& warp, uint64_t id);

 private:
  struct WarpClock {
    uint64_t launch = 0;
    const sim::Block* block = nullptr;
    double now = 0;
    bool at_barrier = false;
    std::vector<double> ready;        // by register
    std::vector<WireStep> waits_for;  // by register
    double loaded = 0;                // the last of its loads
    WireStep last_load = WireStep::kInstruction;
    double stored = 0;   // its stores have arrived
    uint64_t event = 0;  // on the way of this one
    WireTrip trip;
  };
  struct Start {
    double at = 0;
    uint64_t event = 0;
    WireTrip trip;
  };
  struct Tag {
    double at = 0;
    WireTrip trip;
  };
  // An address in shared memory is one of its block.
  using Place = std::pair<const sim::Block*, uint64_t>;

  WarpClock& ClockOf(const sim::Warp& warp);
  void Wait(WarpClock& clock, double until, WireStep step);
  void Add(WarpClock& clock, double ns, WireStep step) {
    Wait(clock, clock.now + ns, step);
  }
  void Count(WarpClock& clock, WireStep step) {
    ++clock.trip.counts[static_cast<size_t>(step)];
  }
  void Access(WarpClock& clock, const sim::Warp& warp, const sim::Op& op,
              const sim::OpInfo& info);
  void Release(WarpClock& clock, sim::MemoryScope scope, bool acquires);
  void Acquire(WarpClock& clock, uint32_t sm, sim::MemoryScope scope);
  // An atomic operation's result; if it is not, machine code makes it one that
  // has none. Looks no further than the text goes on.
  bool IsUsed(const sim::Op& op);
  // The time of a load from global memory, and what it waits for.
  std::pair<double, WireStep> LoadGlobal(const sim::Warp& warp,
                                         const sim::Op& op, bool host);
  void Follow(WarpClock& clock, const sim::Warp& warp, uint32_t bytes,
              bool host);
  void Leave(WarpClock& clock, const sim::Warp& warp, uint32_t bytes);

  const sim::Program* const program_;
  const IsHost is_host_;
  const WireCosts costs_;
  double now_ = 0;
  uint64_t event_ = 0;
  uint64_t completion_ = 0;
  std::optional<WireTrip> done_;
  std::unordered_map<const sim::Warp*, WarpClock> warps_;
  std::unordered_map<uint64_t, Start> starts_;  // by Launch::id
  std::map<Place, Tag> tags_;                   // of each four bytes
  std::unordered_map<sim::Pc, bool> used_;      // IsUsed()
  // By SM, and by launch, which finds nothing there: lines.
  std::map<uint32_t, std::map<uint64_t, std::set<uint64_t>>> l1_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_SIM_DRIVER_WIRE_CLOCK_H_
