// One event warp of a resident dispatcher: takes the events that are its own,
// checks their entries, runs or launches them. edge_dispatch.h has the whole,
// and the Port that everything here is written for.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_EVENT_WARP_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_EVENT_WARP_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/event/argument_steps.h"
#include "gpu_daemon/event/esq_header_check.h"
#include "kernels/simt/completion_status.h"
#include "kernels/simt/event_frame.h"
#include "shm/layout.h"

namespace carillon::gpud {

// Of a copy that is aligned to 16 bytes.
CARILLON_EDGE shm::EsqEntryHeader HeaderOf(const std::byte* copy) {
  shm::EsqEntryHeader header;
  memcpy(&header, __builtin_assume_aligned(copy, 16), sizeof(header));
  return header;
}

// Copies the entry once, checks the copy, and hands out nothing but the copy. As
// CheckEntry (event/checked_entry.h) on a CPU, less the override, because an
// event kernel that a GPU launches is never modifyable, and less the kernel's
// own checks, which the kernel makes itself.
template <class Port>
CARILLON_EDGE shm::EventStatus CopyAndCheckEntry(Port& port,
                                                 const EdgeEntry& entry,
                                                 uint64_t sequence,
                                                 std::byte* copy) {
  const std::byte* from =
      entry.esq + uint64_t{entry.SlotOf(sequence)} * entry.entry_bytes;
  // Whole words; entries are a multiple of 64 bytes.
  port.CopyEntry(copy, from,
                 (entry.parameter_offset + entry.parameter_bytes + 7) / 8 * 8);
  return CheckEsqHeader(HeaderOf(copy), entry.generation, sequence,
                        /*allowed_flags=*/0);
}

// The first stamps of a life, which are one; or zeros.
template <class Port>
CARILLON_EDGE void StoreLife(Port& port, shm::EventLife* life, uint64_t rung_ns,
                             uint64_t taken_ns) {
  port.StoreSystem(&life->rung_ns, rung_ns);
  port.StoreSystem(&life->seen_ns, taken_ns);
  port.StoreSystem(&life->queued_ns, taken_ns);
  port.StoreSystem(&life->dispatched_ns, taken_ns);
  port.StoreSystem(&life->finished_ns, uint64_t{0});
}

// Of an event that the calling thread has taken, as `tracing` (EdgeTracing) says:
// fills in its life's beginning or clears it, and has `frame` lead to it.
// `offset`: host memory, EdgeControl::clock_offset_ns or its like; read while
// tracing.
template <class Port>
CARILLON_EDGE void BeginLife(Port& port, uint32_t tracing,
                             const int64_t* offset, shm::EventLife* life,
                             uint64_t rung_ns, simt::EventFrame& frame) {
  if (tracing == static_cast<uint32_t>(EdgeTracing::kOff)) return;
  if (tracing == static_cast<uint32_t>(EdgeTracing::kClear)) {
    return StoreLife(port, life, 0, 0);
  }
  frame.life = life;
  frame.clock_offset_ns = static_cast<int64_t>(
      port.LoadSystem(reinterpret_cast<const uint64_t*>(offset)));
  StoreLife(port, life, rung_ns,
            port.NowNs() + static_cast<uint64_t>(frame.clock_offset_ns));
}

template <class Port>
class EdgeEventWarp {
 public:
  CARILLON_EDGE EdgeEventWarp(Port& port, EdgeTable& table, EdgeBlock& block,
                              uint32_t dispatcher, uint32_t event_warp)
      : port_(port),
        table_(table),
        block_(block),
        self_(table.dispatchers[dispatcher]),
        index_(event_warp),
        warp_(port, block, table.pollers + event_warp) {}

  CARILLON_EDGE void Run() {
    EdgePhase phase = warp_.Await(EdgePhase::kServing);
    for (uint32_t idle = 0; phase < EdgePhase::kHalting;
         phase = warp_.phase()) {
      warp_.Note(phase);
      if (ServeAll(phase)) {
        idle = 0;
      } else {
        port_.Pause(idle++);
      }
    }
    warp_.Note(EdgePhase::kHalting);
  }

 private:
  // Both copies of an exec may be retiring for some microseconds. Refused so
  // often in a row, it is rather that launches are used up.
  static constexpr uint32_t kBusyPatience = 64;

  // An event that is being served.
  struct Event {
    EdgeEntry& entry;
    simt::EventTotals& totals;
    uint64_t sequence;
    uint32_t slot;
    const std::byte* parameters;
    shm::EventLife* life;  // nullptr: not traced
  };

  // One event of each entry that has rung for this warp; true if one was taken.
  // Comes back early when the phase has changed.
  CARILLON_EDGE bool ServeAll(EdgePhase phase) {
    bool any = false;
    for (uint32_t line = 0; line < table_.line_count; ++line) {
      EdgeHead* heads = table_.HeadsOf(line, index_);
      uint32_t rung = port_.Ballot([&](uint32_t lane) {
        return MayTake(heads[lane], phase) &&
               Ahead(line, lane, heads[lane]) >= 0;
      });
      for (; rung != 0; rung &= rung - 1) {
        const uint32_t lane = LowestLane(rung);
        any |= Serve(line, lane, heads[lane]);
        if (warp_.phase() != phase) return any;
      }
    }
    return any;
  }

  CARILLON_EDGE static bool MayTake(const EdgeHead& head, EdgePhase phase) {
    return head.next != 0 && (head.flags & kEdgeClosed) == 0 &&
           ((head.flags & kEdgeInline) != 0 || phase == EdgePhase::kServing);
  }

  // How many events after the head's own have rung; below 0: it has not. Right
  // across the doorbell's overflow.
  CARILLON_EDGE int32_t Ahead(uint32_t line, uint32_t lane,
                              const EdgeHead& head) {
    int32_t ahead = -1;
    for (uint32_t poller = 0; poller < table_.pollers; ++poller) {
      const auto by_this = static_cast<int32_t>(
          port_.LoadBlock(&block_.published[poller][line][lane]) - head.ring);
      if (poller == 0 || by_this > ahead) ahead = by_this;
    }
    return ahead;
  }

  // True: the head has moved on.
  CARILLON_EDGE bool Serve(uint32_t line, uint32_t lane, EdgeHead& head) {
    const uint32_t index = line * kEdgeLanes + lane;
    const bool inlined = (head.flags & kEdgeInline) != 0;
    if (!inlined && !TakeLaunch()) return false;

    EdgeEntry& entry = table_.entries[index];
    Event event = {.entry = entry,
                   .totals = table_.totals[index],
                   .sequence = head.next,
                   .slot = entry.SlotOf(head.next),
                   .parameters = block_.copies[index_] + entry.parameter_offset,
                   .life = nullptr};
    // The entry's way over PCIe is longer than this load's.
    const uint64_t ended =
        port_.Elect([&] { return port_.PeekDevice(&entry.ended[event.slot]); });
    const shm::EventStatus status =
        CopyAndCheckEntry(port_, entry, event.sequence, block_.copies[index_]);
    const auto ahead = static_cast<uint32_t>(
        port_.Elect([&] { return Ahead(line, lane, head); }));
    if (ended != event.sequence - entry.entries || ahead >= entry.entries) {
      if (!inlined) GiveLaunchBack();
      Close(head, index);
      return false;
    }
    StampTaken(event);
    const bool taken =
        inlined ? RunOrRefuse(event, status) : LaunchOrRefuse(event, status);
    if (taken) Advance(head);
    return taken;
  }

  // The device rang for more events than it has free slots.
  CARILLON_EDGE void Close(EdgeHead& head, uint32_t index) {
    port_.Elect([&] {
      head.flags |= kEdgeClosed;
      port_.StoreSystem(&table_.report->violations[index], 1u);
    });
  }

  CARILLON_EDGE void Advance(EdgeHead& head) {
    port_.Elect([&] {
      head.next += table_.event_warps;
      head.ring += table_.event_warps;
    });
  }

  // --- Run by this warp.

  CARILLON_EDGE bool RunOrRefuse(Event& event, shm::EventStatus status) {
    std::byte* args = block_.inline_args[index_];
    if (status == shm::EventStatus::kOk) {
      status = BuildArguments(*event.entry.arguments, event.slot,
                              event.parameters, args, port_);
    }
    if (status != shm::EventStatus::kOk) return Refuse(event, status);
    uint32_t* fail = &block_.inline_fail[index_];
    port_.Elect([&] { return *fail = 0; });
    port_.RunInline(event.entry, args, fail);
    const uint32_t fail_status = port_.Elect([&] { return *fail; });
    port_.Elect([&] {
      if (event.life != nullptr) {
        port_.StoreSystem(&event.life->finished_ns, Now());
      }
      port_.CountDevice(&event.totals.launched, uint64_t{1});
      port_.CountDevice(
          fail_status == 0 ? &event.totals.done : &event.totals.failed,
          uint64_t{1});
      port_.CountDevice(&table_.figures.inlined, uint64_t{1});
    });
    Complete(
        event,
        fail_status == 0 ? shm::EventState::kDone : shm::EventState::kFailed,
        simt::CompletionStatus(fail_status));
    return true;
  }

  CARILLON_EDGE bool Refuse(Event& event, shm::EventStatus status) {
    port_.Elect([&] {
      if (event.life != nullptr) StoreLife(port_, event.life, 0, 0);
      port_.CountDevice(&event.totals.failed, uint64_t{1});
      port_.CountDevice(&event.totals.refused, uint64_t{1});
    });
    Complete(event, shm::EventState::kFailed, static_cast<uint32_t>(status));
    return true;
  }

  CARILLON_EDGE void Complete(Event& event, shm::EventState state,
                              uint32_t status) {
    port_.Elect([&] {
      port_.PutDevice(&event.entry.ended[event.slot], event.sequence);
      port_.Complete(&event.entry.ecq[event.slot], state, status,
                     event.sequence);
    });
  }

  // --- Launched. The caller has taken a launch from the budget; it is given
  // back unless it was used.

  CARILLON_EDGE bool LaunchOrRefuse(Event& event, shm::EventStatus status) {
    const uint32_t first = event.entry.CopyOf(event.sequence);
    if (status == shm::EventStatus::kOk) status = BuildFrame(event, first);
    if (status != shm::EventStatus::kOk) {
      GiveLaunchBack();
      return Refuse(event, status);
    }
    LaunchOutcome outcome = Launch(event, first);
    if (outcome == LaunchOutcome::kBusy) {
      BuildFrame(event, 1 - first);
      outcome = Launch(event, 1 - first);
    }
    if (outcome == LaunchOutcome::kLaunched) {
      busy_in_a_row_ = 0;
      return true;
    }
    GiveLaunchBack();
    if (outcome == LaunchOutcome::kError || ++busy_in_a_row_ >= kBusyPatience) {
      AskForRelay();
    }
    return false;
  }

  CARILLON_EDGE shm::EventStatus BuildFrame(Event& event, uint32_t copy) {
    simt::EventFrame* frame = event.entry.Frame(event.slot, copy);
    port_.Elect([&] {
      *frame = simt::EventFrame{
          .ecq = &event.entry.ecq[event.slot],
          .scratch = &event.entry.scratch[event.slot * 2 + copy],
          .totals = &event.totals,
          .life = event.life,
          .sequence = event.sequence,
          .clock_offset_ns = event.life != nullptr ? ClockOffset() : 0,
          .slot_ended = &event.entry.ended[event.slot],
          .launcher_ended = &self_.ended};
    });
    return BuildArguments(*event.entry.arguments, event.slot, event.parameters,
                          frame->args(), port_);
  }

  CARILLON_EDGE LaunchOutcome Launch(Event& event, uint32_t copy) {
    return port_.Elect([&] {
      uint64_t error = 0;
      // Counted before: the kernel may end at once.
      port_.CountDevice(&event.totals.launched, uint64_t{1});
      const LaunchOutcome outcome =
          port_.Launch(event.entry.execs[event.slot][copy], &error);
      EdgeFigures& figures = table_.figures;
      switch (outcome) {
        case LaunchOutcome::kLaunched:
          port_.CountDevice(&figures.launched, uint64_t{1});
          return outcome;
        case LaunchOutcome::kBusy:
          port_.CountDevice(&figures.busy, uint64_t{1});
          break;
        case LaunchOutcome::kError:
          port_.CountDevice(&figures.launch_errors, uint64_t{1});
          port_.PutDevice(&figures.last_error, error);
          break;
      }
      port_.CountDevice(&event.totals.launched, ~uint64_t{0});  // less one
      return outcome;
    });
  }

  CARILLON_EDGE bool TakeLaunch() {
    const bool within = port_.Elect(
        [&] { return port_.AddBlock(&block_.taken, 1u) < table_.budget; });
    if (within) return true;
    GiveLaunchBack();
    AskForRelay();
    return false;
  }
  CARILLON_EDGE void GiveLaunchBack() {
    port_.Elect([&] { return port_.AddBlock(&block_.taken, ~0u); });
  }
  CARILLON_EDGE void AskForRelay() {
    port_.Elect([&] { port_.StoreBlock(&block_.asks_relay[index_], 1u); });
  }

  // --- Tracing.

  // The first stamps of a life, or its zeros.
  CARILLON_EDGE void StampTaken(Event& event) {
    const auto tracing = static_cast<EdgeTracing>(
        port_.Elect([&] { return port_.LoadBlock(&block_.tracing); }));
    if (tracing == EdgeTracing::kOff) return;
    shm::EventLife* life = &event.entry.lives[event.slot];
    if (tracing == EdgeTracing::kClear) {
      port_.Elect([&] { StoreLife(port_, life, 0, 0); });
      return;
    }
    event.life = life;
    port_.Elect([&] {
      StoreLife(port_, life, HeaderOf(block_.copies[index_]).rung_ns, Now());
    });
  }
  CARILLON_EDGE uint64_t Now() {
    return port_.NowNs() + static_cast<uint64_t>(ClockOffset());
  }
  CARILLON_EDGE int64_t ClockOffset() {
    return static_cast<int64_t>(port_.LoadSystem(
        reinterpret_cast<const uint64_t*>(&table_.control->clock_offset_ns)));
  }

  Port& port_;
  EdgeTable& table_;
  EdgeBlock& block_;
  EdgeDispatcherState& self_;
  const uint32_t index_;
  EdgeWarp<Port> warp_;
  uint32_t busy_in_a_row_ = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_EVENT_WARP_H_
