// An SM's load/store unit. Operations queue up in it; each cycle one line of a
// warp's access enters the L1, or one pass over the banks of shared memory is
// made. It also tracks what is under way beyond.
#ifndef CARILLON_SIM_TIMING_MEMORY_LSU_H_
#define CARILLON_SIM_TIMING_MEMORY_LSU_H_

#include <cstdint>
#include <vector>

#include "sim/timing/event_wheel.h"
#include "sim/timing/growing_queue.h"
#include "sim/timing/memory/cache.h"
#include "sim/timing/memory/coalescer.h"
#include "sim/timing/memory/memory_system.h"
#include "sim/timing/memory/mshr.h"
#include "sim/timing/statistics.h"
#include "sim/timing/warp_context.h"

namespace carillon::sim::timing {

// A memory operation from its issue until all of it is done. To drop one, its
// warp changes generation: what arrives for it then only fills the caches.
struct MemoryOperation {
  uint32_t generation = 0;
  Pc pc = 0;
  uint8_t slot = 0;
  OpKind kind = OpKind::kLoad;
  bool used = false;
  uint32_t parts = 0;  // parts that are not done; the LSU's own work is one
  uint32_t next = 0;   // free one
  uint32_t order = 0;  // counts operations in the order of their issue
};

// What an operation asks of memory, kept while it is under way.
struct MemoryAccess {
  enum class Path : uint8_t { kFixed, kLoad, kStore, kLocalStore, kAtomic };

  Path path = Path::kFixed;
  bool past_l1 = false;
  // For kFixed: the passes, and the latency of the last one.
  uint32_t passes = 0;
  uint32_t latency = 0;
  uint32_t count = 0;  // how many transactions there are
  Transactions transactions;
};

// The MemoryOperation::generation of a register that is saved or restored; no
// warp has this generation.
inline constexpr uint32_t kMoveGeneration = kNoGeneration - 1;
// The same, for what is saved or restored of a whole block.
inline constexpr uint32_t kBlockGeneration = kNoGeneration - 2;

// A load that was given up, to be done again.
struct DroppedLoad {
  Pc pc = 0;
  MemoryAccess::Path path = MemoryAccess::Path::kLoad;
  bool past_l1 = false;
  uint32_t passes = 0;
  uint32_t latency = 0;
  std::vector<Transaction> transactions;
};

class Lsu {
 public:
  Lsu(const Config& config, uint32_t sm, MemorySystem* memory,
      EventWheel<SmEvent>* events, SmCounters* counters);

  bool CanAccept() const {
    return queue_.size() < config_.lsu.queue && free_ != kNone;
  }
  // Takes the operation that Warp::Step() has just done; CanAccept() must be
  // true. It enters the queue `op.latency` cycles from now.
  void Issue(uint32_t slot, uint32_t generation, Pc pc, const OpTiming& op,
             const Access& access, Cycle now);

  // Accesses to these addresses are answered without memory.
  void SetInterruptRegisters(DeviceAddress begin, uint64_t bytes) {
    interrupt_registers_ = begin;
    interrupt_registers_bytes_ = bytes;
  }

  // Gives up a warp's loads, in the order of their issue. Data on its way for
  // them still fills the caches.
  std::vector<DroppedLoad> DropLoads(uint32_t slot, uint32_t generation);
  // Issues a dropped load again; it enters the queue `latency` cycles from now.
  void IssueAgain(uint32_t slot, uint32_t generation, const DroppedLoad& load,
                  uint32_t latency, Cycle now);
  // Saves or restores one register of a warp: 32 words at `address`. The
  // operation has that generation, and `pc` is the caller's.
  void MoveRegister(uint32_t slot, uint64_t address, bool store, Pc pc,
                    Cycle now, uint32_t generation = kMoveGeneration);

  // What a warp has under way:
  struct Outstanding {
    bool loads = false;
    bool atomics = false;
    bool values = false;      // an atomic has a register wait for it
    bool queued = false;      // the LSU has not sent some that is no load
    bool on_the_way = false;  // an operation is not in the LSU's queue yet
  };
  Outstanding OutstandingOf(uint32_t slot, const WarpContext& context,
                            Cycle now) const;

  // Whether the first operation in the queue waits for a reply, or for room, and
  // now has what it waits for. If not, it waits for that from now on.
  bool Unblocked(Cycle now) { return blocked_ != nullptr && MayGoOn(now); }
  // Advances the first operation in the queue. Returns when to ask again;
  // kNever: after an Issue() or a reply.
  Cycle Advance(Cycle now);

  // A part of an operation is done. Returns the operation if that was its last
  // part.
  const MemoryOperation* Part(uint32_t index) {
    MemoryOperation& operation = operations_[index];
    if (--operation.parts != 0) return nullptr;
    operation.used = false;
    operation.next = free_;
    free_ = index;
    return &operation;
  }

  // Handles memory's answer. Calls done(operation) for all that have their last
  // part by it.
  template <class Done>
  void Reply(const MemoryRequest& reply, Cycle now, Done done) {
    switch (reply.kind) {
      case RequestKind::kLoad:
        Fill(reply, now, done);
        return;
      case RequestKind::kStore:
        if (reply.tag == kWriteBack) return;
        [[fallthrough]];
      case RequestKind::kAtomic:
        --stores_;
        if (const MemoryOperation* last = Part(reply.tag)) done(*last);
        return;
      case RequestKind::kFetch:
      case RequestKind::kRoom:
        return;
    }
  }

  // All operations, for preemption; only those with `used` set are under way.
  const std::vector<MemoryOperation>& operations() const { return operations_; }

  // Invalidates everything that an earlier grid left in the L1.
  void Invalidate() { l1_.Clear(); }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kWriteBack = ~uint32_t{0};  // a tag

  using Path = MemoryAccess::Path;

  // A power of two in size, because the index of an element is computed often.
  struct alignas(32) Waiting {
    uint32_t operation = 0;
    uint32_t next = 0;  // transaction
    Cycle ready = 0;
    Cycle done = 0;  // when the last of its hits is done
  };
  struct Waiter {
    uint32_t operation = 0;
    Sectors sectors = 0;
  };

  // Whether a try to go on may end otherwise than the last one did.
  bool MayGoOn(Cycle now) {
    if (filled_) return true;
    if (held_by_ == &counters_->network_full_cycles) {
      return memory_->CanSend(sm_, now);
    }
    return held_by_ == &counters_->stores_full_cycles &&
           StoreHeldBy() == nullptr;
  }
  // Adds an operation at the end of the queue.
  MemoryAccess& Enqueue(uint32_t slot, uint32_t generation, Pc pc, OpKind kind,
                        Cycle ready);
  bool Step(Waiting& waiting, const MemoryAccess& access, Cycle now);
  bool StepLoad(Waiting& waiting, const MemoryAccess& access, Cycle now);
  uint64_t* NextHeldBy(const Waiting& waiting, const MemoryAccess& access);
  // The counter of what holds up a load that misses, with the line's entry in
  // the MSHRs, or a store; nullptr if nothing does.
  uint64_t* LoadHeldBy(uint32_t mshr) const {
    if (mshr == mshrs_.kNone) {
      return mshrs_.full() ? &counters_->mshr_full_cycles : nullptr;
    }
    return mshrs_.CanWait(mshr) ? nullptr : &counters_->merge_full_cycles;
  }
  uint64_t* StoreHeldBy() const {
    return stores_ == config_.lsu.stores ? &counters_->stores_full_cycles
                                         : nullptr;
  }
  // Notes what keeps the line of the first operation from going on. Returns
  // false.
  bool Block(uint64_t* counter, uint64_t line, Cycle now) {
    held_by_ = counter;
    held_line_ = line;
    any_fill_ = counter == &counters_->mshr_full_cycles ||
                counter == &counters_->merge_full_cycles;
    filled_ = false;
    if (blocked_ != nullptr) return false;
    blocked_ = counter;
    blocked_since_ = now;
    return false;
  }
  void SendStore(RequestKind kind, const Transaction& transaction, uint32_t tag,
                 Cycle now);
  void Insert(uint64_t line, Sectors valid, Sectors dirty, Cycle now);
  // Widens a set of L2 sectors to whole sectors of the L1.
  Sectors Widen(Sectors sectors) const { return widened_[sectors]; }

  template <class Done>
  void Fill(const MemoryRequest& reply, Cycle now, Done done) {
    filled_ |= any_fill_ || reply.line == held_line_;
    const auto& entry = mshrs_.entry(reply.tag);
    if (!entry.bypass) Insert(reply.line, reply.sectors, 0, now);
    mshrs_.Fill(reply.tag, reply.sectors, [&](const Waiter& waiter) {
      if (const MemoryOperation* last = Part(waiter.operation)) done(*last);
    });
  }

  const Config& config_;
  const uint32_t sm_;
  MemorySystem* const memory_;
  EventWheel<SmEvent>* const events_;
  SmCounters* const counters_;
  Cache l1_;
  MshrTable<Waiter> mshrs_;
  std::vector<MemoryOperation> operations_;
  std::vector<MemoryAccess> accesses_;  // one for each operation so far
  uint32_t accesses_used_ = 0;
  uint32_t free_ = 0;
  uint32_t next_order_ = 0;
  GrowingQueue<Waiting> queue_;
  uint32_t stores_ = 0;  // stores that memory has not acknowledged
  Cycle port_free_ = 0;
  // Since when the first operation cannot go on, and the counter of such
  // cycles: that of what held it up first, which may not be what does now.
  Cycle blocked_since_ = 0;
  uint64_t* blocked_ = nullptr;
  // What holds it up at present, and its line. A load's reply may end that if it
  // is for this line, or if any_fill_.
  uint64_t* held_by_ = nullptr;
  uint64_t held_line_ = 0;
  bool any_fill_ = false;
  bool filled_ = false;  // such a reply has come
  std::array<Sectors, 256> widened_{};
  DeviceAddress interrupt_registers_ = 0;
  uint64_t interrupt_registers_bytes_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_LSU_H_
