// The resident front-end of launch path `edge` (EDGE III, on a stock GPU):
// polls doorbells, takes events, runs or launches them, and hands over to its
// next self when its launches are used up. edge_table.h is its memory.
//
//   one block                                      device memory
//   +------------------------------------------+   +--------+
//   | poller 0 = lead --+                      |<->| token  |<-> other
//   | poller 1 ---------+--> published rings   |   | heads  |    dispatchers
//   |                              |           |   +--------+    (standby)
//   |     event warp 0 .. E-1 <----+           |
//   |       copy entry, check, build arguments |--> graph launch --> kernel
//   |       or run the kernel itself           |--> completion store
//   +------------------------------------------+
//
// Concepts
//   lead        poller 0: besides polling it takes the token, moves the block
//               from phase to phase, reports, and obeys the host.
//   event warp  w of E takes the sequences = w mod E of every entry. Its heads
//               are its own, so an event is taken once, without a lock. A head
//               moves on when its event was launched, run or refused; until
//               then the same sequence is taken again, copied anew.
//   budget      launches that one execution of a graph may make. Who wants one
//               more asks for a relay.
//   relay       no more launches (kInlineOnly), then nothing more at all
//               (kHalting); tail launch of its own graph, token freed. The tail
//               launch begins when all that was launched has ended: until then
//               another dispatcher serves.
//
//   phase   kStandby -> kFirstPoll -> kServing -> kInlineOnly -> kHalting
//               |            +------------+---- by command ----------^
//               +---------------------------------- kLeave ----------^
//   Phases only grow; each has one writer (the lead, release, block scope) and
//   each warp notes the phase that it has seen between two events (release;
//   reader: the lead, acquire). Once all have noted kHalting, the block does
//   nothing any more.
//
// What holds (edge_relay.pml checks it; the test drives this code):
//   Each ring is taken, and by one event warp. Doorbells are counters and heads
//   persist, so a ring that comes between the last poll and the next
//   dispatcher's first one is found by that. Event warp w of the next dispatcher
//   starts after w of this one has noted kHalting, with its last event launched
//   or run to its end: head writes -> note (block) -> token freed (release,
//   device) -> token taken (acquire, device) -> phase (block) -> head reads.
//   Nothing blocks the others: a busy exec, a spent budget, or a device that
//   breaks the protocol costs its own entry a later turn.
//   Somebody is always up, or comes back by itself: a dispatcher goes into its
//   relaunch only if another one waits for the token (and waiting ones stay
//   until kLeave), or if all that it launched has ended. So somebody can always
//   carry out a halt or a trap, whatever kernels do.
//   After kHalt is acknowledged nobody launches: the one that acknowledges it
//   keeps the token.
//
// A slot is used again only if its last event has ended (EdgeEntry::ended): a
// device cannot make the GPU overwrite the frame of a running kernel.
//
// Orders on the way of an event: doorbell, relaxed system load, then an
// acquire-release system fence if it rang; published, release store and acquire
// load of block scope; entry, relaxed system loads; frame, then a release fence
// of device scope, then the launch. The kernel's stores, then a system fence,
// then one 16-byte store into the ECQ.
//
// A Port is one warp. All code here is uniform over its lanes: what lanes could
// find different, as a word that another warp writes, one of them reads for all
// (Elect), or each its own (Ballot). It has
//   Lanes<T>  lanes[i], a value a lane, i its own lane
//   EachLane(f)  Ballot(f)  f(lane) in every lane; warp-synchronous: all see
//                what others wrote before. Ballot: bit i: f(i)
//   Elect(f)     f() in one lane; its value (at most 8 bytes), if any, in all
//   Value(lanes, i)  lane i's value, in all
//   index() count() Sync() Any()   as BuildArguments wants them
//   PollLine(lanes, words)  32 words of host memory: relaxed, system
//   PollEntry(lanes, from)  8 words of host memory, one in each of lanes 0 to 7
//                at least: relaxed, system; each half is as it was at one time
//   AcquirePolled()         acquire fence, system
//   CopyEntry(to, from, n)  n % 8 == 0 bytes of host memory, relaxed, system
//   LoadBlock StoreBlock AddBlock         acquire, release, both: block scope;
//                                         4 bytes, the first two 8 as well
//   LoadDevice FreeDevice TakeDevice      acquire, release, compare-and-swap
//                                         with acquire: device scope
//   PeekDevice PutDevice CountDevice      relaxed load, store, addition
//   StoreSystem(&word, v) LoadSystem      relaxed, host memory
//   ReleaseSystem(&word, v)               release, host memory
//   Complete(&ecq_entry, state, status, sequence)  16 bytes, released to all
//   Launch(exec, &error)    device-scope fence, then fire-and-forget
//   RelaunchSelf(&error)    device-scope fence, then tail launch; false: error
//   RunInline(entry, args, &fail_status)   every lane its thread
//   NowNs() Pause(rounds) Trap()
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_DISPATCH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_DISPATCH_H_

#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_event_warp.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"

namespace carillon::gpud {

// One poller: publishes what the doorbells show. Pollers have a copy of the
// rings each, so that nobody writes another's word.
template <class Port>
class EdgePoller {
 public:
  CARILLON_EDGE EdgePoller(Port& port, EdgeTable& table, EdgeBlock& block,
                           uint32_t poller)
      : port_(port),
        table_(table),
        block_(block),
        poller_(poller),
        pollers_(table.pollers) {}

  // The block's second and further pollers.
  CARILLON_EDGE void Run() {
    EdgeWarp<Port> warp(port_, block_, poller_);
    warp.Await(EdgePhase::kFirstPoll);
    for (EdgePhase phase; (phase = warp.phase()) < EdgePhase::kHalting;) {
      PollLines();
      // After a whole round: the first one is what serving waits for.
      warp.Note(phase);
    }
    warp.Note(EdgePhase::kHalting);
  }

  // One look at every doorbell, several lines' reads on their way at once.
  CARILLON_EDGE void PollLines() {
    typename Port::template Lanes<uint32_t> control;
    PollLines(control, nullptr);
  }
  // The same, and at 32 words more, on their way with the first ones.
  CARILLON_EDGE void PollLines(typename Port::template Lanes<uint32_t>& more,
                               const uint32_t* words) {
    if (words != nullptr) port_.PollLine(more, words);
    for (uint32_t line = 0; line < table_.line_count; line += kBatch) {
      typename Port::template Lanes<uint32_t> rings[kBatch];
      CARILLON_EDGE_UNROLL
      for (uint32_t i = 0; i < kBatch; ++i) {
        if (line + i < table_.line_count) {
          port_.PollLine(rings[i], table_.lines[line + i].doorbells);
        }
      }
      CARILLON_EDGE_UNROLL
      for (uint32_t i = 0; i < kBatch; ++i) {
        if (line + i < table_.line_count) Publish(line + i, rings[i]);
      }
    }
  }

 private:
  static constexpr uint32_t kBatch = 8;

  CARILLON_EDGE void Publish(uint32_t line,
                             typename Port::template Lanes<uint32_t>& rings) {
    uint32_t* published = block_.published[poller_][line];
    const uint32_t rung = port_.Ballot([&](uint32_t lane) {
      return rings[lane] != published[lane];  // this warp's own words
    });
    if (rung == 0) return;
    // What another poller has published, it counts: event warps would look for it
    // twice. Asked before this one publishes, so that not each leaves it to the
    // other.
    const uint32_t news = port_.Ballot([&](uint32_t lane) {
      bool known = (rung >> lane & 1) == 0;
      for (uint32_t other = 0; other < pollers_; ++other) {
        known |= other != poller_ &&
                 port_.LoadBlock(&block_.published[other][line][lane]) ==
                     rings[lane];
      }
      return !known;
    });
    port_.AcquirePolled();
    port_.EachLane([&](uint32_t lane) {
      if ((rung >> lane & 1) != 0) {
        port_.StoreBlock(&published[lane], rings[lane]);
      }
    });
    if (news == 0) return;
    port_.Elect(
        [&] { port_.StoreBlock(&block_.changes[poller_], ++changes_); });
  }

  Port& port_;
  EdgeTable& table_;
  EdgeBlock& block_;
  const uint32_t poller_;
  const uint32_t pollers_;
  uint32_t changes_ = 0;
};

// The lead of a dispatcher's block.
template <class Port>
class EdgeLead {
 public:
  CARILLON_EDGE EdgeLead(Port& port, EdgeTable& table, EdgeBlock& block,
                         uint32_t dispatcher)
      : port_(port),
        table_(table),
        block_(block),
        self_(table.dispatchers[dispatcher]),
        report_(table.report->dispatchers[dispatcher]),
        dispatcher_(dispatcher),
        poller_(port, table, block, 0) {}

  CARILLON_EDGE void Run() {
    CountExecution();
    if (!TakeToken()) {
      Halt();
      return Report(EdgeState::kLeft);
    }
    Serve();
    Halt();
    if (command_ != EdgeCommand::kServe) return LingerAndLeave();
    HandOver();
  }

 private:
  // A look at the control line is a read over PCIe, ten times as long as one at
  // the token, and holds up that of the lead that serves: one in so many. With the
  // doorbells it comes for nothing.
  static constexpr uint32_t kTokenLooks = 64;

  CARILLON_EDGE void CountExecution() {
    const uint64_t executions = port_.Elect([&] {
      port_.PutDevice(&self_.ended, 0u);
      return ++self_.executions;
    });
    port_.Elect([&] { port_.StoreSystem(&report_.executions, executions); });
  }

  // False: kLeave was said first.
  CARILLON_EDGE bool TakeToken() {
    Report(EdgeState::kStandby);
    SetWaiting(1);
    for (uint32_t round = 0;; ++round) {
      if (round % kTokenLooks == 0) Obey();
      if (command_ == EdgeCommand::kLeave) break;
      if (port_.Elect([&] {
            return port_.PeekDevice(&table_.token) == kEdgeTokenFree &&
                   port_.TakeDevice(&table_.token, kEdgeTokenFree,
                                    dispatcher_ + 1);
          })) {
        holds_token_ = true;
        SetWaiting(0);
        return true;
      }
      port_.Pause(round);
    }
    SetWaiting(0);
    return false;
  }

  // Holds the token and polls until there is a reason to halt.
  CARILLON_EDGE void Serve() {
    Obey();
    if (command_ != EdgeCommand::kServe) return;
    SetPhase(EdgePhase::kFirstPoll);
    poller_.PollLines();
    has_polled_ = true;
    while (!AllNoted(EdgePhase::kFirstPoll, 1, table_.pollers)) Obey();
    SetPhase(EdgePhase::kServing);
    Report(EdgeState::kServing);
    for (;;) {
      typename Port::template Lanes<uint32_t> control;
      poller_.PollLines(control, ControlWords());
      Obey(control);
      if (command_ != EdgeCommand::kServe) return;
      if (phase_ == EdgePhase::kServing && RelayAsked()) {
        SetPhase(EdgePhase::kInlineOnly);
        Report(EdgeState::kInlineOnly);
      }
      if (phase_ == EdgePhase::kInlineOnly && MayRelay()) return;
    }
  }

  // Returns when no warp of the block but this one does anything any more.
  CARILLON_EDGE void Halt() {
    SetPhase(EdgePhase::kHalting);
    while (!AllNoted(EdgePhase::kHalting, 1, warps())) {
      Obey();
      port_.Pause(0);
    }
  }

  CARILLON_EDGE void HandOver() {
    Report(EdgeState::kRelaunching);
    const bool relaunched = port_.Elect([&] {
      uint64_t error = 0;
      if (port_.RelaunchSelf(&error)) {
        port_.CountDevice(&table_.figures.relays, uint64_t{1});
        return true;
      }
      port_.PutDevice(&table_.figures.last_error, error);
      port_.CountDevice(&table_.figures.launch_errors, uint64_t{1});
      return false;
    });
    Mirror();
    if (!relaunched) Report(EdgeState::kLost);
    holds_token_ = false;
    port_.Elect([&] { port_.FreeDevice(&table_.token, kEdgeTokenFree); });
  }

  // Keeps the token, so that nobody serves, and stays to carry out a trap.
  CARILLON_EDGE void LingerAndLeave() {
    Mirror();
    Report(EdgeState::kHalted);
    // What all lanes have mirrored is there before.
    port_.Elect([&] { port_.ReleaseSystem(&table_.report->halted, 1u); });
    for (uint32_t round = 0; command_ != EdgeCommand::kLeave; ++round) {
      Obey();
      port_.Pause(round);
    }
    Mirror();
    Report(EdgeState::kLeft);
  }

  // All warps of [first, last) have noted the phase, or a later one.
  CARILLON_EDGE bool AllNoted(EdgePhase phase, uint32_t first, uint32_t last) {
    return port_.Ballot([&](uint32_t lane) {
      return lane >= first && lane < last &&
             port_.LoadBlock(&block_.noted[lane]) <
                 static_cast<uint32_t>(phase);
    }) == 0;
  }

  CARILLON_EDGE bool RelayAsked() {
    return port_.Ballot([&](uint32_t lane) {
      return lane < table_.event_warps &&
             port_.LoadBlock(&block_.asks_relay[lane]) != 0;
    }) != 0;
  }

  CARILLON_EDGE bool MayRelay() {
    // From then on `taken` stands still.
    if (!AllNoted(EdgePhase::kInlineOnly, table_.pollers, warps()))
      return false;
    const bool other_waits = port_.Ballot([&](uint32_t lane) {
      return lane < table_.dispatcher_count && lane != dispatcher_ &&
             port_.LoadDevice(&table_.dispatchers[lane].waiting) != 0;
    }) != 0;
    return other_waits || port_.Elect([&] {
      return port_.LoadBlock(&block_.taken) == port_.LoadDevice(&self_.ended);
    });
  }

  // Reads what the host says; every so often says that it lives.
  CARILLON_EDGE void Obey() {
    typename Port::template Lanes<uint32_t> words;
    port_.PollLine(words, ControlWords());
    Obey(words);
  }
  CARILLON_EDGE const uint32_t* ControlWords() const {
    return reinterpret_cast<const uint32_t*>(table_.control);
  }
  CARILLON_EDGE void Obey(typename Port::template Lanes<uint32_t>& words) {
    if (Word(words, offsetof(EdgeControl, trap)) != 0) port_.Trap();
    // Upwards only: a host that is started again waits until all have left.
    command_ =
        static_cast<EdgeCommand>(Word(words, offsetof(EdgeControl, command)));
    const uint32_t tracing = Word(words, offsetof(EdgeControl, tracing));
    if (tracing != 0) {
      constexpr size_t kOffset = offsetof(EdgeControl, clock_offset_ns);
      const uint64_t offset =
          uint64_t{Word(words, kOffset + 4)} << 32 | Word(words, kOffset);
      port_.Elect([&] { port_.StoreBlock(&block_.clock_offset_ns, offset); });
    }
    if (tracing != tracing_) {
      tracing_ = tracing;
      port_.Elect([&] { port_.StoreBlock(&block_.tracing, tracing); });
    }
    if (rounds_++ % table_.report_every != 0) return;
    port_.Elect(
        [&] { port_.StoreSystem(&report_.heartbeat, uint64_t{++heartbeat_}); });
    if (holds_token_) Mirror();
  }

  CARILLON_EDGE uint32_t Word(typename Port::template Lanes<uint32_t>& words,
                              size_t offset) {
    return port_.Value(words, static_cast<uint32_t>(offset / 4));
  }

  // Copies figures to where the host reads them. Requires the token.
  CARILLON_EDGE void Mirror() {
    for (uint32_t line = 0; line < table_.line_count; ++line) {
      port_.EachLane([&](uint32_t lane) {
        const uint32_t entry = line * kEdgeLanes + lane;
        if (table_.entries[entry].entries == 0) return;
        CopyWords(&table_.totals[entry], &table_.report->totals[entry]);
        if (!has_polled_) return;
        port_.StoreSystem(&table_.report->doorbells[entry],
                          block_.published[0][line][lane]);
      });
    }
    port_.EachLane([&](uint32_t lane) {
      if (lane >= table_.event_warps) return;
      EdgeRun& run = table_.report->runs[lane];
      port_.StoreSystem(&run.entry, port_.LoadBlock(&block_.runs[lane].entry));
      port_.StoreSystem(&run.sequence,
                        port_.LoadBlock(&block_.runs[lane].sequence));
    });
    port_.Elect([&] {
      uint64_t* mirrors = &table_.figures.mirrors;
      port_.PutDevice(mirrors, port_.PeekDevice(mirrors) + 1);
      CopyWords(&table_.figures, &table_.report->figures);
    });
  }
  template <class Figures>
  CARILLON_EDGE void CopyWords(Figures* from, Figures* to) {
    for (uint32_t i = 0; i < sizeof(Figures) / 8; ++i) {
      port_.StoreSystem(
          reinterpret_cast<uint64_t*>(to) + i,
          port_.PeekDevice(reinterpret_cast<uint64_t*>(from) + i));
    }
  }

  CARILLON_EDGE void SetPhase(EdgePhase phase) {
    phase_ = phase;
    port_.Elect(
        [&] { port_.StoreBlock(&block_.phase, static_cast<uint32_t>(phase)); });
  }
  CARILLON_EDGE void SetWaiting(uint32_t waiting) {
    port_.Elect([&] { port_.FreeDevice(&self_.waiting, waiting); });
  }
  CARILLON_EDGE void Report(EdgeState state) {
    port_.Elect([&] {
      port_.ReleaseSystem(&report_.state, static_cast<uint32_t>(state));
    });
  }
  CARILLON_EDGE uint32_t warps() const {
    return table_.pollers + table_.event_warps;
  }

  Port& port_;
  EdgeTable& table_;
  EdgeBlock& block_;
  EdgeDispatcherState& self_;
  EdgeDispatcherReport& report_;
  const uint32_t dispatcher_;
  EdgePoller<Port> poller_;
  EdgePhase phase_ = EdgePhase::kStandby;
  EdgeCommand command_ = EdgeCommand::kServe;
  bool holds_token_ = false;
  bool has_polled_ = false;  // what is published is of this execution
  uint32_t tracing_ = 0;
  uint32_t rounds_ = 0;
  uint64_t heartbeat_ = 0;
};

// What warp `warp` of a dispatcher's block does, from the start of an execution
// to its end. `block` is zeroed, and shared by the block's warps: pollers first,
// then event warps.
template <class Port>
CARILLON_EDGE void RunEdgeDispatcher(Port& port, EdgeTable& table,
                                     EdgeBlock& block, uint32_t dispatcher,
                                     uint32_t warp) {
  if (warp == 0) {
    EdgeLead<Port>(port, table, block, dispatcher).Run();
  } else if (warp < table.pollers) {
    EdgePoller<Port>(port, table, block, warp).Run();
  } else {
    EdgeEventWarp<Port>(port, table, block, dispatcher, warp - table.pollers)
        .Run();
  }
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_DISPATCH_H_
