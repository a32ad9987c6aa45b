#include "sim/timing/edge/victims.h"

#include <algorithm>
#include <bit>
#include <compare>

namespace carillon::sim::timing {
namespace {

constexpr FlushWaits BitOfWait(FlushWait wait) {
  return FlushWaits{1} << static_cast<uint32_t>(wait);
}

// Where the registers of a slot's warp are saved. Only caches see this address,
// so it just must not collide with others.
constexpr uint64_t SaveArea(uint32_t sm, uint32_t slot, uint32_t which) {
  return uint64_t{1} << 61 | uint64_t{sm} << 40 | uint64_t{slot} << 32 |
         uint64_t{which} * kLanes * 4;
}

// Identifies a move of registers when memory answers.
constexpr Pc NameOfMove(uint32_t turn, bool load) {
  return turn << 1 | (load ? 1 : 0);
}

}  // namespace

Victims::Victims(const Config& config, uint32_t sm, SmWarps* warps,
                 InstructionFetch* fetch, Lsu* lsu, SmCounters* counters)
    : config_(config),
      sm_(sm),
      warps_(warps),
      fetch_(fetch),
      lsu_(lsu),
      counters_(counters),
      away_(config.sm.warps) {}

std::vector<uint32_t> Victims::Candidates(Cycle now) const {
  struct Candidate {
    bool waits = false;
    uint32_t loads = 0;
    uint64_t age = 0;
    uint32_t slot = 0;

    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> candidates;
  const VictimPolicy policy = config_.edge.victim;
  if (policy == VictimPolicy::kReserved) return {};
  for (WarpMask left = warps_->running & ~warps_->held; left != 0;
       left &= left - 1) {
    const auto slot = static_cast<uint32_t>(std::countr_zero(left));
    const WarpContext& context = warps_->slots[slot];
    if (context.grid->options.event || context.grid->failed()) continue;
    if (policy == VictimPolicy::kDedicated && slot != 0) continue;
    Candidate candidate{.age = context.age, .slot = slot};
    if (policy == VictimPolicy::kNewest) candidate.age = ~candidate.age;
    if (policy == VictimPolicy::kBest) {
      bool again = false;
      candidate.waits = WaitsOf(slot, now, &again) != 0;
      candidate.loads = context.in_memory;
    }
    candidates.push_back(candidate);
  }
  std::ranges::sort(candidates);
  std::vector<uint32_t> slots;
  for (const Candidate& candidate : candidates) {
    slots.push_back(candidate.slot);
  }
  return slots;
}

void Victims::Stop(uint32_t slot) {
  const WarpMask bit = BitOf(slot);
  warps_->held |= bit;
  if (config_.edge.flush_i_buffer != 0) {
    warps_->slots[slot].buffered = 0;
    fetch_->Forget(slot);
    warps_->UpdateHead(slot);
  }
  if (config_.edge.victim_priority != 0) {
    for (WarpMask& mask : warps_->of_class) mask &= ~bit;
    warps_->of_class[static_cast<size_t>(WarpClass::kVictim)] |= bit;
  }
}

void Victims::Continue(uint32_t slot) {
  const WarpMask bit = BitOf(slot);
  warps_->held &= ~bit;
  for (WarpMask& mask : warps_->of_class) mask &= ~bit;
  const WarpClass own = warps_->slots[slot].grid->options.warp_class;
  warps_->of_class[static_cast<size_t>(own)] |= bit;
}

FlushWaits Victims::WaitsOf(uint32_t slot, Cycle now, bool* again) const {
  const WarpContext& context = warps_->slots[slot];
  const WarpMask bit = BitOf(slot);
  const bool replay = config_.edge.replay_loads != 0;
  Lsu::Outstanding memory;
  if (context.in_memory != 0) memory = lsu_->OutstandingOf(slot, context, now);
  const bool computes = context.in_flight != context.in_memory;
  const bool decoded = config_.edge.flush_i_buffer == 0 &&
                       ((warps_->buffered | warps_->decoding) & bit) != 0;
  // A load that has left the issue pipeline can be dropped and replayed.
  const bool loads = memory.loads && !replay;
  *again |= memory.on_the_way;
  FlushWaits waits = 0;
  const auto wait = [&](bool does, FlushWait why) {
    if (does) waits |= BitOfWait(why);
  };
  wait(computes || decoded || memory.queued || memory.atomics ||
           memory.on_the_way,
       FlushWait::kPipeline);
  wait(computes || memory.values || loads, FlushWait::kScoreboard);
  wait(loads, FlushWait::kLoad);
  wait((warps_->missing & bit) != 0, FlushWait::kInstructionCache);
  // An operation that was decoded behind the barrier cannot issue, so the
  // i-buffer would never become empty.
  wait((warps_->barrier & bit) != 0 &&
           (config_.edge.skip_barriers == 0 || decoded),
       FlushWait::kBarrier);
  wait((warps_->fence & bit) != 0, FlushWait::kMemoryBarrier);
  return waits;
}

void Victims::Leave(uint32_t slot) {
  Away& away = away_[slot];
  const WarpMask bit = BitOf(slot);
  WarpContext& context = warps_->slots[slot];
  away = {.state = State::kAway, .turn = away.turn + 1};
  // The registers stay pending, since nothing reads them before the replay.
  away.loads = lsu_->DropLoads(slot, context.generation);
  const auto dropped = static_cast<uint32_t>(away.loads.size());
  context.in_flight -= dropped;
  context.in_memory -= dropped;
  counters_->loads_dropped += dropped;
  counters_->barriers_skipped += (warps_->barrier & bit) != 0;
  ++counters_->preemptions;
  away.context = context;
  away.asleep = (warps_->asleep & bit) != 0;
  warps_->Clear(slot);
  warps_->used |= bit;
}

void Victims::SaveRegister(uint32_t slot, uint32_t which, Cycle now) {
  ++counters_->registers_saved;
  lsu_->MoveRegister(slot, SaveArea(sm_, slot, which), true,
                     NameOfMove(away_[slot].turn, false), now);
}

void Victims::LoadRegister(uint32_t slot, Cycle now) {
  Away& away = away_[slot];
  ++counters_->registers_restored;
  ++away.loading;
  lsu_->MoveRegister(slot, SaveArea(sm_, slot, --away.to_load), false,
                     NameOfMove(away.turn, true), now);
}

void Victims::ComeBack(uint32_t slot, uint32_t registers) {
  warps_->used |= BitOf(slot);
  away_[slot].state = State::kRegisters;
  away_[slot].to_load = registers;
  coming_ |= BitOf(slot);
}

Victims::Owner Victims::Forget(uint32_t slot) {
  const State state = away_[slot].state;
  away_[slot] = {.turn = away_[slot].turn + 1};
  coming_ &= ~BitOf(slot);
  return state == State::kAway        ? Owner::kEvent
         : state == State::kRegisters ? Owner::kNobody
                                      : Owner::kVictim;
}

void Victims::Place(uint32_t slot, Cycle now) {
  Away& away = away_[slot];
  const WarpMask bit = BitOf(slot);
  WarpContext& context = warps_->slots[slot];
  context = away.context;
  context.buffered = 0;
  warps_->running |= bit;
  warps_->held |= bit;
  warps_->of_class[static_cast<size_t>(context.grid->options.warp_class)] |=
      bit;
  // While the warp was away, the others may have come to the barrier, and its
  // time to sleep may have passed.
  if (context.warp->waits()) warps_->barrier |= bit;
  if (away.asleep && context.awake > now) warps_->asleep |= bit;
  away.state = State::kLoads;
  ++warps_->arrivals;
}

void Victims::Replay(uint32_t slot, Cycle now) {
  Away& away = away_[slot];
  WarpContext& context = warps_->slots[slot];
  const DroppedLoad& load = away.loads[away.replayed++];
  ++context.in_flight;
  ++context.in_memory;
  ++counters_->loads_replayed;
  lsu_->IssueAgain(slot, context.generation, load,
                   context.operations[load.pc].latency, now);
}

bool Victims::again() const {
  for (WarpMask left = coming_; left != 0; left &= left - 1) {
    const Away& away = away_[static_cast<size_t>(std::countr_zero(left))];
    if (away.state == State::kLoads || away.to_load != 0 || away.loading == 0) {
      return true;
    }
  }
  return false;
}

void Victims::MemoryDone(const MemoryOperation& operation) {
  Away& away = away_[operation.slot];
  if (operation.generation == kMoveGeneration) {
    if (operation.pc == NameOfMove(away.turn, true)) --away.loading;
    return;
  }
  if (away.state == State::kHere || away.state == State::kLoads ||
      away.context.generation != operation.generation) {
    return;
  }
  // It was a store, since loads were dropped; no register waits for it.
  --away.context.in_flight;
  --away.context.in_memory;
}

}  // namespace carillon::sim::timing
