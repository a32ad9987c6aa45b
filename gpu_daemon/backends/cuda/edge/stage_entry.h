// Launch path `stream_wait`: one warp copies and checks the entry of one event
// and builds the frame of the kernel that follows it in its stream. For CPU and
// GPU code; the Port is edge_dispatch.h's.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_STAGE_ENTRY_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_STAGE_ENTRY_H_

#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_event_warp.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"

namespace carillon::gpud {

// One ring's, in host memory. Writer, but for `staged` and `passed`: the host,
// release; reader: StageEntry, after the wait for the doorbell.
struct alignas(128) StageGate {
  // 1: the host has let the stream go without a ring: there is nothing to run,
  // and nothing completes. Written before the doorbell is moved.
  uint32_t closed;
  uint32_t tracing;         // EdgeTracing
  int64_t clock_offset_ns;  // as EdgeControl's
  // The last sequence for which StageEntry has run. Writer: StageEntry, relaxed;
  // reader: the host.
  uint64_t staged;
  // The last sequence whose wait has ended, its lower half. Writer: the stream
  // itself, behind the wait, whether or not a kernel has room on the GPU; reader:
  // the host.
  uint32_t passed;
  uint32_t padding[25];
};
static_assert(sizeof(StageGate) == 128);
static_assert(offsetof(StageGate, staged) == 16);
static_assert(offsetof(StageGate, passed) == 24);

// Requires that `sequence` was rung, and that the slot's last event has ended
// (the host arms a slot no earlier). Builds the slot's frame 0; a refused event
// completes here, and its frame says that there is nothing to run. `copy`: this
// warp's own, as EdgeBlock::copies. Of `entry` it uses all but execs and the
// inline kernel; `ended` may be nullptr, and so may `totals` (then the host
// counts) and `gate`.
template <class Port>
CARILLON_EDGE void StageEntry(Port& port, const EdgeEntry& entry,
                              simt::EventTotals* totals, StageGate* gate,
                              uint64_t sequence, std::byte* copy) {
  const uint32_t slot = entry.SlotOf(sequence);
  simt::EventFrame* frame = entry.Frame(slot, 0);
  // On its way over PCIe together with the entry.
  typename Port::template Lanes<uint32_t> words;
  if (gate != nullptr) {
    port.PollLine(words, reinterpret_cast<const uint32_t*>(gate));
    port.Elect([&] { port.StoreSystem(&gate->staged, sequence); });
  }
  shm::EventStatus status = CopyAndCheckEntry(port, entry, sequence, copy);
  if (gate != nullptr && port.Value(words, 0) != 0) {
    port.Elect([&] { frame->ecq = nullptr; });
    return;
  }
  if (status == shm::EventStatus::kOk) {
    status = BuildArguments(*entry.arguments, slot,
                            copy + entry.parameter_offset, frame->args(), port);
  }
  const bool refused = status != shm::EventStatus::kOk;
  const uint32_t tracing = gate != nullptr ? port.Value(words, 1) : 0;
  port.Elect([&] {
    uint64_t* ended = entry.ended != nullptr ? &entry.ended[slot] : nullptr;
    *frame = simt::EventFrame{.ecq = refused ? nullptr : &entry.ecq[slot],
                              .scratch = &entry.scratch[slot * 2],
                              .totals = totals,
                              .life = nullptr,
                              .sequence = sequence,
                              .clock_offset_ns = 0,
                              .slot_ended = ended,
                              .launcher_ended = nullptr};
    if (tracing != 0 && refused) StoreLife(port, &entry.lives[slot], 0, 0);
    if (tracing != 0 && !refused) {
      BeginLife(port, tracing, &gate->clock_offset_ns, &entry.lives[slot],
                HeaderOf(copy).rung_ns, *frame);
    }
    if (!refused) {
      if (totals != nullptr) port.CountDevice(&totals->launched, uint64_t{1});
      return;
    }
    if (totals != nullptr) {
      port.CountDevice(&totals->refused, uint64_t{1});
      port.CountDevice(&totals->failed, uint64_t{1});
    }
    if (ended != nullptr) port.PutDevice(ended, sequence);
    port.Complete(&entry.ecq[slot], shm::EventState::kFailed,
                  static_cast<uint32_t>(status), sequence);
  });
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_STAGE_ENTRY_H_
