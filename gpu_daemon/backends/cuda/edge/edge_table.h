// What the host and the resident dispatchers of launch path `edge` share
// (EDGE III-C: the event kernel table, in the GPU's own memory). Plain data for
// CPU and GPU code; edge_dispatch.h says who does what with it.
//
//   host-mapped memory                     device memory
//   +---------------------------+          +----------------------------------+
//   | EdgeControl  host -> GPU  |<---------| EdgeTable                        |
//   |   command, trap, tracing  |          |   token, budget, figures         |
//   +---------------------------+          |   dispatchers[R]  waiting, ended |
//   | EdgeReport   GPU -> host  |<---------|                                  |
//   |   halted, heartbeats,     |          |   lines[L] ----> doorbell lines  |
//   |   totals, figures         |          |   entries[L][32] EdgeEntry       |
//   +---------------------------+          |   heads[L][E][32] EdgeHead       |
//   | apertures                 |          |   totals[L][32]  EventTotals     |
//   |   doorbells, ESQ   (read) |          |   and of each entry: frames,     |
//   |   ECQ, lives      (write) |          |   scratch, ended, arguments      |
//   +---------------------------+          +----------------------------------+
//
// An entry's index is 32 * line + doorbell's place in its line: found without a
// search, and the same in entries, totals and the report.
//
// The host's side of the contract
//   before the start  Nothing of it runs. The host fills in everything in device
//                     memory (FirstHead, FirstSlotEnded, zeros elsewhere),
//                     zeroes the report, sets kServe, launches R dispatchers.
//   while it runs     The host reads the report, each word for itself, and
//                     writes EdgeControl: trap, tracing and clock_offset_ns at
//                     any time; command only upwards, kServe < kHalt < kLeave.
//                     Device memory is the GPU's.
//   kHalt             Once report.halted is 1, no event is launched any more,
//                     nor is an entry read. What was launched still ends. Comes
//                     in bounded time unless an inline kernel does not end.
//   kLeave            All dispatchers end. When all their streams are idle, what
//                     they launched has ended too: heads say which events were
//                     taken, and every taken event has its ECQ entry. Rings that
//                     were not taken are as before. Only now may the host
//                     write device memory, set kServe and start again.
//   trap              Whatever the state: the context is lost within
//                     microseconds. What was rung and has no ECQ entry may or
//                     may not have run.
//   An event that does not end keeps its dispatcher from leaving. So: kHalt,
//   wait for the events within the watchdog's bound, then kLeave or trap: a
//   dispatcher is up to carry out the trap as long as kLeave was not said.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_TABLE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "gpu_daemon/event/argument_steps.h"
#include "kernels/simt/event_frame.h"
#include "kernels/simt/types.h"
#include "shm/layout.h"

namespace carillon::gpud {

inline constexpr uint32_t kEdgeLanes = simt::kWarpSize;
inline constexpr uint32_t kEdgeMaxDispatchers = 4;
inline constexpr uint32_t kEdgeMaxPollers = 2;
inline constexpr uint32_t kEdgeMaxEventWarps = 8;
inline constexpr uint32_t kEdgeMaxWarps = kEdgeMaxPollers + kEdgeMaxEventWarps;
inline constexpr uint32_t kEdgeMaxLines = 16;
inline constexpr uint32_t kEdgeMaxEntries = kEdgeMaxLines * kEdgeLanes;
// Of a kernel that a resident event warp runs: they lie in shared memory.
inline constexpr uint32_t kEdgeMaxInlineArgs = 512;
// Longer ArgumentSteps are read where they are.
inline constexpr uint32_t kEdgeMaxSharedSteps = 256;
// An event kernel's graphs are made while nothing is served: so many slots have
// two of them each.
inline constexpr uint32_t kEdgeMaxLaunchSlots = 32;
// CUDA allows 120 fire-and-forget launches an execution of a graph.
inline constexpr uint32_t kEdgeBudget = 110;
static_assert(kEdgeLanes == shm::kDoorbellsPerLine);

enum class EdgeCommand : uint32_t { kServe = 0, kHalt = 1, kLeave = 2 };

// kClear: lives of earlier laps are zeroed, not written.
enum class EdgeTracing : uint32_t { kOff = 0, kOn = 1, kClear = 2 };

// One line, so that one read over PCIe brings all of it. Writer: the host,
// relaxed: each word stands for itself. Readers: the dispatchers.
struct alignas(128) EdgeControl {
  uint32_t command;  // EdgeCommand
  uint32_t trap;     // 1: stop the context at once
  uint32_t tracing;  // EdgeTracing
  uint32_t reserved;
  // Added to the GPU's global timer to make it CLOCK_MONOTONIC; read while
  // tracing.
  int64_t clock_offset_ns;
  uint32_t padding[26];
};
static_assert(sizeof(EdgeControl) == 128);
static_assert(offsetof(EdgeControl, clock_offset_ns) == 16);

enum class EdgeState : uint32_t {
  kNone = 0,
  kStandby = 1,      // waits for the token
  kServing = 2,      // holds it
  kInlineOnly = 3,   // holds it, has no launch left
  kHalted = 4,       // holds it and serves nothing, by command
  kRelaunching = 5,  // will be back when what it launched has ended
  kLeft = 6,         // by command
  kLost = 7,         // could not relaunch itself: error in the figures
};

// Writer: that dispatcher's lead, relaxed, but for `state`, which it releases;
// reader: the host.
struct alignas(128) EdgeDispatcherReport {
  uint64_t heartbeat;   // grows while it runs
  uint64_t executions;  // of the dispatcher's graph
  uint32_t state;       // EdgeState
  uint32_t padding[27];
};
static_assert(sizeof(EdgeDispatcherReport) == 128);

// Since gpud started; the host hands them on to the next table.
struct EdgeFigures {
  uint64_t launched;       // by device graph launch
  uint64_t inlined;        // run by an event warp itself
  uint64_t busy;           // an exec had not retired: the other one, or later
  uint64_t launch_errors;  // other refusals: later, after a relay
  uint64_t relays;
  uint64_t last_error;  // cudaError_t
  uint64_t mirrors;     // of all this into the report
  uint64_t reserved;
};
static_assert(sizeof(EdgeFigures) == 64);

// The event that an event warp runs itself; entry 0: none.
struct EdgeRun {
  uint32_t entry;     // its index in the table, and one
  uint32_t sequence;  // the low half
};

// Written by the GPU alone, relaxed; figures are copies that are some
// milliseconds old, and exact once halted is 1 and all has ended.
struct alignas(128) EdgeReport {
  // 1: kHalt or kLeave was carried out by the one that holds the token. Released:
  // the figures are there.
  uint32_t halted;
  uint32_t padding[31];
  EdgeDispatcherReport dispatchers[kEdgeMaxDispatchers];
  EdgeFigures figures;
  // 1: the device rang for more events than its ring has free slots. Event
  // warps that saw it take no more of this entry's: the host evicts the device.
  uint32_t violations[kEdgeMaxEntries];
  // The doorbells as the GPU sees them, and what the event warps run; both as
  // old as the figures.
  uint32_t doorbells[kEdgeMaxEntries];
  EdgeRun runs[kEdgeMaxEventWarps];
  simt::EventTotals totals[kEdgeMaxEntries];
};
static_assert(offsetof(EdgeReport, dispatchers) == 128);

enum EdgeEntryFlags : uint32_t {
  // A resident event warp runs it: one warp, no barriers, no shared memory,
  // bounded and short, at most kEdgeMaxInlineArgs; otherwise a graph is
  // launched.
  kEdgeInline = 1,
  // In heads only: the device broke the protocol.
  kEdgeClosed = 2,
  // RingLayout::stamped(): all of an entry is in 64 bytes that say themselves
  // whether they are whole.
  kEdgeStamped = 4,
};

// One registered event kernel. Immutable while dispatchers run, but for what
// the pointers lead to.
//
//   0     8     16      24      32      40       48        56          64
//   +-----+-----+-------+-------+-------+--------+---------+-----------+----
//   | esq | ecq | lives | ended | execs | frames | scratch | arguments | ...
//   +-----+-----+-------+-------+-------+--------+---------+-----------+----
struct alignas(128) EdgeEntry {
  // Host-mapped, in the device's apertures.
  const std::byte* esq;
  shm::EcqEntry* ecq;
  shm::EventLife* lives;
  // Device memory. `ended` has a word a slot: the last sequence that ended
  // there; writers: whoever completes it, before the completion; reader: the
  // event warp that takes the slot's next event.
  uint64_t* ended;
  uint64_t (
      *execs)[2];     // a launch slot: two cudaGraphExec_t of the same kernel
  std::byte* frames;  // a launch slot: two EventFrames with arguments
  simt::EventScratch* scratch;  // a launch slot: two
  const ArgumentSteps* arguments;
  // Of an inline kernel: its number, the value of carillon_inline_<name>.
  uint64_t inline_kernel;
  uint32_t entries;  // power of two; 0: nothing is registered here
  uint32_t entry_bytes;
  uint32_t parameter_offset;
  uint32_t parameter_bytes;
  uint32_t generation;
  uint32_t frame_bytes;  // EventFrameBytes()
  uint32_t flags;        // EdgeEntryFlags
  uint32_t block[3];     // dimensions, for inline kernels
  // Power of two, at most `entries`: an event is launched once the one so many
  // sequences before it has ended. `entries` where none is launched.
  uint32_t launch_slots;
  uint32_t reserved[3];

  CARILLON_HOST_DEVICE uint32_t SlotOf(uint64_t sequence) const {
    return static_cast<uint32_t>(sequence) & (entries - 1);
  }
  CARILLON_HOST_DEVICE uint32_t LaunchSlotOf(uint64_t sequence) const {
    return static_cast<uint32_t>(sequence) & (launch_slots - 1);
  }
  // Which of the launch slot's two execs and frames comes first: laps take turns.
  CARILLON_HOST_DEVICE uint32_t CopyOf(uint64_t sequence) const {
    return (sequence & launch_slots) != 0 ? 1 : 0;
  }
  CARILLON_HOST_DEVICE simt::EventFrame* Frame(uint32_t slot,
                                               uint32_t copy) const {
    return reinterpret_cast<simt::EventFrame*>(
        frames + (uint64_t{slot} * 2 + copy) * frame_bytes);
  }
};
static_assert(sizeof(EdgeEntry) == 128);
static_assert(offsetof(EdgeEntry, arguments) == 56);
static_assert(offsetof(EdgeEntry, entries) == 72);

// Where one event warp stands in one entry: it takes every E-th sequence, so
// that no two warps share a head. Writer and reader: that event warp of the
// dispatcher that holds the token, which hands it on with the token.
struct alignas(16) EdgeHead {
  uint64_t next;   // sequence; 0: there is no such entry
  uint32_t ring;   // what the doorbell shows once `next` is rung
  uint32_t flags;  // EdgeEntryFlags
};
static_assert(sizeof(EdgeHead) == 16);

// The head of event warp `warp` of `warps` in an entry whose next event is
// `first` (at least 1); the doorbell shows `rings_before` when event first - 1
// was the last one rung.
CARILLON_HOST_DEVICE constexpr EdgeHead FirstHead(uint64_t first,
                                                  uint32_t rings_before,
                                                  uint32_t warp, uint32_t warps,
                                                  uint32_t entry_flags) {
  const auto ahead =
      static_cast<uint32_t>((warp + warps - first % warps) % warps);
  return {.next = first + ahead,
          .ring = rings_before + 1 + ahead,
          .flags = entry_flags};
}

// What EdgeEntry::ended[slot] says when event `first` is the next one: the
// slot's next event finds the one before it ended. Wraps below 0, on purpose.
CARILLON_HOST_DEVICE constexpr uint64_t FirstSlotEnded(uint64_t first,
                                                       uint32_t slot,
                                                       uint32_t entries) {
  const uint64_t ahead = (slot - first) & (entries - 1);
  return first + ahead - entries;
}

struct alignas(128) EdgeDispatcherState {
  // 1: up, and would take the token. Writer: this dispatcher; reader: the one
  // that holds the token.
  uint32_t waiting;
  // Events launched by this execution that have ended. Writers: their
  // epilogues; reader: this dispatcher, which zeroes it when it starts: then
  // nothing of its last execution runs any more.
  uint32_t ended;
  uint64_t executions;  // writer and reader: this dispatcher
  uint32_t padding[28];
};
static_assert(sizeof(EdgeDispatcherState) == 128);

struct EdgeLine {
  const uint32_t* doorbells;  // 32 words, host-mapped
};

inline constexpr uint32_t kEdgeTokenFree = 0;

// In device memory. Immutable while dispatchers run, but for the token, the
// dispatchers' states and the figures.
struct alignas(128) EdgeTable {
  // kEdgeTokenFree, or 1 + the index of the dispatcher that serves. Taken by
  // compare-and-swap (acquire, device scope), freed by its holder (release):
  // heads travel with it.
  uint32_t token;
  uint32_t padding0[31];
  EdgeDispatcherState dispatchers[kEdgeMaxDispatchers];
  EdgeFigures figures;  // writers: event warps and leads; relaxed

  const EdgeControl* control;
  EdgeReport* report;
  EdgeEntry* entries;         // [line_count][32]
  EdgeHead* heads;            // [line_count][event_warps][32]
  simt::EventTotals* totals;  // [line_count][32]
  uint32_t dispatcher_count;
  uint32_t pollers;
  uint32_t event_warps;
  uint32_t budget;        // launches an execution, at least 1
  uint32_t report_every;  // looks at the control line, about 1 us each
  uint32_t line_count;
  EdgeLine lines[kEdgeMaxLines];

  CARILLON_HOST_DEVICE EdgeHead* HeadsOf(uint32_t line, uint32_t warp) const {
    return heads + (uint64_t{line} * event_warps + warp) * kEdgeLanes;
  }
};
static_assert(offsetof(EdgeTable, dispatchers) == 128);
static_assert(offsetof(EdgeTable, figures) == 640);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_TABLE_H_
