// What an SM knows of its warps. It is plain data, so that preemption can
// inspect and drop a warp.
#ifndef CARILLON_SIM_TIMING_WARP_CONTEXT_H_
#define CARILLON_SIM_TIMING_WARP_CONTEXT_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "sim/timing/grid.h"
#include "sim/timing/op_table.h"
#include "sim/timing/scoreboard.h"

namespace carillon::sim::timing {

inline constexpr uint32_t kMaxWarps = 64;  // per SM
// A bit for each warp slot of an SM.
using WarpMask = uint64_t;
constexpr WarpMask BitOf(uint32_t slot) { return WarpMask{1} << slot; }

struct WarpContext {
  Warp* warp = nullptr;
  GridRun* grid = nullptr;
  const OpTiming* operations = nullptr;  // those of its program
  uint32_t block = 0;                    // slot of the SM
  // Changes whenever the slot changes hands, so that operations under way for
  // an earlier warp belong to nobody.
  uint32_t generation = 0;
  uint64_t age = 0;  // smaller is older
  // The i-buffer: `buffered` operations from `head` on.
  Pc head = 0;
  uint8_t buffered = 0;
  Unit head_unit = Unit::kNone;
  // Operations that were issued and still wait for their result, or for
  // memory's acknowledgement; `in_memory` counts those of memory.
  uint32_t in_flight = 0;
  uint32_t in_memory = 0;
  uint32_t idle = 0;  // branches since it last stored or came to a barrier
  Cycle awake = 0;    // when nanosleep ends
  Scoreboard scoreboard;

  // Copies (cp.async) that are under way, and how many the last groups had, the
  // open one first. Groups are those of the warp: lanes that commit apart make
  // more of them.
  static constexpr size_t kGroups = 16;
  uint32_t copies = 0;
  std::array<uint16_t, kGroups> group_copies{};

  // Whether the operation must wait for copies: whether more are under way than
  // the newest groups had. Copies count as done in order.
  bool MustAwaitCopies(const OpTiming& op) const {
    if (op.kind != OpKind::kAwaitCopies || copies == 0) return false;
    if (op.groups == kCopyWaitAll) return true;
    uint32_t newest = 0;
    for (size_t i = 0; i < kGroups && i <= op.groups; ++i) {
      newest += group_copies[i];
    }
    return copies > newest;
  }
  void CommitCopies() {
    std::copy_backward(group_copies.begin(), group_copies.end() - 1,
                       group_copies.end());
    group_copies[0] = 0;
  }
};

struct SmWarps {
  std::array<WarpContext, kMaxWarps> slots;

  WarpMask used = 0;      // have a warp, or something of it under way
  WarpMask running = 0;   // used, and has not exited
  WarpMask buffered = 0;  // the i-buffer has an operation
  WarpMask decoding = 0;  // operations are between i-cache and i-buffer
  WarpMask missing = 0;   // a line of the i-cache is on its way
  WarpMask hazard = 0;    // the head waits for a register,
  WarpMask load = 0;      // the head waits for a register that memory delivers
  WarpMask barrier = 0;
  WarpMask fence = 0;
  WarpMask asleep = 0;
  WarpMask held = 0;    // fetches nothing: it makes room, or has just come back
  WarpMask frozen = 0;  // issues nothing either, as an event runs
  std::array<WarpMask, kUnits> unit{};  // those whose head needs this unit
  std::array<WarpMask, kWarpClasses> of_class{};

  WarpMask waiting() const {
    return hazard | barrier | fence | asleep | frozen;
  }

  // Call it after the i-buffer or the scoreboard changed.
  void UpdateHead(uint32_t slot) {
    WarpContext& context = slots[slot];
    const WarpMask bit = BitOf(slot);
    unit[static_cast<size_t>(context.head_unit)] &= ~bit;
    hazard &= ~bit;
    load &= ~bit;
    if (context.buffered == 0) {
      buffered &= ~bit;
      return;
    }
    buffered |= bit;
    const OpTiming& op = context.operations[context.head];
    context.head_unit = op.unit;
    unit[static_cast<size_t>(op.unit)] |= bit;
    UpdateHazard(slot);
  }
  void UpdateHazard(uint32_t slot) {
    const WarpContext& context = slots[slot];
    const WarpMask bit = BitOf(slot);
    const OpTiming& op = context.operations[context.head];
    Hazard found = context.scoreboard.Check(op);
    if (found == Hazard::kNone && context.MustAwaitCopies(op)) {
      found = Hazard::kLoad;
    }
    hazard = found != Hazard::kNone ? hazard | bit : hazard & ~bit;
    load = found == Hazard::kLoad ? load | bit : load & ~bit;
  }

  void Clear(uint32_t slot) {
    const WarpMask keep = ~BitOf(slot);
    for (WarpMask* mask : {&used, &running, &buffered, &decoding, &missing,
                           &hazard, &load, &barrier, &fence, &asleep, &held}) {
      *mask &= keep;
    }
    for (WarpMask& mask : unit) mask &= keep;
    for (WarpMask& mask : of_class) mask &= keep;
    slots[slot] = {};
    slots[slot].generation = ++generations[slot];
  }

  uint64_t arrivals = 0;
  // The last generation that Clear() gave out. A warp that comes back to its
  // slot has its own generation again.
  std::array<uint32_t, kMaxWarps> generations{};
};
// No warp has this generation.
inline constexpr uint32_t kNoGeneration = ~uint32_t{0};

// Something that is due at an SM.
struct SmEvent {
  enum class Kind : uint8_t {
    kWriteBack,  // arithmetic is done
    kMemory,     // a part of a memory operation
    kAwake,      // nanosleep's end
  };
  Kind kind = Kind::kWriteBack;
  uint8_t slot = 0;
  uint32_t generation = 0;
  uint32_t index = 0;  // Pc, or the memory operation
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_WARP_CONTEXT_H_
