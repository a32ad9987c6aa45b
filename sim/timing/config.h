// The properties of the simulated GPU, one number each, read from a text file.
// docs/sim_calibration.md says where each comes from and why.
#ifndef CARILLON_SIM_TIMING_CONFIG_H_
#define CARILLON_SIM_TIMING_CONFIG_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::sim::timing {

// Cycles of the SMs' clock.
using Cycle = uint64_t;
inline constexpr Cycle kNever = ~Cycle{0};

enum class SchedulerPolicy : uint8_t {
  kLrr,  // loose round robin: the next warp that can
  kGto,  // greedy, then oldest: the same warp while it can
};

// Which SM the TB scheduler asks first when an event's block needs a place.
enum class EventTurn : uint8_t {
  kShared,  // the one behind the SM that had the last block of any grid
  kOwn,     // the one behind the SM that had the last event's block
};

// EDGE's extensions: how events get to run (docs/simulator.md).
enum class EventPath : uint8_t {
  kTbScheduler,  // like any grid, through the KDU: "draining"
  kWarp,         // to an SM's table of event warps: "preemption"
};
enum class VictimPolicy : uint8_t {
  kOldest,
  kNewest,
  kBest,       // one that is flushed already, or has the fewest loads under way
  kDedicated,  // the SM's first warp slot, whatever it holds
  kReserved,   // no victim: a context that nobody else may use
};
// Each priority includes the ones before it.
enum class EventPriority : uint8_t {
  kNone,
  kP1,  // events go first: fetch, issue, blocks
  kP2,  // no other grid's blocks start while an event waits or runs
  kP3,  // an SM with an event fetches and issues nothing else
};
enum class Reservation : uint8_t { kStatic, kDynamic };
// Where an event warp keeps its registers when it takes a victim's place.
enum class EventRegisters : uint8_t {
  kFreeOrSave,  // free ones; the victim's, saved, if there are not enough
  kSave,
};

// How a grid of higher priority gets the SMs of others' blocks (PEP, Chimera).
enum class PreemptionTechnique : uint8_t {
  kNone,     // it waits until there is room
  kDrain,    // their blocks end, and no others start
  kFlush,    // blocks start again from their beginning, where they may
  kSwitch,   // blocks are saved, and come back
  kChimera,  // one of these for each block, by its estimated time
  kPep,      // drain or switch; with an announcement, saved ahead of time
};

// How an operation's latency is looked up.
enum class CostClass : uint8_t { kAdd, kMax, kMul, kMad, kDiv };
inline constexpr size_t kCostClasses = 5;
enum class CostType : uint8_t { kInt, kLong, kFloat, kDouble };
inline constexpr size_t kCostTypes = 4;

struct Cost {
  uint32_t latency = 1;   // cycles in the unit
  uint32_t interval = 1;  // cycles until the unit takes the next warp
};

struct CacheConfig {
  uint32_t bytes = 0;
  uint32_t line_bytes = 128;
  uint32_t sector_bytes = 32;  // what is fetched and is valid by itself
  uint32_t ways = 1;
  uint32_t mshrs = 1;  // lines that are on their way
  // Does not apply to the i-cache, whose latency is fetch.latency and where all
  // warps may wait.
  uint32_t latency = 1;  // cycles to a hit's data
  uint32_t merges = 1;   // requests that wait for a line on its way

  uint32_t sets() const { return bytes / line_bytes / ways; }
};

struct Config {
  std::string name;

  struct {
    uint32_t core_mhz = 1;
    uint32_t interconnect_mhz = 1;
    uint32_t l2_mhz = 1;
    uint32_t dram_mhz = 1;
  } clock;

  struct {
    uint32_t count = 1;
    uint32_t warps = 1;
    uint32_t blocks = 1;
    uint32_t registers = 1;      // registers of 32 bits
    uint32_t register_unit = 1;  // a warp has a multiple of it
    uint32_t shared_bytes = 0;
    uint32_t shared_unit = 1;  // bytes; a block has a multiple of it
  } sm;

  struct {
    SchedulerPolicy policy = SchedulerPolicy::kGto;
    uint32_t count = 1;  // per SM
    uint32_t width = 1;  // operations of one warp in a cycle
  } scheduler;

  struct {
    uint32_t latency = 1;          // from the i-cache to the i-buffer
    uint32_t width = 1;            // operations at once
    uint32_t buffer = 2;           // operations of a warp
    uint32_t operation_bytes = 8;  // in the i-cache
  } fetch;

  struct {
    uint32_t latency = 1;  // cycles from issue to the unit
    uint32_t banks = 1;    // banks of the register file
  } operands;

  struct {
    uint32_t sp = 1;
    uint32_t dp = 1;
    uint32_t sfu = 1;
    uint32_t tensor = 1;  // tensor cores
  } units;

  std::array<std::array<Cost, kCostClasses>, kCostTypes> costs;
  Cost special;   // for the SFU: sine, reciprocal and their like
  Cost exchange;  // for operations between lanes: shfl, vote
  // For mma.m16n8k16 of f16: 2,048 multiply-adds in a tensor core.
  Cost matrix;

  struct {
    uint32_t queue = 1;  // memory operations of an SM on the way to the L1
    uint32_t banks = 32;
    uint32_t shared_latency = 1;
    uint32_t constant_latency = 1;
    uint32_t stores = 1;      // per SM, that memory has not acknowledged
    uint32_t operations = 1;  // the limit per SM until memory has finished them
  } lsu;

  CacheConfig icache;
  CacheConfig l1;
  uint32_t l1_global_loads = 1;  // 0: loads of global memory go past it
  CacheConfig l2;  // `bytes` and `mshrs` are for all slices together
  uint32_t l2_slices = 1;
  uint32_t l2_interval = 1;         // cycles of a slice, for each request
  uint32_t l2_atomic_interval = 1;  // the same, for each lane
  uint32_t l2_data_bytes = 1;       // a cycle, of a slice's data
  uint32_t l2_queue = 1;            // requests that wait before a slice's tags
  uint32_t l2_dram_queue = 1;       // what a slice wants of DRAM

  struct {
    uint32_t latency = 1;        // in its own cycles, one way
    uint32_t request_bytes = 1;  // a cycle, from an SM
    uint32_t reply_bytes = 1;    // a cycle, to an SM
    uint32_t slice_bytes = 1;    // a cycle, to a slice, and from it
    uint32_t header_bytes = 8;
    // How many wait at a port:
    uint32_t sm_queue = 1;       // requests of an SM
    uint32_t slice_replies = 1;  // replies of a slice
    uint32_t sm_replies = 1;     // replies for an SM
  } interconnect;

  // The link to the host, of copies; kernels' loads and stores of its memory cost
  // what those of the GPU's cost.
  struct {
    uint32_t megabytes_per_second = 1;
    uint32_t chunk_ns = 0;  // of each piece of a copy, besides
  } pcie;

  struct {
    uint32_t channels = 1;
    uint32_t banks = 1;
    uint32_t row_bytes = 1024;
    uint32_t interleave_bytes = 256;  // to the next slice
    uint32_t bytes_per_cycle = 1;     // per channel, of its clock
    uint32_t burst_bytes = 32;        // the least that it moves
    // What its controller chooses from, and when it turns to writes (dram.h):
    uint32_t read_queue = 1;
    uint32_t write_queue = 1;
    uint32_t write_high = 1;
    uint32_t write_low = 1;
    uint32_t write_turn = 1;
    uint32_t row_hits = 0;           // that may pass an older request
    uint32_t latency = 1;            // cycles of the SMs' clock, besides:
    uint32_t column = 1;             // CL, of its clock, like all below
    uint32_t write_column = 1;       // WL: from a write to its data
    uint32_t activate = 1;           // RCD
    uint32_t precharge = 1;          // RP
    uint32_t active = 1;             // RAS: from activate to precharge
    uint32_t activate_gap = 0;       // RRD: between two rows that are opened
    uint32_t four_activates = 0;     // FAW: the same of the fifth to the first
    uint32_t read_to_precharge = 0;  // RTP
    uint32_t write_recovery = 0;     // WR: from a write's data to precharge
    uint32_t write_to_read = 0;      // WTR: from a write's data to a read
    uint32_t read_to_write = 0;      // from a read's data to a write's
    uint32_t refresh_interval = 0;   // REFI; 0: there is no refresh
    uint32_t refresh = 0;            // RFC: how long one takes
  } dram;

  struct {
    uint32_t grids = 1;          // in the KDU
    uint32_t host_cycles = 0;    // from the KMU to the first block
    uint32_t device_cycles = 0;  // the same, for events and other kernels
    uint32_t blocks_per_cycle = 1;
    EventTurn event_turn = EventTurn::kShared;
  } dispatch;

  struct {
    uint32_t ekt = 32;  // events that can be registered
    EventPath path = EventPath::kTbScheduler;
    uint32_t event_warps = 4;  // entries of an SM's table
    VictimPolicy victim = VictimPolicy::kOldest;
    // What is done while a victim's pipeline empties (0 or 1 each):
    uint32_t victim_priority = 0;  // VHP: it issues before all others
    uint32_t flush_i_buffer = 0;   // IB: what it has not issued is dropped
    uint32_t skip_barriers = 0;    // BS: it need not get past its barrier
    uint32_t replay_loads = 0;     // RL: its loads are dropped, and done again
    EventRegisters registers = EventRegisters::kFreeOrSave;
    uint32_t several_victims = 0;  // 1: events of more warps preempt, too
    // 1: an event may have more registers than its victim, if enough are free.
    uint32_t larger_events = 0;
    EventPriority event_priority = EventPriority::kNone;
    Reservation reservation = Reservation::kStatic;
    uint32_t reserve_sms = 0;     // the last ones; kDynamic: at most
    uint32_t reserve_blocks = 0;  // per SM
    // The registers per thread in each of these; 0: the most that a registered
    // event needs.
    uint32_t reserve_registers = 0;
    // For kDynamic: the cycles over which load is measured, the load that all
    // other work weighs (in events under way), and the windows until an SM is
    // given back.
    uint32_t reserve_window = 1;
    uint32_t reserve_load = 1;
    uint32_t reserve_hold = 1;
    // Privileged warps, which interrupts start:
    uint32_t interrupt_cycles = 0;  // from the GPU's edge to an SM's table
    // The latency of the SM's interrupt registers.
    uint32_t registers_latency = 1;
    uint32_t reserve_icache_lines = 0;  // per SM, for their routine
  } edge;

  struct {
    PreemptionTechnique technique = PreemptionTechnique::kNone;
    // 1: a switch saves registers that were written, not all that are allocated
    // (kPep always does so).
    uint32_t dirty = 0;
    uint32_t in_place = 0;  // 1: incremental checkpoints use free contexts
    uint32_t flush = 0;     // 1: kChimera may flush
    uint32_t sms = 0;  // at most so many for one grid; 0: as many as it needs
    uint32_t deadline_ns = 0;   // kChimera: for the preemption of a block
    uint32_t predicted_ns = 0;  // from the announcement to the arrival
    uint32_t trap_ns = 0;       // from the announcement to the SMs
    uint32_t timeout_ns = 1;    // for an announced grid that does not arrive
    // A block that starts after the announcement is saved when it has issued so
    // many operations a warp.
    uint32_t new_block_instructions = 1;
    // Lines of 128 bytes a warp besides its registers: PC, SIMT stack,
    // predicates.
    uint32_t control_lines = 0;
    // 1: an incremental checkpoint has the lines of shared memory that were
    // written; 0: all.
    uint32_t shared_lines = 0;
    uint32_t in_place_cycles = 0;  // for each line
    // 1: the grid's blocks start on an SM when the last one that had to leave
    // there has left; 0: as soon as there is room for one.
    uint32_t whole_sm = 0;
    // kSwitch: so many of an SM's blocks, and the others drain; 0: all.
    uint32_t switch_blocks = 0;
    uint32_t quantum_ns =
        0;  // of grids of equal priority; 0: they do not share
  } preemption;
};

// Loads a preset by its name (PresetNames()), or a file by its path: a name
// with a '/' or that ends in ".yaml". Errors: NotFound, InvalidArgument
// ("FILE:LINE: KEY: what").
absl::StatusOr<Config> LoadConfig(std::string_view name_or_path);
// Parses a configuration's text; `file` is for messages.
absl::StatusOr<Config> ParseConfig(const std::string& text, std::string file);
std::vector<std::string_view> PresetNames();

// Every key ("l1.mshrs") with its value, in a fixed order, for documents and
// dumps.
std::vector<std::pair<std::string, std::string>> Values(const Config& config);

// Time within memory. It is finer than a cycle because memory clocks do not
// divide the SMs' clock.
using Ticks = uint64_t;
inline constexpr Ticks kTicksPerCycle = 1024;
constexpr Ticks TicksOf(Cycle cycle) { return cycle * kTicksPerCycle; }
// The first cycle at or after that time.
constexpr Cycle CycleAt(Ticks ticks) {
  return (ticks + kTicksPerCycle - 1) / kTicksPerCycle;
}
constexpr Ticks TicksOfClock(const Config& config, uint32_t mhz,
                             uint64_t cycles) {
  return (cycles * kTicksPerCycle * config.clock.core_mhz + mhz / 2) / mhz;
}

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_CONFIG_H_
