// Launch path `persistent` (EDGE II-D: persistent threads): the thread blocks of
// one event kernel stay on the GPU and take its events one after another. For
// CPU and GPU code; the Port is edge_dispatch.h's.
//
//   block 0, first warp (lead)          the other blocks' first warps
//   polls the doorbell
//   copies and checks the entry,
//   builds the frame
//   turn := n            ------------>  see turn n
//   all blocks run the grid's blocks in turn, b = own, own + resident, ...
//   arrived += 1                        arrived += 1
//   whoever is last: completion store, arrived := 0, ended_turn := n
//   waits for ended_turn n, polls ...
//
// One event of the kernel runs at a time, in the order of the rings. A refused
// entry completes without a turn.
//
// What holds
//   A turn begins when all blocks have ended the one before: frame, scratch and
//   the kernel's shared memory are nobody else's.
//   Blocks leave between two turns, all of them, when the host says so. What was
//   taken has completed then; rings that were not are as before.
//   All blocks must be resident at once: the host launches no more than fit.
//
// Orders: doorbell, relaxed system load, then an acquire-release system fence if
// it rang; frame -> turn (release, acquire; device) -> body -> arrived
// (acquire-release, device) -> system fence, completion -> ended_turn (release,
// acquire; device) -> the next frame.
//
// Besides edge_dispatch.h's a Port has
//   PollWord(&word)     32 bits of host memory: relaxed, system
//   AddDevice(&word, n) acquire-release addition, device scope: the old value
// and its warp may have fewer lanes than 32: as many as the block has threads.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PERSISTENT_BLOCK_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PERSISTENT_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_event_warp.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "kernels/simt/completion_status.h"

namespace carillon::gpud {

// Host memory. Writer: the host, release; readers: the leads, with every look at
// their doorbells.
struct alignas(128) PersistentControl {
  // 1: the blocks end, between two events; and EdgeTracing, times 2: one read
  // brings both.
  uint32_t command;
  uint32_t reserved;
  int64_t clock_offset_ns;  // as EdgeControl's
  uint32_t padding[28];
};
inline constexpr uint32_t kPersistentEnd = 1;
constexpr uint32_t PersistentTracing(EdgeTracing tracing) {
  return static_cast<uint32_t>(tracing) << 1;
}
static_assert(sizeof(PersistentControl) == 128);

inline constexpr uint32_t kPersistentLooksAReport = 256;

// Host memory. Writer: the lead, relaxed; reader: the host.
struct alignas(128) PersistentReport {
  uint64_t looks;  // at the doorbell, some hundred at a time: a heartbeat
  uint64_t taken;  // the last sequence that the lead has taken
  // Of events that have ended; `launched` is the host's. Each word is released
  // after the completion that it counts: what is counted has completed, and of
  // what has completed at most one event is not counted yet. Writers: whoever
  // completes, one at a time.
  simt::EventTotals totals;
  uint64_t padding[10];
};
static_assert(sizeof(PersistentReport) == 128);

// In device memory, one an event kernel. The host writes it while no block is
// there; then it is the GPU's.
struct alignas(128) PersistentEntry {
  // Without execs, ended and the inline kernel. One frame is in use:
  // Frame(0, 0), with scratch[0].
  EdgeEntry entry;
  const uint32_t* doorbell;  // host-mapped
  const PersistentControl* control;
  PersistentReport* report;
  std::byte* copy;  // of an ESQ entry: the lead's own, aligned to 16
  uint64_t first;   // the sequence to begin with
  uint32_t ring;    // what the doorbell shows once `first` is rung
  uint32_t blocks;  // that are resident
  uint32_t grid[3];
  uint32_t reserved0;
  // As in the report. Writers and readers: whoever completes.
  simt::EventTotals totals;
  uint32_t reserved[8];

  // Turns count from 1, modulo 2^31; kPersistentLeave: the blocks leave. Writer:
  // the lead, release; readers: the other blocks, acquire. 0 at the start.
  alignas(128) uint32_t turn;
  // Blocks that have ended the turn. Writers: all, acquire-release. 0 at the
  // start of a turn.
  alignas(128) uint32_t arrived;
  // Writer: the last block of a turn, release; reader: the lead, acquire.
  alignas(128) uint32_t ended_turn;
};
static_assert(offsetof(PersistentEntry, doorbell) == 128);
static_assert(offsetof(PersistentEntry, turn) == 256);
static_assert(sizeof(PersistentEntry) == 640);

inline constexpr uint32_t kPersistentLeave = 1u << 31;

// The first warp of a resident block.
template <class Port>
class PersistentBlock {
 public:
  CARILLON_EDGE PersistentBlock(Port& port, PersistentEntry& entry,
                                uint32_t block)
      : port_(port),
        entry_(entry),
        block_(block),
        next_(entry.first),
        ring_(entry.ring) {}

  // Waits for the next turn: the block runs its share of the grid, then calls
  // EndTurn(). False: it leaves.
  CARILLON_EDGE bool NextTurn() { return block_ == 0 ? Lead() : Follow(); }

  // All threads of the block are done with the turn, and this warp knows it.
  CARILLON_EDGE void EndTurn() {
    port_.Elect([&] {
      if (port_.AddDevice(&entry_.arrived, 1u) + 1 != entry_.blocks) return;
      port_.PutDevice(&entry_.arrived, 0u);
      const simt::EventFrame& frame = *entry_.entry.Frame(0, 0);
      const uint32_t fail_status =
          port_.PeekDevice(&frame.scratch->fail_status);
      port_.PutDevice(&frame.scratch->fail_status, 0u);
      if (frame.life != nullptr) {
        port_.StoreSystem(
            &frame.life->finished_ns,
            port_.NowNs() + static_cast<uint64_t>(frame.clock_offset_ns));
      }
      port_.Complete(
          frame.ecq,
          fail_status == 0 ? shm::EventState::kDone : shm::EventState::kFailed,
          simt::CompletionStatus(fail_status), frame.sequence);
      fail_status == 0
          ? Count(&entry_.totals.done, &entry_.report->totals.done)
          : Count(&entry_.totals.failed, &entry_.report->totals.failed);
      port_.FreeDevice(&entry_.ended_turn, turn_);
    });
  }

 private:
  CARILLON_EDGE bool Lead() {
    for (uint32_t round = 0; port_.Elect([&] {
           return port_.LoadDevice(&entry_.ended_turn);
         }) != turn_;
         ++round) {
      port_.Pause(round);
    }
    for (uint32_t round = 0;; ++round) {
      const Look look = Poll();
      if ((look.command & kPersistentEnd) != 0) {
        port_.Elect(
            [&] { port_.FreeDevice(&entry_.turn, turn_ | kPersistentLeave); });
        return false;
      }
      const auto ahead = static_cast<int32_t>(look.rings - ring_);
      // More than the ring has: the device broke the protocol, and the host
      // will find it so.
      if (ahead < 0 || ahead >= static_cast<int32_t>(entry_.entry.entries)) {
        port_.Pause(round);
        continue;
      }
      port_.AcquirePolled();
      round = 0;
      if (Take(look.command >> 1)) return true;
    }
  }

  CARILLON_EDGE bool Follow() {
    const uint32_t expected = TurnAfter(turn_);
    for (uint32_t round = 0;; ++round) {
      const uint32_t turn =
          port_.Elect([&] { return port_.LoadDevice(&entry_.turn); });
      if ((turn & kPersistentLeave) != 0) return false;
      if (turn == expected) break;
      port_.Pause(round);
    }
    turn_ = expected;
    return true;
  }

  struct Look {
    uint32_t command;
    uint32_t rings;
  };
  // Both words are on their way over PCIe at once.
  CARILLON_EDGE Look Poll() {
    const uint64_t words = port_.Elect([&] {
      const uint32_t command = port_.PollWord(&entry_.control->command);
      const uint32_t rings = port_.PollWord(entry_.doorbell);
      if (++looks_ % kPersistentLooksAReport == 0) {
        port_.StoreSystem(&entry_.report->looks, looks_);
      }
      return uint64_t{command} << 32 | rings;
    });
    return {.command = static_cast<uint32_t>(words >> 32),
            .rings = static_cast<uint32_t>(words)};
  }

  // The rung event: a turn, or a completion at once (false).
  CARILLON_EDGE bool Take(uint32_t tracing) {
    const EdgeEntry& entry = entry_.entry;
    const uint64_t sequence = next_++;
    ++ring_;
    const uint32_t slot = entry.SlotOf(sequence);
    simt::EventFrame* frame = entry.Frame(0, 0);
    port_.Elect([&] { port_.StoreSystem(&entry_.report->taken, sequence); });
    shm::EventStatus status =
        CopyAndCheckEntry(port_, entry, sequence, entry_.copy);
    if (status == shm::EventStatus::kOk) {
      status = BuildArguments(*entry.arguments, slot,
                              entry_.copy + entry.parameter_offset,
                              frame->args(), port_);
    }
    if (status != shm::EventStatus::kOk) {
      port_.Elect([&] {
        if (tracing != 0) StoreLife(port_, &entry.lives[slot], 0, 0);
        port_.Complete(&entry.ecq[slot], shm::EventState::kFailed,
                       static_cast<uint32_t>(status), sequence);
        Count(&entry_.totals.failed, &entry_.report->totals.failed);
        Count(&entry_.totals.refused, &entry_.report->totals.refused);
      });
      return false;
    }
    turn_ = TurnAfter(turn_);
    port_.Elect([&] {
      *frame = simt::EventFrame{.ecq = &entry.ecq[slot],
                                .scratch = &entry.scratch[0],
                                .totals = nullptr,
                                .life = nullptr,
                                .sequence = sequence,
                                .clock_offset_ns = 0,
                                .slot_ended = nullptr,
                                .launcher_ended = nullptr};
      if (tracing != 0) {
        BeginLife(port_, tracing, &entry_.control->clock_offset_ns,
                  &entry.lives[slot], HeaderOf(entry_.copy).rung_ns, *frame);
      }
      port_.FreeDevice(&entry_.turn, turn_);
    });
    return true;
  }

  CARILLON_EDGE void Count(uint64_t* total, uint64_t* reported) {
    const uint64_t now = port_.PeekDevice(total) + 1;
    port_.PutDevice(total, now);
    port_.ReleaseSystem(reported, now);
  }

  CARILLON_EDGE static uint32_t TurnAfter(uint32_t turn) {
    return (turn + 1) & ~kPersistentLeave;
  }

  Port& port_;
  PersistentEntry& entry_;
  const uint32_t block_;
  uint32_t turn_ = 0;
  // The lead's:
  uint64_t next_;
  uint32_t ring_;
  uint64_t looks_ = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PERSISTENT_BLOCK_H_
