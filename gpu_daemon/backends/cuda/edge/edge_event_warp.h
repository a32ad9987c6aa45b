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
// CheckEntry (event/checked_entry.h) on a CPU, less the override, which is the
// caller's who allows it (CheckEsqHeader), and less the kernel's own checks, which
// the kernel makes itself.
template <class Port>
CARILLON_EDGE shm::EventStatus CopyAndCheckEntry(Port& port,
                                                 const EdgeEntry& entry,
                                                 uint64_t sequence,
                                                 std::byte* copy,
                                                 uint32_t allowed_flags = 0) {
  const std::byte* from =
      entry.esq + uint64_t{entry.SlotOf(sequence)} * entry.entry_bytes;
  // Whole words; entries are a multiple of 64 bytes.
  port.CopyEntry(copy, from,
                 (entry.parameter_offset + entry.parameter_bytes + 7) / 8 * 8);
  return CheckEsqHeader(HeaderOf(copy), entry.generation, sequence,
                        allowed_flags);
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
        pollers_(table.pollers),
        event_warps_(table.event_warps),
        line_count_(table.line_count),
        budget_(table.budget),
        warp_(port, block, table.pollers + event_warp) {}

  CARILLON_EDGE void Run() {
    EdgePhase phase = warp_.Await(EdgePhase::kServing);
    for (uint32_t idle = 0; phase < EdgePhase::kHalting;
         phase = warp_.phase()) {
      warp_.Note(phase);
      if (ServeOne(phase)) {
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
  // Looks at one ring's next entry, each as long as a read over PCIe, until it is
  // left to the pollers.
  static constexpr uint32_t kHotLooks = 1024;
  // Looks at a doorbell that follows an entry: as long as one read over PCIe.
  static constexpr uint32_t kDoorbellLooks = 32;
  // The words of an entry that say whether all of it is there.
  static constexpr uint32_t kSaysWhole = 3 | 1u << shm::kEntryStampOffset / 8;

  // An event that is being served.
  struct Event {
    const EdgeEntry* entry;
    uint64_t sequence;
    uint32_t slot;
    shm::EcqEntry* ecq;
    EdgeTracing tracing;
    uint64_t exec;            // as Prepare() has read it
    simt::EventFrame* frame;  // nullptr: Prepare() has not been there

    CARILLON_EDGE bool traced() const { return tracing == EdgeTracing::kOn; }
  };

  // The ring that this warp has served last. Its EdgeEntry and, if they fit, its
  // ArgumentSteps are in shared memory.
  struct Ring {
    uint32_t line = 0;
    uint32_t lane = kEdgeLanes;  // none
    EdgeHead* at = nullptr;
    EdgeHead head;  // what is there
    const ArgumentSteps* steps = nullptr;
    bool owns_slots = false;  // a slot's next event is this warp's, too

    CARILLON_EDGE uint32_t index() const { return line * kEdgeLanes + lane; }
  };

  // One event that has rung for this warp; true if one was taken.
  CARILLON_EDGE bool ServeOne(EdgePhase phase) {
    Event event;
    shm::EventStatus status = shm::EventStatus::kOk;
    // Read before what they tell of: what comes in between is seen twice.
    const uint32_t changes = port_.Elect([&] { return Changes(); });
    if (rung_ == 0 && line_ == 0 && !more_ && changes == changes_) {
      if (!AwaitNext(phase, event)) return false;
    } else {
      if (rung_ == 0 && line_ == 0) {
        changes_ = changes;
        more_ = false;
      }
      if (!FindRung(phase, event, status)) return false;
    }
    return Take(event, status);
  }

  // In one lane.
  CARILLON_EDGE uint32_t Changes() {
    uint32_t all = 0;
    for (uint32_t poller = 0; poller < pollers_; ++poller) {
      all += port_.LoadBlock(&block_.changes[poller]);
    }
    return all;
  }

  // The next one on a way over all heads, on which each entry has one event; true:
  // it is read. False: the way is at its end, or the entry was closed.
  CARILLON_EDGE bool FindRung(EdgePhase phase, Event& event,
                              shm::EventStatus& status) {
    while (rung_ == 0) {
      if (line_ == line_count_) {
        line_ = 0;
        return false;
      }
      const uint32_t line = line_++;
      EdgeHead* heads = table_.HeadsOf(line, index_);
      rung_ = port_.Ballot([&](uint32_t lane) {
        return MayTake(heads[lane], phase) &&
               Ahead(line, lane, heads[lane]) >= 0;
      });
      // There may be another one behind it.
      more_ |= rung_ != 0;
    }
    const uint32_t lane = LowestLane(rung_);
    rung_ &= rung_ - 1;
    return ReadRung(line_ - 1, lane, phase, event, status);
  }

  // Looks at the next entry of the ring that was served last, if its next event
  // is this warp's, until that has rung or there is something else to do. The
  // doorbell is left to the pollers, whose read is on its way at the same time: a
  // GPU answers reads of the same 32 bytes of host memory one after the other, so
  // that one more reader would hold up all. So the entry may be older than the
  // doorbell, and each of its halves may be: it is whole if both say the
  // sequence.
  CARILLON_EDGE bool AwaitNext(EdgePhase phase, Event& event) {
    if (looks_ == 0 || !MayTake(ring_.head, phase) || port_.Elect([&] {
          return Ahead(ring_.line, ring_.lane, ring_.head);
        }) != -1) {
      return false;
    }
    typename Port::template Lanes<uint64_t> words{};
    typename Port::template Lanes<uint64_t> ended{};
    event = NextEvent();
    const uint32_t entries = event.entry->entries;
    const bool launched = (ring_.head.flags & kEdgeInline) == 0;
    if (launched) {
      if (!TakeLaunch()) return false;
      PrepareEarly(event);
    }
    const std::byte* from =
        event.entry->esq + uint64_t{event.slot} * event.entry->entry_bytes;
    typename Port::template Lanes<uint32_t> before{};
    port_.EachLane([&](uint32_t lane) { before[lane] = Before(event, lane); });
    std::byte* copy = block_.copies[index_];
    for (bool go_on = true; go_on && looks_ != 0; --looks_) {
      port_.PollEntry(words, from);
      port_.EachLane([&](uint32_t lane) {
        ended[lane] =
            port_.PeekDevice(&event.entry->ended[before[lane] & (entries - 1)]);
      });
      go_on = port_.Elect([&] {
        return port_.LoadBlock(&block_.phase) == static_cast<uint32_t>(phase) &&
               port_.LoadBlock(&block_.tracing) ==
                   static_cast<uint32_t>(event.tracing) &&
               Changes() == changes_;
      });
      // The second word is generation and flags, which are 0. Without branches: this
      // is what an event waits for.
      const uint32_t wrong = port_.Ballot([&](uint32_t lane) {
        const uint64_t wanted =
            lane == 1 ? event.entry->generation : event.sequence;
        const uint32_t looked = kSaysWhole >> lane;
        const uint32_t torn = words[lane] != wanted ? 1 : 0;
        const uint32_t goes_on = HasEnded(ended[lane], before[lane]) ? 0 : 1;
        return ((looked & torn) | goes_on) != 0;
      });
      if (wrong != 0) continue;
      if (!HasRung(entries)) {
        go_on = false;
        continue;
      }
      port_.AcquirePolled();
      port_.EachLane([&](uint32_t lane) {
        if (lane < 8) reinterpret_cast<uint64_t*>(copy)[lane] = words[lane];
      });
      looks_ = kHotLooks;
      return true;
    }
    if (launched) GiveLaunchBack();
    return false;
  }

  // Whether ring_'s next event has rung, of a ring of so many entries: what was
  // read of it may be there some time before its doorbell is. False after as long
  // as a read takes, or if something else has happened.
  CARILLON_EDGE bool HasRung(uint32_t entries) {
    constexpr uint32_t kSomethingElse = 1u << kEdgeMaxPollers;
    for (uint32_t look = 0; look < kDoorbellLooks; ++look) {
      const uint32_t found = port_.Ballot([&](uint32_t lane) {
        if (lane < pollers_) {
          return port_.LoadBlock(
                     &block_.published[lane][ring_.line][ring_.lane]) -
                     ring_.head.ring <
                 entries;
        }
        return lane == kEdgeMaxPollers && Changes() != changes_;
      });
      if ((found & (kSomethingElse - 1)) != 0) return true;
      if (found != 0) return false;
    }
    return false;
  }

  // The event at ring_'s head.
  CARILLON_EDGE Event NextEvent() {
    const EdgeEntry& entry = block_.entries[index_];
    const uint32_t slot = entry.SlotOf(ring_.head.next);
    return {.entry = &entry,
            .sequence = ring_.head.next,
            .slot = slot,
            .ecq = &entry.ecq[slot],
            .tracing = static_cast<EdgeTracing>(
                port_.Elect([&] { return port_.LoadBlock(&block_.tracing); })),
            .exec = 0,
            .frame = nullptr};
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
    for (uint32_t poller = 0; poller < pollers_; ++poller) {
      const auto by_this = static_cast<int32_t>(
          port_.LoadBlock(&block_.published[poller][line][lane]) - head.ring);
      if (poller == 0 || by_this > ahead) ahead = by_this;
    }
    return ahead;
  }

  // False: there is no launch for it, or it was closed.
  CARILLON_EDGE bool ReadRung(uint32_t line, uint32_t lane, EdgePhase phase,
                              Event& event, shm::EventStatus& status) {
    UseRing(line, lane);
    // The phase may have changed since it was found.
    if (!MayTake(ring_.head, phase)) return false;
    const bool inlined = (ring_.head.flags & kEdgeInline) != 0;
    if (!inlined && !TakeLaunch()) return false;

    event = NextEvent();
    // Nobody waits for these before the entry is there, whose way over PCIe is
    // longer.
    typename Port::template Lanes<uint64_t> ended;
    port_.EachLane([&](uint32_t lane) {
      if (lane > 1) return;
      const uint32_t slot = event.entry->SlotOf(Before(event, lane));
      ended[lane] = port_.PeekDevice(&event.entry->ended[slot]);
    });
    status = CopyAndCheckEntry(port_, *event.entry, event.sequence,
                               block_.copies[index_]);
    const auto ahead = static_cast<uint32_t>(
        port_.Elect([&] { return Ahead(line, lane, ring_.head); }));
    const bool slot_is_free = HasEnded(port_.Value(ended, 0), Before(event, 0));
    const bool may_launch = HasEnded(port_.Value(ended, 1), Before(event, 1));
    const bool violates = !slot_is_free || ahead >= event.entry->entries;
    if (!violates && may_launch) return true;
    if (!inlined) GiveLaunchBack();
    if (violates) Close();
    return false;
  }

  // What must have ended before an event is taken: lane 0 has the event before it
  // in its slot, lane 1 that in its launch slot. Sequences' lower halves, as
  // events at a time are never far from each other.
  CARILLON_EDGE static uint32_t Before(const Event& event, uint32_t lane) {
    return static_cast<uint32_t>(event.sequence) -
           (lane == 0 ? event.entry->entries : event.entry->launch_slots);
  }
  CARILLON_EDGE static bool HasEnded(uint64_t slot_says, uint32_t sequence) {
    return static_cast<int32_t>(static_cast<uint32_t>(slot_says) - sequence) >=
           0;
  }

  // From here on the ring is ring_. Its head is this warp's, its entry changes
  // with the next start.
  CARILLON_EDGE void UseRing(uint32_t line, uint32_t lane) {
    const bool other = line != ring_.line || lane != ring_.lane;
    EdgeEntry& entry = block_.entries[index_];
    if (other) {
      ring_.line = line;
      ring_.lane = lane;
      ring_.at = table_.HeadsOf(line, index_) + lane;
      ring_.head = *ring_.at;
      CopyWords(&table_.entries[ring_.index()], &entry, sizeof(entry));
      ring_.owns_slots = entry.entries % event_warps_ == 0;
      ring_.steps = entry.arguments;
      if (ring_.steps->bytes <= kEdgeMaxSharedSteps) {
        std::byte* steps = block_.steps[index_];
        CopyWords(ring_.steps, steps, ring_.steps->bytes);
        ring_.steps = reinterpret_cast<const ArgumentSteps*>(steps);
      }
      if ((entry.flags & kEdgeInline) != 0) {
        CopyWords(ring_.steps->fixed(), block_.inline_args[index_],
                  ring_.steps->args_bytes);
      }
    }
    looks_ = (entry.flags & kEdgeStamped) != 0 ? kHotLooks : 0;
  }
  CARILLON_EDGE void CopyWords(const void* from, void* to, uint32_t bytes) {
    port_.EachLane([&](uint32_t lane) {
      for (uint32_t i = lane; i < bytes / 4; i += kEdgeLanes) {
        static_cast<uint32_t*>(to)[i] = static_cast<const uint32_t*>(from)[i];
      }
    });
  }

  // The event whose entry is in the copy. True: the head has moved on.
  CARILLON_EDGE bool Take(Event& event, shm::EventStatus status) {
    StampTaken(event);
    const bool taken = (ring_.head.flags & kEdgeInline) != 0
                           ? RunOrRefuse(event, status)
                           : LaunchOrRefuse(event, status);
    if (taken) Advance();
    return taken;
  }

  CARILLON_EDGE const std::byte* ParametersOf(const Event& event) const {
    return block_.copies[index_] + event.entry->parameter_offset;
  }
  CARILLON_EDGE static shm::EventLife* LifeOf(const Event& event) {
    return &event.entry->lives[event.slot];
  }
  CARILLON_EDGE static uint64_t* EndedOf(const Event& event) {
    return &event.entry->ended[event.slot];
  }

  // The device rang for more events than it has free slots.
  CARILLON_EDGE void Close() {
    ring_.head.flags |= kEdgeClosed;
    port_.Elect([&] {
      ring_.at->flags = ring_.head.flags;
      port_.StoreSystem(&table_.report->violations[ring_.index()], 1u);
    });
  }

  CARILLON_EDGE void Advance() {
    ring_.head.next += event_warps_;
    ring_.head.ring += event_warps_;
    port_.Elect([&] {
      ring_.at->next = ring_.head.next;
      ring_.at->ring = ring_.head.ring;
    });
  }

  CARILLON_EDGE simt::EventTotals& totals() {
    return table_.totals[ring_.index()];
  }

  // --- Run by this warp.

  CARILLON_EDGE bool RunOrRefuse(Event& event, shm::EventStatus status) {
    std::byte* args = block_.inline_args[index_];
    if (status == shm::EventStatus::kOk) {
      // The rest is there since UseRing().
      status = PlaceArguments(*ring_.steps, event.slot, ParametersOf(event),
                              args, port_);
    }
    if (status != shm::EventStatus::kOk) return Refuse(event, status);
    port_.Elect([&] {
      ShowRun(ring_.index() + 1, static_cast<uint32_t>(event.sequence));
    });
    uint32_t* fail = &block_.inline_fail[index_];  // 0
    port_.RunInline(*event.entry, args, fail);
    port_.Elect([&] {
      const uint32_t fail_status = *fail;
      if (event.traced()) {
        port_.StoreSystem(&LifeOf(event)->finished_ns, Now());
      }
      if (fail_status == 0) {
        Complete(event, shm::EventState::kDone, 0);
      } else {
        *fail = 0;
        Complete(event, shm::EventState::kFailed,
                 simt::CompletionStatus(fail_status));
      }
      // The device waits for none of this.
      ShowRun(0, 0);
      simt::EventTotals& counts = totals();
      port_.CountDevice(&counts.launched, uint64_t{1});
      port_.CountDevice(fail_status == 0 ? &counts.done : &counts.failed,
                        uint64_t{1});
      port_.CountDevice(&table_.figures.inlined, uint64_t{1});
    });
    return true;
  }

  // In one lane.
  CARILLON_EDGE void ShowRun(uint32_t entry, uint32_t sequence) {
    EdgeRun& run = block_.runs[index_];
    if (entry != 0) port_.StoreBlock(&run.sequence, sequence);
    port_.StoreBlock(&run.entry, entry);
  }

  CARILLON_EDGE bool Refuse(Event& event, shm::EventStatus status) {
    port_.Elect([&] {
      if (event.traced()) StoreLife(port_, LifeOf(event), 0, 0);
      Complete(event, shm::EventState::kFailed, static_cast<uint32_t>(status));
      port_.CountDevice(&totals().failed, uint64_t{1});
      port_.CountDevice(&totals().refused, uint64_t{1});
    });
    return true;
  }

  // In one lane.
  CARILLON_EDGE void Complete(Event& event, shm::EventState state,
                              uint32_t status) {
    // Before, for another warp that serves the slot as soon as the device may use
    // it again; this lane itself reads in order.
    if (!ring_.owns_slots) port_.PutDevice(EndedOf(event), event.sequence);
    port_.Complete(event.ecq, state, status, event.sequence);
    if (ring_.owns_slots) port_.PutDevice(EndedOf(event), event.sequence);
  }

  // --- Launched. The caller has taken a launch from the budget; it is given
  // back unless it was used.

  CARILLON_EDGE bool LaunchOrRefuse(Event& event, shm::EventStatus status) {
    if (event.frame == nullptr) Prepare(event);
    if (status == shm::EventStatus::kOk) {
      status = PlaceArguments(*ring_.steps, event.slot, ParametersOf(event),
                              event.frame->args(), port_);
    }
    if (status != shm::EventStatus::kOk) {
      GiveLaunchBack();
      return Refuse(event, status);
    }
    const LaunchOutcome outcome = Launch(event);
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

  // What an event that has not rung needs besides its entry: its device waits for
  // the rest alone. The frame stays as it is if the launch slot's last event may
  // have it: that one had the other frame, unless its exec was busy.
  CARILLON_EDGE void PrepareEarly(Event& event) {
    // Else a launch slot's last event may be another warp's.
    const bool owns_frames = event.entry->launch_slots % event_warps_ == 0;
    if (!owns_frames || event.tracing != EdgeTracing::kOff) return;
    const simt::EventFrame* frame = FrameOf(event);
    const auto last =
        static_cast<uint32_t>(port_.Elect([&] { return frame->sequence; }));
    if (last == Before(event, 1)) return;
    Prepare(event);
  }

  // Its exec, and its frame but for what its entry says.
  CARILLON_EDGE void Prepare(Event& event) {
    simt::EventFrame* const frame = event.frame = FrameOf(event);
    event.exec = port_.Elect([&] {
      const uint32_t slot = event.entry->LaunchSlotOf(event.sequence);
      const uint32_t copy = CopyOf(event);
      *frame = simt::EventFrame{
          .ecq = event.ecq,
          .scratch = &event.entry->scratch[slot * 2 + copy],
          .totals = &totals(),
          .life = event.traced() ? LifeOf(event) : nullptr,
          .sequence = event.sequence,
          .clock_offset_ns = event.traced() ? ClockOffset() : 0,
          .slot_ended = EndedOf(event),
          .launcher_ended = &self_.ended};
      return event.entry->execs[slot][copy];
    });
    CopyWords(ring_.steps->fixed(), frame->args(), ring_.steps->args_bytes);
  }

  // The other one, if the last launch found its exec busy.
  CARILLON_EDGE uint32_t CopyOf(const Event& event) const {
    return (event.entry->CopyOf(event.sequence) + busy_in_a_row_) % 2;
  }
  CARILLON_EDGE simt::EventFrame* FrameOf(const Event& event) const {
    return event.entry->Frame(event.entry->LaunchSlotOf(event.sequence),
                              CopyOf(event));
  }

  CARILLON_EDGE LaunchOutcome Launch(Event& event) {
    return port_.Elect([&] {
      uint64_t error = 0;
      const LaunchOutcome outcome = port_.Launch(event.exec, &error);
      EdgeFigures& figures = table_.figures;
      switch (outcome) {
        case LaunchOutcome::kLaunched:
          // Perhaps after the kernel has counted its end. Who must know whether
          // all have ended asks when this warp has noted that it launches no more.
          port_.CountDevice(&totals().launched, uint64_t{1});
          port_.CountDevice(&figures.launched, uint64_t{1});
          break;
        case LaunchOutcome::kBusy:
          port_.CountDevice(&figures.busy, uint64_t{1});
          break;
        case LaunchOutcome::kError:
          port_.CountDevice(&figures.launch_errors, uint64_t{1});
          port_.PutDevice(&figures.last_error, error);
          break;
      }
      return outcome;
    });
  }

  CARILLON_EDGE bool TakeLaunch() {
    const bool within = port_.Elect(
        [&] { return port_.AddBlock(&block_.taken, 1u) < budget_; });
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
    if (event.tracing == EdgeTracing::kOff) return;
    shm::EventLife* life = LifeOf(event);
    if (event.tracing == EdgeTracing::kClear) {
      port_.Elect([&] { StoreLife(port_, life, 0, 0); });
      return;
    }
    port_.Elect([&] {
      StoreLife(port_, life, HeaderOf(block_.copies[index_]).rung_ns, Now());
    });
  }
  CARILLON_EDGE uint64_t Now() {
    return port_.NowNs() + static_cast<uint64_t>(ClockOffset());
  }
  CARILLON_EDGE int64_t ClockOffset() {
    return static_cast<int64_t>(port_.LoadBlock(&block_.clock_offset_ns));
  }

  Port& port_;
  EdgeTable& table_;
  EdgeBlock& block_;
  EdgeDispatcherState& self_;
  const uint32_t index_;
  // Of the table, which is read past a cache.
  const uint32_t pollers_;
  const uint32_t event_warps_;
  const uint32_t line_count_;
  const uint32_t budget_;
  EdgeWarp<Port> warp_;
  Ring ring_;
  uint32_t line_ = 0;     // the next one on the way over all heads
  uint32_t rung_ = 0;     // lanes of the line before that are left
  uint32_t looks_ = 0;    // at ring_'s next entry, that are left
  uint32_t changes_ = 0;  // EdgeBlock::changes, their sum
  bool more_ = true;      // there may be more without a change
  uint32_t busy_in_a_row_ = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_EVENT_WARP_H_
