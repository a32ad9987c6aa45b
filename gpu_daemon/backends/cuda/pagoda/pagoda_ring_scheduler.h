// The scheduler warp of an MTB that takes events from doorbells (launch path
// `pagoda_ring`). For CPU and GPU code.
//
//   column 0's scheduler                  the other columns' schedulers
//   reads the doorbells over PCIe
//   words.doorbells ------------------->  see them
//   a ring that has rung: whoever swaps its head takes that event, into a free row
//   of its own column; checks the entry, builds the arguments
//   places its warps (mtb_placer.h) -->  executors; the last warp completes the event
//
// What holds
//   An event is taken once, and only when it will be run or refused: heads are
//   whole. So whoever stops the MTBs knows what was taken.
//   It is taken where all that its first block needs is free, by the ring's own
//   dimensions: so a block that does not end keeps no event from another column.
//   A ring whose turn it is waits for that, but not for ever.
//   No event is taken before all columns are on the GPU: a ring never waits for an
//   MTB that has found no room.
//   A slot's next event is taken when the one before it has ended (EdgeEntry::ended).
//
// Orders: doorbell, relaxed system load, then a system fence, then words.doorbells
// (release, acquire; device) -> the head and the ended slots (relaxed: what a device
// has rung after it saw an end is no older than that end) -> the entry; row and
// record -> exec (mtb_scheduler.h) -> body -> counters (acquire-release, block) ->
// completion -> kFree.
//
// A Port is mtb_scheduler.h's and mtb_crew.h's, with
//   SwapDevice64(&word, from, to)  compare-and-swap, acquire, device; returns what
//     was there
// and edge_dispatch.h's for what is in host memory.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_RING_SCHEDULER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_RING_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_event_warp.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_crew.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_placer.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"
#include "gpu_daemon/event/argument_steps.h"
#include "kernels/simt/completion_status.h"

namespace carillon::gpud {

// In one lane of a task's last warp: the event's epilogue (EDGE III-D).
template <class Port>
CARILLON_EDGE void EndRingTask(Port& port, RingTask& record) {
  const simt::EventFrame& frame = record.frame;
  const uint32_t fail_status = port.PeekDevice(&record.fail_status);
  if (frame.life != nullptr) {
    port.StoreSystem(
        &frame.life->finished_ns,
        port.NowNs() + static_cast<uint64_t>(frame.clock_offset_ns));
  }
  const bool done = fail_status == 0;
  if (frame.slot_ended != nullptr) {
    port.PutDevice(frame.slot_ended, frame.sequence);
  }
  port.Complete(frame.ecq,
                done ? shm::EventState::kDone : shm::EventState::kFailed,
                done ? 0 : simt::CompletionStatus(fail_status), frame.sequence);
  if (frame.totals == nullptr) return;
  port.CountDevice(done ? &frame.totals->done : &frame.totals->failed,
                   uint64_t{1});
}

template <class Port>
class PagodaRingScheduler {
 public:
  // `copy`: of an ESQ entry, kPagodaEntryBytes of the block's shared memory,
  // aligned to 16.
  CARILLON_EDGE PagodaRingScheduler(Port& port, const PagodaRingTable& table,
                                    MtbBlock& block, std::byte* copy,
                                    uint32_t column)
      : port_(port),
        table_(table),
        block_(block),
        copy_(copy),
        column_(column),
        crew_(port, table, block, column),
        placer_(port, table.tasks, block, column) {}

  CARILLON_EDGE void Run() {
    const bool all = crew_.AwaitAll();
    if (all) Serve();
    port_.Elect([&] { port_.StoreBlock(&block_.leave, 1); });
    crew_.AwaitEnd(all);
  }

 private:
  // What one shape of a task is.
  struct Shape {
    simt::Dim3 grid;
    simt::Dim3 block;
    uint32_t shared_bytes;
  };

  CARILLON_EDGE void Serve() {
    port_.EachLane([&](uint32_t lane) {
      doorbells_[lane] = port_.PeekDevice(&table_.words->doorbells[lane]);
      if (lane >= table_.ring_count) return;
      zeros_[lane] = table_.rings[lane].ring_of_zero;
      entries_[lane] = table_.rings[lane].entry.entries;
    });
    port_.AcquirePolled();
    for (uint32_t round = 0;; ++round) {
      const bool more = Look();
      if ((command_ & kPagodaLeave) != 0) return;
      // To take an event takes as long as many looks, and the other columns see
      // what column 0 looks at: it takes some when nothing new rings, and now and
      // then where a device writes its doorbell over and over.
      const bool leaves_it = more && column_ == 0 && table_.tasks.columns > 1 &&
                             looks_ % kPagodaLooksACommand != 0;
      if (leaves_it || TakeOne()) round = 0;
      port_.Pause(round);
    }
  }

  // At the doorbells and the command. True: a doorbell has changed.
  CARILLON_EDGE bool Look() {
    const uint32_t look = looks_++;
    if (column_ != 0) {
      // An acquire empties the SM's L1: only where there is something to see.
      const uint32_t rung = port_.Ballot([&](uint32_t lane) {
        const uint32_t now = port_.PeekDevice(&table_.words->doorbells[lane]);
        const bool changed = now != doorbells_[lane];
        doorbells_[lane] = now;
        return changed;
      });
      if (rung != 0) port_.AcquirePolled();
      // The host's word itself now and then, should column 0 be gone.
      command_ = port_.Elect([&] {
        return looks_ % 1024 == 0 ? crew_.PollCommand()
                                  : port_.PeekDevice(&table_.words->command);
      });
      return rung != 0;
    }
    if (look % kPagodaLooksACommand == 0) {
      const uint32_t command = port_.Elect([&] { return crew_.PollCommand(); });
      if (command != command_) {
        command_ = command;
        port_.Elect([&] { port_.FreeDevice(&table_.words->command, command); });
      }
    }
    const uint32_t rung = port_.Ballot([&](uint32_t lane) {
      if (lane >= table_.ring_count) return false;
      const uint32_t now = port_.PollWord(table_.rings[lane].doorbell);
      const bool changed = now != doorbells_[lane];
      doorbells_[lane] = now;
      return changed;
    });
    if (rung != 0) {
      port_.AcquirePolled();
      port_.EachLane([&](uint32_t lane) {
        if ((rung >> lane & 1) == 0) return;
        port_.FreeDevice(&table_.words->doorbells[lane], doorbells_[lane]);
      });
    }
    if (looks_ % kPagodaLooksAReport == 0) Report();
    return rung != 0;
  }

  CARILLON_EDGE void Report() {
    port_.EachLane([&](uint32_t lane) {
      if (lane >= table_.ring_count) return;
      const PagodaRing& ring = table_.rings[lane];
      if (ring.entry.entries == 0) return;
      PagodaRingReport& report = table_.report->rings[lane];
      // Ended before taken: what is counted has been taken.
      const uint64_t done = port_.PeekDevice(&ring.totals.done);
      const uint64_t failed = port_.PeekDevice(&ring.totals.failed);
      const uint64_t refused = port_.PeekDevice(&ring.totals.refused);
      const uint64_t taken = port_.PeekDevice(&ring.head) - 1;
      port_.StoreSystem(&report.totals.launched, taken - refused);
      port_.StoreSystem(&report.totals.refused, refused);
      port_.StoreSystem(&report.totals.done, done);
      port_.StoreSystem(&report.totals.failed, failed);
      port_.StoreSystem(&report.doorbell, doorbells_[lane]);
      const auto ahead = static_cast<int32_t>(
          doorbells_[lane] - ring.ring_of_zero - static_cast<uint32_t>(taken));
      if (ahead > static_cast<int32_t>(ring.entry.entries)) {
        port_.StoreSystem(&report.violation, 1u);
      }
    });
    port_.Elect([&] {
      port_.StoreSystem(&table_.report->tasks,
                        port_.PeekDevice(&table_.words->tasks));
      port_.StoreSystem(&table_.report->reports, ++reports_);
    });
  }

  // True: look again at once.
  CARILLON_EDGE bool TakeOne() {
    typename Port::template Lanes<uint64_t> heads;
    const uint32_t rung = port_.Ballot([&](uint32_t lane) {
      if (lane >= table_.ring_count) return false;
      heads[lane] = port_.PeekDevice(&table_.rings[lane].head);
      // Not below 0, and no more than the ring has.
      return doorbells_[lane] - zeros_[lane] -
                 static_cast<uint32_t>(heads[lane]) <
             entries_[lane];
    });
    if (rung == 0 || !FindRow()) return false;
    // All rings in turn.
    const uint32_t after = rung & ~((2u << last_) - 1);
    const uint32_t next = LowestLane(after != 0 ? after : rung);
    PagodaRing& ring = table_.rings[next];
    if (!placer_.HasRoom(TaskWarps(ring.block.x * ring.block.y * ring.block.z),
                         ring.sync != 0, ring.shared_bytes)) {
      // Another column may have it; or others' turn comes while it waits.
      if (++kept_ >= kPagodaPatience) {
        kept_ = 0;
        last_ = next;
      }
      return false;
    }
    kept_ = 0;
    last_ = next;
    const uint64_t first = port_.Value(heads, next);
    const uint64_t sequence =
        TakeHead(ring, first,
                 port_.Value(doorbells_, next) - port_.Value(zeros_, next) -
                     static_cast<uint32_t>(first));
    if (sequence == 0) return false;
    Take(ring, sequence);
    return true;
  }

  // The ring's next event, which is this warp's then; `first` was its head before,
  // and so many events behind it have rung, too. 0: others have taken all that
  // this warp has seen ring, or the device has rung for more events than it has
  // free slots.
  CARILLON_EDGE uint64_t TakeHead(PagodaRing& ring, uint64_t first,
                                  uint32_t ahead) {
    const EdgeEntry& entry = ring.entry;
    // Lane l: whether event first + l may be taken.
    const uint32_t may = port_.Ballot([&](uint32_t lane) {
      if (lane > ahead) return false;
      const uint64_t sequence = first + lane;
      const uint64_t ended =
          port_.PeekDevice(&entry.ended[entry.SlotOf(sequence)]);
      return static_cast<int64_t>(ended - (sequence - entry.entries)) >= 0;
    });
    if ((may & 1) == 0) {
      port_.Elect([&] {
        port_.StoreSystem(&table_.report->rings[last_].violation, 1u);
      });
      return 0;
    }
    // All columns come here at the same time, and one swaps first. The others go
    // on from the head that they find: to look anew takes so long that only one of
    // them would take an event in each look.
    return port_.Elect([&] {
      for (uint64_t at = first;;) {
        const uint64_t behind = at - first;
        if (behind >= kEdgeLanes || (may >> behind & 1) == 0) {
          return uint64_t{0};
        }
        const uint64_t head = port_.SwapDevice64(&ring.head, at, at + 1);
        if (head == at) return at;
        at = head;
      }
    });
  }

  CARILLON_EDGE bool FindRow() {
    if (free_rows_ != 0) return true;
    TaskEntry* const column = table_.tasks.Column(column_);
    free_rows_ = port_.Ballot([&](uint32_t lane) {
      return lane < table_.tasks.rows &&
             port_.PollState(&column[lane].state) == TaskState::kFree;
    });
    if (free_rows_ != 0) port_.AcquirePolled();
    return free_rows_ != 0;
  }

  // The event, which is this warp's: a task, or a completion at once.
  CARILLON_EDGE void Take(PagodaRing& ring, uint64_t sequence) {
    const EdgeEntry& entry = ring.entry;
    const uint32_t row = LowestLane(free_rows_);
    const uint32_t slot = entry.SlotOf(sequence);
    TaskEntry& task = table_.tasks.Column(column_)[row];
    RingTask& record =
        table_.records[uint64_t{column_} * table_.tasks.rows + row];
    const uint32_t tracing = command_ >> 1;
    shm::EventStatus status =
        CopyAndCheckEntry(port_, entry, sequence, copy_,
                          ring.modifyable != 0 ? shm::kEsqKmdOverride : 0);
    Shape shape{ring.grid, ring.block, ring.shared_bytes};
    const shm::EsqEntryHeader header = HeaderOf(copy_);
    if (status == shm::EventStatus::kOk &&
        (header.flags & shm::kEsqKmdOverride) != 0) {
      status = OwnShape(ring, shape);
    }
    if (status == shm::EventStatus::kOk) {
      status = BuildArguments(*entry.arguments, slot,
                              copy_ + entry.parameter_offset, task.args, port_);
    }
    if (status != shm::EventStatus::kOk) {
      return Refuse(ring, sequence, status, tracing);
    }
    free_rows_ &= free_rows_ - 1;
    port_.Elect([&] {
      task.kernel = ring.kernel;
      task.blocks = shape.grid.x * shape.grid.y * shape.grid.z;
      task.threads = shape.block.x * shape.block.y * shape.block.z;
      task.shared_bytes = shape.shared_bytes;
      task.sync = ring.sync;
      record.frame = simt::EventFrame{.ecq = &entry.ecq[slot],
                                      .scratch = nullptr,
                                      .totals = &ring.totals,
                                      .life = nullptr,
                                      .sequence = sequence,
                                      .clock_offset_ns = 0,
                                      .slot_ended = &entry.ended[slot],
                                      .launcher_ended = nullptr};
      record.grid = shape.grid;
      record.block = shape.block;
      record.shared_bytes = shape.shared_bytes;
      port_.PutDevice(&record.fail_status, 0u);
      port_.CountDevice(&table_.words->tasks, uint64_t{1});
      if (tracing != 0) {
        BeginLife(port_, tracing, &table_.control->clock_offset_ns,
                  &entry.lives[slot], header.rung_ns, record.frame);
      }
    });
    placer_.Begin(row);
    for (uint32_t round = 0; !placer_.Step(); ++round) {
      Look();
      port_.Pause(round);
    }
  }

  // The dimensions in the copy; kBadKmd: no MTB holds them.
  CARILLON_EDGE shm::EventStatus OwnShape(const PagodaRing& ring,
                                          Shape& shape) {
    shm::KmdOverride own;
    memcpy(&own,
           __builtin_assume_aligned(copy_ + sizeof(shm::EsqEntryHeader), 16),
           sizeof(own));
    const uint64_t most_threads =
        uint64_t{table_.tasks.executors} * simt::kWarpSize;
    const uint64_t blocks = Product(own.grid, kTaskMaxBlocks);
    const uint64_t threads = Product(own.block, most_threads);
    const bool fits =
        blocks != 0 && blocks <= kTaskMaxBlocks && threads != 0 &&
        threads <= most_threads && own.block[2] <= 64 &&
        own.shared_bytes <= kTaskSharedBytes - ring.static_shared_bytes &&
        MeetsInWholeWarps(ring.sync != 0, static_cast<uint32_t>(threads));
    if (!fits) return shm::EventStatus::kBadKmd;
    shape = {{own.grid[0], own.grid[1], own.grid[2]},
             {own.block[0], own.block[1], own.block[2]},
             own.shared_bytes + ring.static_shared_bytes};
    return shm::EventStatus::kOk;
  }
  // 0 if one of the factors is above `most`.
  CARILLON_EDGE static uint64_t Product(const uint32_t (&sizes)[3],
                                        uint64_t most) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < 3; ++i) {
      if (sizes[i] > most) return 0;
      product *= sizes[i];
    }
    return product;
  }

  CARILLON_EDGE void Refuse(PagodaRing& ring, uint64_t sequence,
                            shm::EventStatus status, uint32_t tracing) {
    const EdgeEntry& entry = ring.entry;
    const uint32_t slot = entry.SlotOf(sequence);
    port_.Elect([&] {
      if (tracing != 0) StoreLife(port_, &entry.lives[slot], 0, 0);
      port_.PutDevice(&entry.ended[slot], sequence);
      port_.Complete(&entry.ecq[slot], shm::EventState::kFailed,
                     static_cast<uint32_t>(status), sequence);
      port_.CountDevice(&ring.totals.failed, uint64_t{1});
      port_.CountDevice(&ring.totals.refused, uint64_t{1});
    });
  }

  Port& port_;
  const PagodaRingTable& table_;
  MtbBlock& block_;
  std::byte* const copy_;
  const uint32_t column_;
  MtbCrew<Port> crew_;
  MtbPlacer<Port> placer_;
  typename Port::template Lanes<uint32_t> doorbells_;
  // Each lane's ring's: PagodaRing::ring_of_zero, EdgeEntry::entries.
  typename Port::template Lanes<uint32_t> zeros_;
  typename Port::template Lanes<uint32_t> entries_;
  uint32_t command_ = ~0u;  // none yet: the first is passed on
  uint32_t looks_ = 0;
  uint64_t reports_ = 0;
  uint32_t free_rows_ = 0;
  uint32_t last_ = 0;  // the ring that was served last
  uint32_t kept_ = 0;  // looks for which the turn of the next one was kept
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_RING_SCHEDULER_H_
