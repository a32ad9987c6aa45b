// Takes whole thread blocks out of an SM and brings them back (PEP 3.3;
// Chimera's switch and flush).
//
//   runs --Stop--> stopping --empty--> saving --> runs         a base checkpoint
//                                            '--> away         a switch
//   away --there is room--> restoring --> runs
//   runs --Flush--> gone; its grid starts it again
//
// A block that is stopped fetches nothing, what it had fetched is dropped, and
// it is saved once nothing of it is under way. Its context goes to memory in
// lines of 128 bytes by the LSU, as all its other stores do: a register of a
// warp, or 128 bytes of shared memory, or a warp's control state. Blocks that
// are saved together are sent one after the other.
#ifndef CARILLON_SIM_TIMING_PREEMPT_BLOCK_SWITCH_H_
#define CARILLON_SIM_TIMING_PREEMPT_BLOCK_SWITCH_H_

#include <array>
#include <cstdint>
#include <vector>

#include "sim/timing/block_slot.h"
#include "sim/timing/instruction_fetch.h"
#include "sim/timing/memory/lsu.h"
#include "sim/timing/preempt/register_set.h"
#include "sim/timing/warp_context.h"

namespace carillon::sim::timing {

// A block's name on its SM, from its start to its end.
using BlockSerial = uint64_t;

// What of a block was saved where, in lines of 128 bytes.
struct SavedLines {
  uint64_t base = 0;
  uint64_t incremental = 0;  // to memory
  uint64_t in_place = 0;     // to free registers and shared memory
  // Lines of shared memory in the incremental checkpoint by either rule of
  // preemption.shared_lines, whichever is in force.
  uint64_t shared_written = 0;
  uint64_t shared_whole = 0;
};

class BlockSwitch {
 public:
  // What it needs of its SM.
  class Host {
   public:
    virtual std::vector<BlockSlot>& blocks() = 0;
    virtual Contexts& free() = 0;
    // Whether blocks that are no events may take so much of it.
    virtual bool HasRoom(const Contexts& contexts) const = 0;
    // Something will happen here now.
    virtual void Touch(Cycle now) = 0;
    // The block's warps have left their slots. Its contexts become free.
    virtual void Vacate(uint32_t slot, Cycle now) = 0;
    // A block is back in that slot, and has its contexts.
    virtual void Occupied(uint32_t slot, Cycle now) = 0;
    // What is free has changed.
    virtual void OnFreeChanged() = 0;

   protected:
    ~Host() = default;
  };
  enum class Way : uint8_t { kSwitched, kFlushed, kEnded, kDropped };
  struct Tracked;
  // Who decides what is preempted.
  class Client {
   public:
    // The block's context is saved. Returns whether it leaves now.
    virtual bool OnSaved(uint32_t sm, const Tracked& tracked, Cycle now) = 0;
    // The block is no longer on the SM.
    virtual void OnLeft(uint32_t sm, const BlockSlot& block,
                        const Tracked& tracked, Way way, Cycle now) = 0;
    // One that was switched out runs again.
    virtual void OnRestored(uint32_t sm, const Tracked& tracked, Cycle now) = 0;
    virtual void OnStarted(uint32_t sm, uint32_t slot, Cycle now) = 0;
    // The block has issued as many operations as NotifyAt() said.
    virtual void OnInstructions(uint32_t sm, uint32_t slot, Cycle now) = 0;

   protected:
    ~Client() = default;
  };

  enum class Stage : uint8_t {
    kRuns,
    kStopping,
    kSaving,
    kRestoring,
  };

  struct Tracked {
    BlockSerial serial = 0;
    Stage stage = Stage::kRuns;
    bool dirty_only = false;
    // It is saved on top of a base checkpoint.
    bool incremental = false;
    uint32_t registers = 1;  // that a thread uses
    uint64_t instructions = 0;
    uint64_t notify_at = ~uint64_t{0};
    // It did what others may have seen, so it cannot be flushed.
    bool visible = false;
    // It was saved since it started or came back.
    bool has_base = false;
    WarpMask held = 0;  // its warps that were stopped, by their slots
    Cycle stopped = 0;
    Cycle base_cycles = 0;  // for which the base checkpoint stopped it
    Cycle incremental_cycles = 0;
    SavedLines saved;
    uint32_t area = 0;  // counts from 1: where in memory it is saved
    uint64_t area_lines = 0;
    // The checkpoint or the return that is under way:
    uint32_t token = 0;
    uint64_t first = 0;  // line of its area
    uint64_t to_move = 0;
    uint64_t moving = 0;
    Cycle on_chip_until = 0;
    std::vector<uint64_t> shared_written;      // bits, one for 128 bytes
    std::array<RegisterSet, kMaxWarps> dirty;  // by the warp's index
    std::array<RegisterSet, kMaxWarps> base;
    Contexts in_place_contexts;
  };

  BlockSwitch(const Config& config, uint32_t sm, SmWarps* warps,
              InstructionFetch* fetch, Lsu* lsu, Host* host);
  void set_client(Client* client) { client_ = client; }

  // --- Who may run here.

  // While it is set, no block of another grid starts or comes back here, except
  // for grids of a higher priority. nullptr: none is favored.
  void Favor(const GridRun* grid, Cycle now);
  const GridRun* favored() const { return favored_; }
  // While it is closed, none of the favored grid does so either.
  void Close() { closed_ = true; }
  void Open(Cycle now);
  bool Allows(const GridRun& grid) const;

  // --- Commands. The block must be on the SM and run, or be stopped.

  const Tracked& tracked(uint32_t slot) const { return tracked_[slot]; }
  // kNoSlot: it is not on the SM.
  static constexpr uint32_t kNoSlot = ~uint32_t{0};
  uint32_t SlotOf(BlockSerial block) const;
  // How many lines Save() would save now.
  uint64_t LinesOf(uint32_t slot, bool dirty_only) const;
  enum class Checkpoint : uint8_t {
    kBase,         // also again, on top of an earlier one
    kIncremental,  // a kernel waits for it; the only one, if there is no base
  };
  // Saves the block; Client::OnSaved() says whether it then leaves or goes on.
  // `in_place_limit`: the free contexts that may keep incremental checkpoints.
  void Save(uint32_t slot, Checkpoint checkpoint, bool dirty_only,
            const Contexts& in_place_limit, Cycle now);
  bool CanFlush(uint32_t slot) const { return !tracked_[slot].visible; }
  // Removes the block; its grid starts it again from its beginning.
  void Flush(uint32_t slot, Cycle now);
  void NotifyAt(uint32_t slot, uint64_t instructions) {
    tracked_[slot].notify_at = instructions;
  }
  // Whether a block is being saved or restored.
  bool busy() const;
  size_t away() const { return away_.size(); }
  bool HasAway(const GridRun* grid) const;

  // --- For the SM.

  bool active() const { return active_; }
  void Tick(Cycle now);
  bool again() const { return again_ || look_; }
  void BlockStarted(uint32_t slot, Cycle now);
  // All of its warps have ended or were dropped.
  void BlockEnded(uint32_t slot, Cycle now);
  // The warp has issued the operation at its head.
  void Issued(const WarpContext& context, const Access& access, bool any_lane);
  void WroteBack(const WarpContext& context, Pc pc);
  void MemoryDone(const MemoryOperation& operation);
  // The grid has ended. Its blocks that are here are dropped by the SM.
  void Drop(const GridRun* grid, Cycle now);
  // Wait-release barriers.
  void WakeReleased();
  const Block* FindWaiting(const GridRun* grid) const;
  // Nothing is left of any block.
  bool idle() const;

 private:
  struct Away {
    BlockSlot block;
    Tracked tracked;
    std::vector<WarpContext> warps;
    WarpMask asleep = 0;  // bit i: warps[i]
    Cycle left = 0;
  };

  // Stops warps of the block that EDGE's events have not stopped. Returns
  // whether all are, and nothing of them is under way.
  bool Stop(uint32_t slot);
  void BeginSaving(uint32_t slot, Cycle now);
  // Takes free contexts for as many of the lines as there is room for.
  uint64_t KeepOnChip(Tracked& tracked, const Contexts& limit, uint64_t lines);
  void Saved(uint32_t slot, Cycle now);
  // Whether one of the grid's may start or come back here.
  bool Admits(const GridRun& grid) const;
  void Leave(uint32_t slot, Cycle now);
  void GoOn(uint32_t slot, Cycle now);
  void ComeBack(Cycle now);
  void Restored(uint32_t slot, Cycle now);
  uint64_t AddressOf(const Tracked& tracked, uint64_t line) const;
  void MoveLine(Tracked& tracked, bool store, Cycle now);
  // Gives back what the block has in memory and on the SM.
  void Forget(Tracked& tracked);
  Contexts InPlace() const;

  const Config& config_;
  const uint32_t sm_;
  SmWarps* const warps_;
  InstructionFetch* const fetch_;
  Lsu* const lsu_;
  Host* const host_;
  Client* client_ = nullptr;
  const GridRun* favored_ = nullptr;
  bool closed_ = false;           // only with favored_
  std::vector<Tracked> tracked_;  // by the slot of the SM
  std::vector<Contexts> limits_;  // the same: what may be taken in place
  std::vector<Away> away_;        // in the order in which they left
  std::vector<bool> areas_;       // those in use
  std::vector<uint32_t> notify_;  // slots
  BlockSerial next_serial_ = 1;
  uint32_t next_token_ = 1;
  bool active_ = false;
  bool again_ = false;
  bool look_ = false;  // something has changed that Tick() depends on
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_PREEMPT_BLOCK_SWITCH_H_
