// Decides which blocks make room for a grid of higher priority, how and when:
// Chimera at the grid's arrival, PEP (DAC'18) from its announcement on.
//
//   Announce --trap--> blocks that outlast the launch get a base checkpoint;
//                      others drain, and what starts after them is looked at
//                      again (cases (c), (d), (e) of PEP's Fig. 3)
//   arrival  --------> blocks with a base: an incremental checkpoint, (a) or
//                      (e); whose base is under way: they leave after it, (b)
//                      or (d); without one: drain or a single checkpoint
//
// The SMs are the first that have enough blocks of lower priority. They belong
// to the grid ("favor" it) until all of its blocks have their places. What was
// switched out comes back to its own SM when there is room, before new blocks.
//
// With preemption.quantum_ns, grids of the highest priority that do not fit
// beside each other take turns by the same means.
#ifndef CARILLON_SIM_TIMING_PREEMPT_PREEMPTION_H_
#define CARILLON_SIM_TIMING_PREEMPT_PREEMPTION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "sim/timing/grid.h"
#include "sim/timing/preempt/block_profiles.h"
#include "sim/timing/preempt/block_switch.h"
#include "sim/timing/sm.h"

namespace carillon::sim::timing {

using AnnouncementId = uint64_t;

// How a block made room, by the cases of PEP's Fig. 3.
enum class PreemptionCase : uint8_t {
  kTwoCheckpoints,       // (a)
  kOneCheckpoint,        // (b); also every switch without a base checkpoint
  kDrain,                // (c)
  kDrainOneCheckpoint,   // (d): the block before it drained
  kDrainTwoCheckpoints,  // (e)
  kFlush,
};
inline constexpr size_t kPreemptionCases = 6;
// "two checkpoints", "drain".
std::string_view NameOf(PreemptionCase preemption_case);

// A block that made room.
struct PreemptedBlock {
  PreemptionCase way = PreemptionCase::kDrain;
  uint32_t sm = 0;
  SavedLines saved;
  // For which it stood still to be saved.
  Cycle base_cycles = 0;
  Cycle incremental_cycles = 0;
  Cycle left = 0;
};

// What room was made for one grid.
struct PreemptionRecord {
  GridId grid = 0;
  Cycle announced = kNever;
  Cycle arrived = 0;       // in the KMU
  Cycle vacated = kNever;  // the last block has left
  uint32_t sms = 0;
  bool slice = false;  // its turn came
  std::vector<PreemptedBlock> blocks;
};

struct PreemptionCounters {
  uint64_t announcements = 0;
  uint64_t launches_lost = 0;   // announced, and did not arrive in time
  uint64_t launches_late = 0;   // arrived after that
  uint64_t launches_early = 0;  // arrived before the trap
  uint64_t launches_fit = 0;    // announced, and found room without preemption
  uint64_t bases = 0;           // base checkpoints
  uint64_t bases_unused = 0;    // of blocks that ended by themselves
  uint64_t ended_stopping = 0;  // blocks that ended while they were stopped
  uint64_t waits = 0;  // SMs that had to finish another preemption first
  uint64_t flushes_refused = 0;  // the block was not idempotent any more
  uint64_t switched = 0;
  uint64_t flushed = 0;
  uint64_t drained = 0;
  uint64_t restored = 0;
  uint64_t slices = 0;
};

class Preemption final : private BlockSwitch::Client {
 public:
  // Both must outlive it.
  Preemption(const Config& config, std::deque<Sm>* sms);

  // The host begins to launch a grid of these blocks.
  AnnouncementId Announce(const Contexts& block, uint64_t blocks,
                          uint32_t priority, Cycle at);
  // Errors: NotFound (no such announcement), FailedPrecondition (another grid
  // has it).
  absl::Status Launch(AnnouncementId announcement, GridRun* grid);
  void SetProfile(const ProgramFunction* kernel, const BlockProfile& profile) {
    profiles_.Set(kernel, profile);
  }
  BlockProfile ProfileOf(const ProgramFunction* kernel) const {
    return profiles_.Of(kernel);
  }

  void Advance(Cycle now, const std::vector<std::unique_ptr<GridRun>>& grids);
  Cycle next(Cycle now) const;
  // The grid has ended.
  void Remove(const GridRun* grid, Cycle now);

  const std::vector<PreemptionRecord>& records() const { return records_; }
  const PreemptionCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kNoRecord = ~size_t{0};
  struct Request {
    uint64_t id = 0;
    Contexts block;
    uint64_t blocks = 0;
    uint32_t priority = 0;
    bool slice = false;  // others of the same priority make room as well
    Cycle announced = kNever;
    Cycle trap = kNever;
    Cycle expires = kNever;
    bool trapped = false;
    bool arrived = false;
    bool over = false;              // another grid has had its turn since
    const GridRun* grid = nullptr;  // once it is submitted
    std::vector<uint32_t> sms;
    std::vector<uint32_t> waiting;  // those of sms that are not free to begin
    size_t record = kNoRecord;
    uint64_t left = 0;  // victims that are still here
  };
  struct Victim {
    uint64_t request = 0;
    bool after_drain = false;
    bool counted = false;  // its leaving is awaited
  };
  using BlockName = std::pair<uint32_t, BlockSerial>;

  // --- BlockSwitch::Client.
  bool OnSaved(uint32_t sm, const BlockSwitch::Tracked& tracked,
               Cycle now) override;
  void OnLeft(uint32_t sm, const BlockSlot& block,
              const BlockSwitch::Tracked& tracked, BlockSwitch::Way way,
              Cycle now) override;
  void OnRestored(uint32_t sm, const BlockSwitch::Tracked& tracked,
                  Cycle now) override;
  void OnStarted(uint32_t sm, uint32_t slot, Cycle now) override;
  void OnInstructions(uint32_t sm, uint32_t slot, Cycle now) override;

  void Trap(Request& request, Cycle now);
  void Expire(const Request& request);
  void Arrive(Request& request, Cycle now);
  void PreemptSm(Request& request, uint32_t sm, Cycle now);
  // It is the index-th of the SM's blocks that make room.
  void PreemptBlock(Request& request, uint32_t sm, uint32_t slot,
                    uint32_t index, Cycle now);
  void Slice(Cycle now, const std::vector<std::unique_ptr<GridRun>>& grids);
  void Finish(Cycle now);
  std::vector<uint32_t> ChooseSms(const Request& request) const;
  bool IsVictim(const Request& request, const BlockSlot& block) const;
  // The SM is being changed for another grid.
  bool IsTaken(const Request& request, uint32_t sm) const;
  // Whether the request waits for a block of the SM.
  bool IsAwaited(uint64_t request, uint32_t sm) const;
  // A block that the request waits for has left, or goes for another.
  void NoLongerAwaited(uint64_t request, Cycle now);
  Request* Find(uint64_t id);
  const std::vector<BlockSlot>& BlocksOf(uint32_t sm) const {
    return std::as_const(sms_[sm]).blocks();
  }
  const Request* AnnouncedOn(uint32_t sm) const;
  void SaveBase(Request& request, uint32_t sm, uint32_t slot, Cycle now);
  void Save(Request& request, uint32_t sm, uint32_t slot, bool dirty_only,
            Cycle now);
  // Estimates of PEP and of Chimera.
  Cycle LeftOf(uint32_t sm, uint32_t slot, Cycle now) const;
  Cycle SwitchTime(const Request& request, uint32_t sm) const;
  Cycle TimeOf(uint64_t lines) const;
  Cycle CyclesOf(uint64_t nanoseconds) const;

  const Config& config_;
  std::deque<Sm>& sms_;
  BlockProfiles profiles_;
  std::deque<Request> requests_;
  std::vector<AnnouncementId> launched_;  // announcements that grids have
  std::map<BlockName, Victim> victims_;
  std::vector<PreemptionRecord> records_;
  PreemptionCounters counters_;
  uint64_t next_id_ = 1;
  Cycle next_arrival_ = kNever;
  Cycle next_slice_ = kNever;
  GridId last_turn_ = 0;
  bool moved_ = false;  // blocks, in the quantum before this one
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_PREEMPT_PREEMPTION_H_
