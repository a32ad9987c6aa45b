// What an event kernel on a GPU is launched with: its arguments, and where its
// last thread block stores the completion (EDGE III-D: the completion is the
// kernel's own epilogue). For CPU and GPU code.
//
//   frame     one per launch in flight; whoever launches the kernel writes it
//   scratch   one per frame, in device memory: what the blocks of a grid of
//             several have in common
//   totals    one per EKT entry, in device memory: the GPU's side of the ledger
#ifndef CARILLON_KERNELS_SIMT_EVENT_FRAME_H_
#define CARILLON_KERNELS_SIMT_EVENT_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "kernels/simt/types.h"
#include "shm/layout.h"

namespace carillon::simt {

// Always in device memory, because over PCIe a GPU has no atomics on host
// memory. Both words are 0 when a launch begins; the last block clears them. A
// grid of one block leaves them alone. Writers of both as one word of 64 bits: the
// last thread of every block.
struct alignas(8) EventScratch {
  uint32_t fail_status;   // the first block's that failed
  uint32_t blocks_ended;  // counted with acquire and release, device scope
};
static_assert(sizeof(EventScratch) == 8);

// Counted in device memory. rung = launched + refused and not yet completed.
struct EventTotals {
  uint64_t launched;
  uint64_t done;
  uint64_t failed;   // with the refused
  uint64_t refused;  // bad entries
};
static_assert(sizeof(EventTotals) == 32);

//   0     8         16       24     32         40             48           56
//   +-----+---------+--------+------+----------+--------------+------------+---
//   | ecq | scratch | totals | life | sequence | clock offset | slot ended | L
//   +-----+---------+--------+------+----------+--------------+------------+---
//   L: launcher ended; 64: the arguments, as in KernelInfo::params
//
// Does not change from the launch to the completion, and may change from then on.
struct alignas(16) EventFrame {
  // The ECQ entry of this sequence. nullptr: the entry was refused and has
  // completed, so there is nothing to run.
  shm::EcqEntry* ecq;
  EventScratch* scratch;  // in device memory
  // nullptr: counted by the CPU. Written after the completion.
  EventTotals* totals;
  shm::EventLife* life;  // nullptr: not traced
  uint64_t sequence;
  // Added to the GPU's global timer to make it CLOCK_MONOTONIC.
  int64_t clock_offset_ns;
  // Both are in device memory and written before the completion; nullptr: not
  // needed.
  uint64_t* slot_ended;      // receives the sequence: the slot is free again
  uint32_t* launcher_ended;  // counts the launcher's events that have ended

  CARILLON_HOST_DEVICE std::byte* args() {
    return reinterpret_cast<std::byte*>(this + 1);
  }
};
static_assert(sizeof(EventFrame) == 64);
static_assert(offsetof(EventFrame, sequence) == 32);

// Which blocks of a grid a launch by the CPU runs: the launch's own grid is a box
// of the whole one, which the kernel's threads see. A launch of all of it begins
// at block 0 of a grid like its own.
struct GridPart {
  Dim3 first{0, 0, 0};  // the box's first block
  Dim3 grid;            // the whole
};
static_assert(sizeof(GridPart) == 24);

// How far a launch of persistent blocks has come, in device memory. Zeros when it
// begins; its last block clears it. Writers and readers: the resident blocks.
struct BlocksTaken {
  // From BlockSupply::first on, and how often none was left: by one addition for
  // each block. Whoever sees the host's stop makes it the grid's count.
  uint64_t taken = 0;
  // 1 more than `taken` was then; 0: nobody has seen it.
  uint64_t stopped = 0;
  uint32_t arrived =
      0;  // resident blocks: the second one watches the host's word
  uint32_t reserved = 0;
};
static_assert(sizeof(BlocksTaken) == 24);

// From what a launch of persistent blocks takes the blocks of a grid (policy ptb):
// each resident block takes the next number and runs that block, until none is left
// or the host wants the GPU back. A block that was taken has run when the launch
// ends, so what is left is a range.
struct BlockSupply {
  Dim3 grid;  // the whole
  uint32_t reserved = 0;
  uint64_t first = 0;  // the block of the grid to begin with
  BlocksTaken* taken = nullptr;
  // The host's memory. Other than 0: nobody takes any more. Writer: the host;
  // reader: one of the resident blocks, all the time.
  const uint32_t* stop = nullptr;
  // The host's memory. Writer: the launch's last block, before its completion;
  // reader: the host, behind that. The first block that has not run, or their
  // number.
  uint64_t* ended = nullptr;
};
static_assert(sizeof(BlockSupply) == 48);

// Of a block's shared memory, what a kernel that completes its event takes for
// itself at most.
inline constexpr uint32_t kEventSharedBytes = 256;

// Bytes of a frame with its arguments, a multiple of 16.
CARILLON_HOST_DEVICE constexpr uint64_t EventFrameBytes(uint32_t args_size) {
  return sizeof(EventFrame) + (uint64_t{args_size} + 15) / 16 * 16;
}

}  // namespace carillon::simt

#endif  // CARILLON_KERNELS_SIMT_EVENT_FRAME_H_
