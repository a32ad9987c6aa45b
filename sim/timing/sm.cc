#include "sim/timing/sm.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/exec/functional.h"

namespace carillon::sim::timing {
namespace {

constexpr uint32_t BitOf(Stall stall) {
  return uint32_t{1} << static_cast<uint32_t>(stall);
}

// After so many branches of one warp without a store its lanes may wait for
// each other, so they are made to take turns (Warp::Yield()); and after how
// many more again.
constexpr uint32_t kPatience = 1 << 14;
constexpr uint32_t kTurn = 1 << 8;

// After so many operations without looking for what others do, a warp works.
constexpr uint32_t kWorks = 1 << 10;

// Registers per thread of an interrupt routine (EDGE's thesis, 5.6.1).
constexpr uint32_t kSmallWarp = 8;

constexpr size_t IndexOf(Unit unit) { return static_cast<size_t>(unit); }

}  // namespace

Sm::Sm(const Config& config, uint32_t index, const Memory* memory,
       MemorySystem* memory_system, const Limits& limits, SmSignals* signals)
    : config_(config),
      limits_(limits),
      core_(memory),
      fetch_(config, index, &warps_, memory_system, &counters_),
      lsu_(config, index, memory_system, &events_, &counters_),
      event_warps_(config, index, &warps_, &fetch_, &lsu_, &counters_, this),
      outcomes_(config.scheduler.count, kIdle),
      // Events in victims' places do not use the SM's own block slots.
      blocks_(config.sm.blocks + config.edge.event_warps),
      free_(ContextsOfSm(config)),
      small_warp_{.blocks = 1,
                  .warps = 1,
                  .registers = RegistersOfWarp(kSmallWarp, config)},
      events_first_(config.edge.event_priority >= EventPriority::kP1),
      signals_(*signals) {
  if (config.preemption.technique != PreemptionTechnique::kNone) {
    BlockSwitch::Host* const host = this;
    block_switch_ = std::make_unique<BlockSwitch>(config, index, &warps_,
                                                  &fetch_, &lsu_, host);
  }
  core_.sm = index;
  core_.sms = config.sm.count;
  for (uint32_t i = 0; i < config.scheduler.count; ++i) {
    WarpMask of = 0;
    for (uint32_t slot = i; slot < config.sm.warps;
         slot += config.scheduler.count) {
      of |= timing::BitOf(slot);
    }
    schedulers_.emplace_back(config.scheduler.policy, of);
  }
  unit_count_[IndexOf(Unit::kSp)] = config.units.sp;
  unit_count_[IndexOf(Unit::kDp)] = config.units.dp;
  unit_count_[IndexOf(Unit::kSfu)] = config.units.sfu;
  unit_count_[IndexOf(Unit::kTensor)] = config.units.tensor;
  FreeChanged();
}

void Sm::StartBlock(GridRun* grid, Cycle now) {
  CountUntil(now);
  if (grid->options.event) {
    ++counters_.events_tb_scheduler;
    if (grid->result.dispatched == kNever) {
      grid->result.place = EventPlace::kTbScheduler;
    }
  }
  Start(grid, EventWarps::kNoEntry, {}, grid->contexts, now);
  Wake();
}

void Sm::Start(GridRun* grid, uint32_t entry, std::span<const uint32_t> slots,
               const Contexts& takes, Cycle now) {
  const auto block =
      std::find_if(blocks_.begin(), blocks_.end(),
                   [](const BlockSlot& slot) { return slot.grid == nullptr; });
  if (grid->result.id != last_grid_ && warps_.used == 0) lsu_.Invalidate();
  last_grid_ = grid->result.id;
  free_.Take(takes);
  FreeChanged();
  block->grid = grid;
  block->contexts = takes;
  block->warps = 0;
  block->away = 0;
  block->entry = entry;
  block->started = now;
  if (grid->options.event) {
    events_here_ = true;
    events_use_.Return(takes);
    KeepForEvents();
  }
  Prepare(*grid);
  block->block->Start(grid->launch, grid->TakeBlock(), &core_);
  Observe(Observation::What::kBlockStart, *grid,
          static_cast<uint32_t>(block - blocks_.begin()), now);
  for (uint32_t i = 0; i < block->block->warps(); ++i) {
    StartWarp(*block, i,
              slots.empty()
                  ? static_cast<uint32_t>(std::countr_zero(~warps_.used))
                  : slots[i]);
  }
  ++grid->running;
  if (grid->result.dispatched == kNever) {
    grid->result.dispatched = now;
    grid->result.sm = core_.sm;
  }
  if (block_switch_ != nullptr) {
    block_switch_->BlockStarted(static_cast<uint32_t>(block - blocks_.begin()),
                                now);
  }
}

void Sm::Prepare(const GridRun& grid) {
  // Blocks of other programs may be running, so the table must not shrink.
  most_operations_ =
      std::max(most_operations_, grid.program->operations.size());
  core_.Prepare(*grid.launch.program);
  if (core_.hints.size() < most_operations_) {
    core_.hints.resize(most_operations_, SegmentTable::kNone);
  }
}

void Sm::TakeSegments() {
  const auto any =
      std::find_if(blocks_.begin(), blocks_.end(),
                   [](const BlockSlot& slot) { return slot.grid != nullptr; });
  if (any != blocks_.end()) Prepare(*any->grid);
}

void Sm::StartWarp(BlockSlot& block, uint32_t index, uint32_t slot) {
  const WarpMask bit = timing::BitOf(slot);
  GridRun* const grid = block.grid;
  block.warps |= bit;
  warps_.used |= bit;
  warps_.running |= bit;
  warps_.of_class[static_cast<size_t>(grid->options.warp_class)] |= bit;
  WarpContext& context = warps_.slots[slot];
  context.warp = &block.block->warp(index);
  context.grid = grid;
  context.operations = grid->program->operations.data();
  context.block = static_cast<uint32_t>(&block - blocks_.data());
  context.age = next_age_++;
  ++warps_.arrivals;
  Observe(Observation::What::kWarpStart, *grid, slot, counted_until_);
}

void Sm::Drop(const GridRun* grid, Cycle now) {
  CountUntil(now);
  for (BlockSlot& block : blocks_) {
    if (block.grid != grid) continue;
    const uint32_t entry = block.entry;
    for (WarpMask left = block.warps; left != 0; left &= left - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(left));
      warps_.Clear(slot);
      if (entry != EventWarps::kNoEntry) event_warps_.Vacated(entry, slot);
    }
    EndBlock(block);
  }
  event_warps_.Drop(grid);
  if (block_switch_ != nullptr) block_switch_->Drop(grid, now);
  still_ = false;
  if (events_here_ || block_switch_ != nullptr) Wake();
}

// Call it when all warps have left the block's contexts.
void Sm::EndBlock(BlockSlot& block) {
  if (block_switch_ != nullptr) {
    block_switch_->BlockEnded(static_cast<uint32_t>(&block - blocks_.data()),
                              counted_until_);
  }
  free_.Return(block.contexts);
  FreeChanged();
  if (block.grid->options.event) {
    events_use_.Take(block.contexts);
    KeepForEvents();
  }
  Observe(Observation::What::kBlockEnd, *block.grid,
          static_cast<uint32_t>(&block - blocks_.data()), counted_until_);
  --block.grid->running;
  block.grid = nullptr;
  signals_.ended = true;
  if (block.entry != EventWarps::kNoEntry) event_warps_.BlockEnded(block.entry);
}

void Sm::FreeChanged() {
  const Cycle cycles =
      counted_until_ - std::exchange(free_since_, counted_until_);
  counters_.register_cycles += cycles * registers_used_;
  if (free_context_) counters_.free_context_cycles += cycles;
  registers_used_ = config_.sm.registers - free_.registers;
  // An empty SM is not busy.
  free_context_ = registers_used_ != 0 && free_.Holds(small_warp_);
}

void Sm::Reserve(const Contexts& contexts) {
  reserve_ = contexts;
  KeepForEvents();
}

void Sm::KeepForEvents() {
  const auto rest = [](uint32_t reserved, uint32_t used) {
    return reserved > used ? reserved - used : 0;
  };
  kept_ = {.blocks = rest(reserve_.blocks, events_use_.blocks),
           .warps = rest(reserve_.warps, events_use_.warps),
           .registers = rest(reserve_.registers, events_use_.registers)};
}

void Sm::AcceptEvent(GridRun* grid, Cycle now) {
  CountUntil(now);
  event_warps_.Accept(grid, now);
  events_here_ = true;
  Wake();
}

void Sm::StartEvent(GridRun* grid, uint32_t entry,
                    std::span<const uint32_t> slots, const Contexts& takes,
                    Cycle now) {
  EventPlace place = EventPlace::kPreempted;
  if (slots.empty()) {
    Contexts others = grid->contexts;
    others.Return(kept_);
    place = takes_others_ && free_.Holds(others) ? EventPlace::kFree
                                                 : EventPlace::kReserved;
  }
  ++(place == EventPlace::kPreempted  ? counters_.events_preempting
     : place == EventPlace::kReserved ? counters_.events_reserved
                                      : counters_.events_free);
  if (grid->result.dispatched == kNever) grid->result.place = place;
  Start(grid, entry, slots, takes, now);
  Observe(Observation::What::kEventLaunch, *grid,
          slots.empty() ? Observation::kNowhere : slots[0], now);
}

void Sm::OnVictimLeft(uint32_t slot) {
  BlockSlot& block = blocks_[event_warps_.context(slot).block];
  block.warps &= ~timing::BitOf(slot);
  ++block.away;
}

void Sm::OnVictimBack(uint32_t slot) {
  BlockSlot& block = blocks_[warps_.slots[slot].block];
  block.warps |= timing::BitOf(slot);
  --block.away;
  CheckBarrier(block);
}

void Sm::Vacate(uint32_t slot, Cycle now) {
  BlockSlot& block = blocks_[slot];
  for (WarpMask left = block.warps; left != 0; left &= left - 1) {
    const auto warp = static_cast<uint32_t>(std::countr_zero(left));
    warps_.Clear(warp);
    Observe(Observation::What::kWarpEnd, *block.grid, warp, now);
  }
  Observe(Observation::What::kBlockEnd, *block.grid, slot, now);
  free_.Return(block.contexts);
  block.grid = nullptr;
  block.warps = 0;
  OnFreeChanged();
}

void Sm::Occupied(uint32_t slot, Cycle now) {
  BlockSlot& block = blocks_[slot];
  free_.Take(block.contexts);
  OnFreeChanged();
  last_grid_ = block.grid->result.id;
  block.block->WakeReleased();
  ReleaseBarriers(block);
  Observe(Observation::What::kBlockStart, *block.grid, slot, now);
  for (WarpMask left = block.warps; left != 0; left &= left - 1) {
    const auto warp = static_cast<uint32_t>(std::countr_zero(left));
    Observe(Observation::What::kWarpStart, *block.grid, warp, now);
    if ((warps_.asleep & timing::BitOf(warp)) == 0) continue;
    events_.Schedule(warps_.slots[warp].awake,
                     {.kind = SmEvent::Kind::kAwake,
                      .slot = static_cast<uint8_t>(warp),
                      .generation = warps_.slots[warp].generation});
  }
}

void Sm::TakeOver(uint32_t entry, const Contexts& contexts) {
  free_.Take(contexts);
  FreeChanged();
  for (BlockSlot& block : blocks_) {
    if (block.grid == nullptr || block.entry != entry) continue;
    block.contexts.Return(contexts);
    events_use_.Return(contexts);
    KeepForEvents();
  }
}

[[gnu::always_inline]] inline void Sm::MemoryDone(
    const MemoryOperation& operation) {
  if (warps_.slots[operation.slot].generation == operation.generation) {
    if (block_switch_ != nullptr) [[unlikely]]
      block_switch_->WroteBack(warps_.slots[operation.slot], operation.pc);
    Finish(operation.slot, operation.pc, true);
  } else if (operation.generation == kBlockGeneration) {
    block_switch_->MemoryDone(operation);
  } else {
    event_warps_.MemoryDone(operation);
  }
}

const Block* Sm::FindWaiting(const GridRun* grid) const {
  for (const BlockSlot& block : blocks_) {
    if (block.grid == grid && block.block->waits()) return block.block.get();
  }
  return block_switch_ == nullptr ? nullptr : block_switch_->FindWaiting(grid);
}

void Sm::Reply(const MemoryRequest& reply, Cycle now) {
  if (reply.kind == RequestKind::kFetch) {
    CountUntil(now);
    Wake();
    fetch_.Fill(reply);
    return;
  }
  lsu_.Reply(reply, now, [&](const MemoryOperation& operation) {
    CountUntil(now);
    Wake();
    MemoryDone(operation);
  });
  if (lsu_.Unblocked(now)) WakeLsu();
}

const SmCounters& Sm::CountersUntil(Cycle until) {
  CountUntil(until);
  FreeChanged();
  return counters_;
}

void Sm::CountUntil(Cycle until) {
  const Cycle cycles = until - std::exchange(counted_until_, until);
  if (cycles == 0 || warps_.used == 0) return;
  counters_.busy_cycles += cycles;
  counters_.warp_cycles +=
      cycles * static_cast<uint64_t>(std::popcount(warps_.running));
  if (events_here_) [[unlikely]]
    event_warps_.Count(cycles);
  for (const uint32_t outcome : outcomes_) {
    if (outcome & kIssued) {
      counters_.issue_cycles += cycles;
    } else if (outcome & kIdle) {
      counters_.idle_cycles += cycles;
    } else {
      counters_.stall_cycles += cycles;
      for (uint32_t left = outcome; left != 0; left &= left - 1) {
        counters_.stalls[static_cast<size_t>(std::countr_zero(left))] += cycles;
      }
    }
  }
}

void Sm::Wake() {
  still_ = false;
  WakeLsu();
}

bool Sm::TickLsuOnly(Cycle now) {
  if (!still_ || events_here_ || events_.MayBeDue(now) ||
      fetch_.next() <= now || unit_free_next_ <= now) {
    return false;
  }
  const bool accepted = lsu_.CanAccept();
  const Cycle lsu_next = lsu_.Advance(now);
  if (lsu_.CanAccept() == accepted) {
    Sleep(now, lsu_next);
    return true;
  }
  return false;
}

void Sm::Tick(Cycle now) {
  if (TickLsuOnly(now)) return;
  CountUntil(now);
  core_.clock = now;
  events_.Advance(now, [&](const SmEvent& event) {
    if (event.kind == SmEvent::Kind::kMemory) {
      const MemoryOperation* const last = lsu_.Part(event.index);
      if (last != nullptr) MemoryDone(*last);
      return;
    }
    if (warps_.slots[event.slot].generation != event.generation) return;
    if (event.kind == SmEvent::Kind::kAwake) {
      warps_.asleep &= ~timing::BitOf(event.slot);
    } else {
      if (block_switch_ != nullptr) [[unlikely]]
        block_switch_->WroteBack(warps_.slots[event.slot], event.index);
      Finish(event.slot, event.index, false);
    }
  });
  fetch_.Deliver(now);
  if (events_here_) [[unlikely]]
    TickEvents(now);
  bool active = false;
  if (block_switch_ != nullptr) [[unlikely]]
    active = TickBlockSwitch(now);
  const Cycle lsu_next = lsu_.Advance(now);
  for (size_t i = 0; i < schedulers_.size(); ++i) {
    outcomes_[i] = Schedule(schedulers_[i], now);
    active |= (outcomes_[i] & kIssued) != 0;
  }
  active |= fetch_.Fetch(now);
  CountUntil(now + 1);
  active |= events_here_ && event_warps_.again();
  still_ = !active;
  if (active) {
    signals_.wakes.Wake(core_.sm);
    return;
  }
  unit_free_next_ = NextUnit(now);
  Sleep(now, lsu_next);
}

// Returns whether it has something to do in the next cycle, whatever else
// happens. What happens later in this cycle makes that one happen as well.
bool Sm::TickBlockSwitch(Cycle now) {
  if (!block_switch_->active()) return false;
  block_switch_->Tick(now);
  return block_switch_->again();
}

void Sm::Sleep(Cycle now, Cycle lsu_next) {
  signals_.wakes.Sleep(core_.sm, std::min({events_.next(now), fetch_.next(),
                                           lsu_next, unit_free_next_}));
}

// When the next unit becomes free that a warp waits for.
Cycle Sm::NextUnit(Cycle now) const {
  Cycle next = kNever;
  for (const uint32_t outcome : outcomes_) {
    if ((outcome & BitOf(Stall::kPipeline)) == 0) continue;
    for (size_t unit = 0; unit < kUnits; ++unit) {
      if ((warps_.unit[unit] & ~warps_.waiting()) == 0) continue;
      for (uint32_t i = 0; i < unit_count_[unit]; ++i) {
        if (unit_free_[unit][i] > now) {
          next = std::min(next, unit_free_[unit][i]);
        }
      }
    }
  }
  return next;
}

void Sm::TickEvents(Cycle now) {
  if (event_warps_.active()) {
    event_warps_.Tick(now);
    FreeChanged();
  }
  const WarpMask events =
      warps_.of_class[static_cast<size_t>(WarpClass::kEvent)];
  if (config_.edge.event_priority == EventPriority::kP3) {
    // At P3, only what makes room for an event may go on beside it.
    const bool freezes =
        (warps_.running & events) != 0 || event_warps_.freezes();
    warps_.frozen = freezes ? ~(events | warps_.held) : 0;
  }
  events_here_ = event_warps_.active() || events != 0;
}

// The warps whose next operation finds its unit free.
WarpMask Sm::Available(Cycle now) const {
  WarpMask available = warps_.unit[IndexOf(Unit::kNone)];
  for (const Unit unit : {Unit::kSp, Unit::kDp, Unit::kSfu, Unit::kTensor}) {
    const size_t index = IndexOf(unit);
    for (uint32_t i = 0; i < unit_count_[index]; ++i) {
      if (unit_free_[index][i] > now) continue;
      available |= warps_.unit[index];
      break;
    }
  }
  if (lsu_.CanAccept()) available |= warps_.unit[IndexOf(Unit::kMemory)];
  return available;
}

// Issue() may end the warp, and a block that starts then may reuse its slot.
// The generation shows it, so that a second issue is still the same warp's.
uint32_t Sm::Schedule(Scheduler& scheduler, Cycle now) {
  const WarpMask mine = warps_.running & scheduler.of();
  const WarpMask able = mine & warps_.buffered & ~warps_.waiting();
  const WarpMask ready = able != 0 ? able & Available(now) : 0;
  if (ready != 0) {
    const uint32_t slot = scheduler.Choose(ready, warps_);
    const uint32_t generation = warps_.slots[slot].generation;
    Issue(slot, now);
    for (uint32_t i = 1; i < config_.scheduler.width; ++i) {
      const WarpMask again =
          warps_.running & warps_.buffered & ~warps_.waiting() & Available(now);
      if ((again >> slot & 1) == 0 ||
          warps_.slots[slot].generation != generation) {
        break;
      }
      Issue(slot, now);
    }
    return kIssued;
  }
  if (mine == 0) return kIdle;
  const auto stall = [&](WarpMask warps, Stall why) {
    return (mine & warps) != 0 ? BitOf(why) : 0;
  };
  const WarpMask empty =
      ~warps_.buffered & ~warps_.barrier & ~warps_.fence & ~warps_.asleep;
  return stall(able, Stall::kPipeline) |
         stall(warps_.hazard & ~warps_.load, Stall::kScoreboard) |
         stall(warps_.load, Stall::kLoad) |
         stall(empty & warps_.missing, Stall::kInstructionCache) |
         stall(empty & ~warps_.missing, Stall::kFetch) |
         stall(warps_.barrier, Stall::kBarrier) |
         stall(warps_.fence, Stall::kMemoryBarrier) |
         stall(warps_.asleep, Stall::kSleep);
}

void Sm::TakeUnit(Unit unit, Cycle until, Cycle now) {
  for (Cycle& free : unit_free_[IndexOf(unit)]) {
    if (free > now) continue;
    free = until;
    return;
  }
}

// Step() executes the operation at once, with all its effects. The rest charges
// its time: it reserves the result's registers until Finish() frees them, and
// drops the i-buffer if the warp has not gone on to the next operation.
void Sm::Issue(uint32_t slot, Cycle now) {
  WarpContext& context = warps_.slots[slot];
  const Pc pc = context.head;
  const OpTiming& op = context.operations[pc];
  GridRun* const grid = context.grid;
  const uint64_t writes = core_.writes;
  const uint64_t releases = core_.releases.total;
  // The warp may be in another function afterwards.
  const uint32_t* const sleep =
      op.kind == OpKind::kSleep ? context.warp->From<uint32_t>(
                                      grid->launch.program->ops[pc].operands[0])
                                : nullptr;
  const LaneMask lanes = context.warp->Step();
  ++counters_.instructions;
  counters_.thread_instructions += static_cast<uint64_t>(std::popcount(lanes));
  ++grid->result.warp_instructions;
  if (core_.attention) [[unlikely]] {
    core_.attention = false;
    if (core_.fault) {
      Fail(grid,
           absl::InternalError(Describe(*grid->launch.program, *core_.fault)));
      core_.fault.reset();
      warps_.running &= ~timing::BitOf(slot);
      return;
    }
    LookedAgain(*grid, context);
  }
  if (block_switch_ != nullptr) [[unlikely]]
    block_switch_->Issued(context, core_.access, lanes != 0);
  ++context.head;
  --context.buffered;
  bool progress = core_.writes != writes;
  if (core_.releases.total != releases) {
    WakeReleased();
  }
  switch (op.unit) {
    case Unit::kMemory:
      ++counters_.memory;
      if (lanes != 0) {
        context.scoreboard.Reserve(op, true);
        ++context.in_flight;
        ++context.in_memory;
        if (op.copies) {
          ++context.copies;
          ++context.group_copies[0];
        }
        lsu_.Issue(slot, context.generation, pc, op, core_.access, now);
        break;
      }
      // The guard was false for all lanes, so the operation goes through the
      // pipeline as arithmetic would.
      [[fallthrough]];
    case Unit::kSp:
    case Unit::kDp:
    case Unit::kSfu:
    case Unit::kTensor:
      if (op.unit != Unit::kMemory) {
        TakeUnit(op.unit, now + op.interval, now);
        ++(op.unit == Unit::kSp    ? counters_.sp
           : op.unit == Unit::kDp  ? counters_.dp
           : op.unit == Unit::kSfu ? counters_.sfu
                                   : counters_.tensor);
      }
      if (op.writes == 0) break;
      context.scoreboard.Reserve(op, false);
      ++context.in_flight;
      events_.Schedule(now + op.latency, {.kind = SmEvent::Kind::kWriteBack,
                                          .slot = static_cast<uint8_t>(slot),
                                          .generation = context.generation,
                                          .index = pc});
      break;
    case Unit::kNone:
      ++counters_.control;
      if (op.kind == OpKind::kCommitCopies) {
        context.CommitCopies();
      } else if (op.kind == OpKind::kFence && context.in_memory != 0) {
        warps_.fence |= timing::BitOf(slot);
      } else if (op.kind == OpKind::kSleep && lanes != 0) {
        const uint64_t nanoseconds = sleep[std::countr_zero(lanes)];
        // PTX ISA 9.7.13.16: at most 1 ms, and it may take up to twice as long.
        const uint64_t cycles = std::min<uint64_t>(nanoseconds, 1'000'000) *
                                config_.clock.core_mhz / 1000;
        warps_.asleep |= timing::BitOf(slot);
        context.awake = now + std::max<uint64_t>(cycles, 1);
        events_.Schedule(context.awake, {.kind = SmEvent::Kind::kAwake,
                                         .slot = static_cast<uint8_t>(slot),
                                         .generation = context.generation});
      }
      break;
  }
  if (op.kind == OpKind::kControl) {
    if (grid->looks != 0 && context.warp->since_look() > kWorks) [[unlikely]] {
      grid->looks = 0;
    }
    if (++context.idle >= kPatience) {
      context.warp->Yield();
      context.idle -= kTurn;
    }
  }
  // After a jump, the i-buffer holds operations that must not execute.
  if (context.warp->pc() != context.head ||
      context.warp->state() == Warp::State::kExited) {
    if (context.buffered != 0) ++counters_.flushes;
    context.buffered = 0;
  }
  if (op.kind == OpKind::kBarrier ||
      context.warp->state() != Warp::State::kReady) {
    progress = true;
    AfterStep(slot);
  }
  if (progress) {
    context.idle = 0;
    grid->looks = 0;
  }
  grid->idle = progress ? 0 : grid->idle + 1;
  if (grid->idle > limits_.idle && limits_.idle != 0) [[unlikely]] {
    Fail(grid, NoProgress(*context.warp, grid->idle));
  }
  if (context.warp == nullptr) return;  // it was the last of its warp
  warps_.UpdateHead(slot);
}

void Sm::LookedAgain(GridRun& grid, WarpContext& context) {
  const bool timed = core_.time_reads != time_reads_;
  time_reads_ = core_.time_reads;
  grid.looks = timed ? 0 : grid.looks + 1;
  if (grid.looks > limits_.looks && limits_.looks != 0) {
    Fail(&grid, NoProgress(*context.warp, grid.idle));
  }
  context.warp->Yield();
}

// Handles a warp that may have exited, come to a barrier, or released others.
void Sm::AfterStep(uint32_t slot) {
  WarpContext& context = warps_.slots[slot];
  const WarpMask bit = timing::BitOf(slot);
  BlockSlot& block = blocks_[context.block];
  if (context.warp->waits()) warps_.barrier |= bit;
  if (context.warp->state() == Warp::State::kExited) warps_.running &= ~bit;
  ReleaseBarriers(block);
  CheckBarrier(block);
  if (context.warp->state() == Warp::State::kExited && context.in_flight == 0) {
    Retire(slot);
  }
}

// Fails the grid if nobody is left who could end the wait.
void Sm::CheckBarrier(BlockSlot& block) {
  const WarpMask live = block.warps & warps_.running;
  if (live == 0 || (live & ~warps_.barrier) != 0 || block.away != 0 ||
      block.block->waits()) {
    return;
  }
  const auto first = static_cast<uint32_t>(std::countr_zero(live));
  Fail(block.grid, WaitsForEver(*warps_.slots[first].warp));
}

void Sm::ReleaseThreads(Cycle now) {
  CountUntil(now);
  core_.releases.Release(0);
  WakeReleased();
  Wake();
}

void Sm::WakeReleased() {
  for (BlockSlot& block : blocks_) {
    if (block.grid == nullptr) continue;
    block.block->WakeReleased();
    ReleaseBarriers(block);
  }
  if (block_switch_ != nullptr) block_switch_->WakeReleased();
}

void Sm::ReleaseBarriers(BlockSlot& block) {
  for (WarpMask left = block.warps & warps_.barrier; left != 0;
       left &= left - 1) {
    const auto slot = static_cast<uint32_t>(std::countr_zero(left));
    if (warps_.slots[slot].warp->waits()) continue;
    warps_.barrier &= ~timing::BitOf(slot);
  }
}

// An operation's result is there, or memory has acknowledged it.
void Sm::Finish(uint32_t slot, Pc pc, bool memory) {
  WarpContext& context = warps_.slots[slot];
  const WarpMask bit = timing::BitOf(slot);
  const OpTiming& op = context.operations[pc];
  context.scoreboard.Release(op);
  if (op.copies) --context.copies;
  --context.in_flight;
  if (memory && --context.in_memory == 0) warps_.fence &= ~bit;
  if (warps_.hazard & bit) warps_.UpdateHazard(slot);
  if (context.in_flight == 0 && context.warp->state() == Warp::State::kExited) {
    Retire(slot);
  }
}

void Sm::Retire(uint32_t slot) {
  BlockSlot& block = blocks_[warps_.slots[slot].block];
  warps_.Clear(slot);
  block.warps &= ~timing::BitOf(slot);
  Observe(Observation::What::kWarpEnd, *block.grid, slot, counted_until_);
  if (block.entry != EventWarps::kNoEntry) {
    event_warps_.Vacated(block.entry, slot);
  }
  if (block.warps != 0 || block.away != 0) return;
  ++counters_.blocks;
  ++block.grid->result.blocks;
  EndBlock(block);
}

void Sm::Fail(GridRun* grid, absl::Status status) {
  if (!grid->failed()) grid->result.status = std::move(status);
  signals_.ended = true;
}

}  // namespace carillon::sim::timing
