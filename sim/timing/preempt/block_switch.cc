#include "sim/timing/preempt/block_switch.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace carillon::sim::timing {
namespace {

constexpr uint32_t kLineBytes = kLanes * 4;

// The most lines that all of an SM's blocks have together.
uint64_t LinesOfSm(const Config& config) {
  return config.sm.registers / kLanes + config.sm.shared_bytes / kLineBytes +
         uint64_t{config.sm.warps} * config.preemption.control_lines;
}

uint32_t RoundUp(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

uint32_t RegistersOf(const BlockSlot& block) {
  return block.contexts.registers / block.contexts.warps / kLanes;
}

uint64_t CountBits(const std::vector<uint64_t>& words) {
  uint64_t count = 0;
  for (const uint64_t word : words) {
    count += static_cast<uint64_t>(std::popcount(word));
  }
  return count;
}

template <class F>
void ForEachWarp(WarpMask warps, F f) {
  for (; warps != 0; warps &= warps - 1) {
    f(static_cast<uint32_t>(std::countr_zero(warps)));
  }
}

}  // namespace

BlockSwitch::BlockSwitch(const Config& config, uint32_t sm, SmWarps* warps,
                         InstructionFetch* fetch, Lsu* lsu, Host* host)
    : config_(config),
      sm_(sm),
      warps_(warps),
      fetch_(fetch),
      lsu_(lsu),
      host_(host),
      tracked_(host->blocks().size()),
      limits_(host->blocks().size()) {}

void BlockSwitch::Favor(const GridRun* grid, Cycle now) {
  if (favored_ == grid) return;
  favored_ = grid;
  Open(now);
}

void BlockSwitch::Open(Cycle now) {
  closed_ = false;
  look_ = true;
  host_->OnFreeChanged();
  if (active_) host_->Touch(now);
}

bool BlockSwitch::Admits(const GridRun& grid) const {
  if (favored_ == nullptr || (favored_ == &grid && !closed_)) return true;
  return grid.options.priority > favored_->options.priority;
}

bool BlockSwitch::Allows(const GridRun& grid) const {
  if (!Admits(grid)) return false;
  const uint32_t priority = grid.options.priority;
  // Blocks that were here come back before new ones start.
  for (const Away& away : away_) {
    if (away.block.grid->options.priority < priority) continue;
    if (favored_ == nullptr || favored_ == away.block.grid) return false;
  }
  return true;
}

uint32_t BlockSwitch::SlotOf(BlockSerial block) const {
  for (uint32_t slot = 0; slot < tracked_.size(); ++slot) {
    if (tracked_[slot].serial == block &&
        host_->blocks()[slot].grid != nullptr) {
      return slot;
    }
  }
  return kNoSlot;
}

uint64_t BlockSwitch::LinesOf(uint32_t slot, bool dirty_only) const {
  const BlockSlot& block = host_->blocks()[slot];
  const Tracked& tracked = tracked_[slot];
  uint64_t lines = 0;
  ForEachWarp(block.warps, [&](uint32_t warp) {
    const uint32_t all = RegistersOf(block);
    const uint32_t index = warps_->slots[warp].warp->index();
    lines += config_.preemption.control_lines +
             (dirty_only ? std::min(tracked.dirty[index].count(), all) : all);
  });
  const bool incremental = dirty_only && tracked.has_base;
  lines += incremental && config_.preemption.shared_lines != 0
               ? CountBits(tracked.shared_written)
               : block.contexts.shared_bytes / kLineBytes;
  return lines;
}

void BlockSwitch::Save(uint32_t slot, Checkpoint checkpoint, bool dirty_only,
                       const Contexts& in_place_limit, Cycle now) {
  Tracked& tracked = tracked_[slot];
  tracked.incremental =
      tracked.has_base && checkpoint == Checkpoint::kIncremental;
  tracked.dirty_only = dirty_only;
  tracked.stopped = now;
  tracked.stage = Stage::kStopping;
  limits_[slot] = in_place_limit;
  active_ = true;
  look_ = true;
  host_->Touch(now);
  Stop(slot);
}

bool BlockSwitch::Stop(uint32_t slot) {
  const BlockSlot& block = host_->blocks()[slot];
  Tracked& tracked = tracked_[slot];
  tracked.held &= block.warps;
  ForEachWarp(block.warps & ~tracked.held & ~warps_->held, [&](uint32_t warp) {
    warps_->held |= BitOf(warp);
    tracked.held |= BitOf(warp);
    warps_->slots[warp].buffered = 0;
    fetch_->Forget(warp);
    warps_->UpdateHead(warp);
  });
  if (block.away != 0 || tracked.held != block.warps) return false;
  bool empty = true;
  ForEachWarp(block.warps, [&](uint32_t warp) {
    empty &= warps_->slots[warp].in_flight == 0;
  });
  return empty;
}

void BlockSwitch::BeginSaving(uint32_t slot, Cycle now) {
  const BlockSlot& block = host_->blocks()[slot];
  Tracked& tracked = tracked_[slot];
  uint64_t lines = LinesOf(slot, tracked.dirty_only);
  if (tracked.area == 0) {
    const auto free = std::ranges::find(areas_, false);
    const auto index = static_cast<uint32_t>(free - areas_.begin());
    if (free == areas_.end()) areas_.push_back(false);
    areas_[index] = true;
    tracked.area = index + 1;
    tracked.area_lines = LinesOf(slot, false);
  }
  tracked.stage = Stage::kSaving;
  tracked.token = next_token_++;
  tracked.first = tracked.incremental ? tracked.saved.base : 0;
  tracked.on_chip_until = now;
  if (tracked.incremental) {
    tracked.saved.shared_written += CountBits(tracked.shared_written);
    tracked.saved.shared_whole += block.contexts.shared_bytes / kLineBytes;
    const uint64_t kept = KeepOnChip(tracked, limits_[slot], lines);
    tracked.on_chip_until += kept * config_.preemption.in_place_cycles;
    tracked.saved.in_place += kept;
    lines -= kept;
    tracked.saved.incremental += lines;
  } else {
    tracked.saved.base += lines;
  }
  tracked.to_move = lines;
}

Contexts BlockSwitch::InPlace() const {
  Contexts sum;
  for (const Tracked& tracked : tracked_) {
    sum.Return(tracked.in_place_contexts);
  }
  for (const Away& away : away_) sum.Return(away.tracked.in_place_contexts);
  return sum;
}

uint64_t BlockSwitch::KeepOnChip(Tracked& tracked, const Contexts& limit,
                                 uint64_t lines) {
  const Contexts used = InPlace();
  Contexts& free = host_->free();
  const auto room = [](uint32_t most, uint32_t taken, uint32_t left,
                       uint32_t unit) {
    return std::min(most > taken ? most - taken : 0, left) / unit * unit;
  };
  const uint32_t registers = room(limit.registers, used.registers,
                                  free.registers, config_.sm.register_unit);
  const uint32_t shared = room(limit.shared_bytes, used.shared_bytes,
                               free.shared_bytes, config_.sm.shared_unit);
  const auto in_registers =
      static_cast<uint32_t>(std::min<uint64_t>(lines, registers / kLanes));
  const auto in_shared = static_cast<uint32_t>(
      std::min<uint64_t>(lines - in_registers, shared / kLineBytes));
  const Contexts takes{
      .registers = RoundUp(in_registers * kLanes, config_.sm.register_unit),
      .shared_bytes = RoundUp(in_shared * kLineBytes, config_.sm.shared_unit)};
  free.Take(takes);
  host_->OnFreeChanged();
  tracked.in_place_contexts.Return(takes);
  return in_registers + in_shared;
}

// Blocks of a kernel are saved side by side, first all base checkpoints and then
// all incremental ones of an SM: a sparse layout would use few sets of the L2.
// Blocks of different sizes may get the same addresses, which only caches see.
uint64_t BlockSwitch::AddressOf(const Tracked& tracked, uint64_t line) const {
  const bool incremental = line >= tracked.saved.base;
  if (incremental) line -= tracked.saved.base;
  const uint64_t of_sm = LinesOfSm(config_);
  const uint64_t in_sm =
      ((tracked.area - 1) * tracked.area_lines + line) % of_sm;
  return uint64_t{1} << 62 |
         ((2 * sm_ + (incremental ? 1 : 0)) * of_sm + in_sm) * kLineBytes;
}

void BlockSwitch::MoveLine(Tracked& tracked, bool store, Cycle now) {
  --tracked.to_move;
  ++tracked.moving;
  lsu_->MoveRegister(0, AddressOf(tracked, tracked.first + tracked.to_move),
                     store, tracked.token, now, kBlockGeneration);
}

void BlockSwitch::MemoryDone(const MemoryOperation& operation) {
  for (Tracked& tracked : tracked_) {
    if (tracked.token != operation.pc) continue;
    --tracked.moving;
    look_ = true;
    return;
  }
}

void BlockSwitch::Tick(Cycle now) {
  again_ = false;
  look_ = false;
  for (const uint32_t slot : std::exchange(notify_, {})) {
    if (host_->blocks()[slot].grid == nullptr) continue;
    client_->OnInstructions(sm_, slot, now);
  }
  Tracked* next = nullptr;
  for (uint32_t slot = 0; slot < tracked_.size(); ++slot) {
    Tracked& tracked = tracked_[slot];
    if (tracked.stage == Stage::kStopping && Stop(slot)) {
      BeginSaving(slot, now);
    }
    if ((tracked.stage == Stage::kSaving ||
         tracked.stage == Stage::kRestoring) &&
        tracked.to_move == 0 && tracked.moving == 0 &&
        tracked.on_chip_until <= now) {
      tracked.token = 0;
      if (tracked.stage == Stage::kSaving) {
        Saved(slot, now);
      } else {
        Restored(slot, now);
      }
    }
    if (tracked.to_move != 0 &&
        (next == nullptr || tracked.token < next->token)) {
      next = &tracked;
    }
    again_ |= tracked.stage == Stage::kStopping || tracked.on_chip_until > now;
  }
  if (next != nullptr) {
    if (lsu_->CanAccept()) {
      MoveLine(*next, next->stage == Stage::kSaving, now);
    }
    again_ = true;
  }
  ComeBack(now);
  active_ = !away_.empty() || busy();
}

void BlockSwitch::Saved(uint32_t slot, Cycle now) {
  Tracked& tracked = tracked_[slot];
  (tracked.incremental ? tracked.incremental_cycles : tracked.base_cycles) +=
      now - tracked.stopped;
  tracked.has_base = true;
  for (size_t i = 0; i < kMaxWarps; ++i) {
    tracked.base[i].AddAll(std::exchange(tracked.dirty[i], {}));
  }
  std::ranges::fill(tracked.shared_written, 0);
  if (client_->OnSaved(sm_, tracked, now)) {
    Leave(slot, now);
  } else {
    GoOn(slot, now);
  }
}

void BlockSwitch::GoOn(uint32_t slot, Cycle now) {
  Tracked& tracked = tracked_[slot];
  tracked.stage = Stage::kRuns;
  warps_->held &= ~std::exchange(tracked.held, 0);
  host_->blocks()[slot].started += now - tracked.stopped;
}

void BlockSwitch::Leave(uint32_t slot, Cycle now) {
  BlockSlot& block = host_->blocks()[slot];
  Away& away = away_.emplace_back();
  ForEachWarp(block.warps, [&](uint32_t warp) {
    if ((warps_->asleep & BitOf(warp)) != 0) {
      away.asleep |= WarpMask{1} << away.warps.size();
    }
    away.warps.push_back(warps_->slots[warp]);
  });
  away.block.grid = block.grid;
  away.block.contexts = block.contexts;
  away.block.started = block.started;
  away.block.block = std::exchange(block.block, std::make_unique<Block>());
  away.tracked = std::exchange(tracked_[slot], {});
  away.tracked.stage = Stage::kRuns;
  away.tracked.held = 0;
  away.left = away.tracked.stopped;
  host_->Vacate(slot, now);
  look_ = true;
  client_->OnLeft(sm_, away.block, away.tracked, Way::kSwitched, now);
}

void BlockSwitch::Flush(uint32_t slot, Cycle now) {
  BlockSlot& block = host_->blocks()[slot];
  GridRun* const grid = block.grid;
  host_->Touch(now);
  client_->OnLeft(sm_, block, tracked_[slot], Way::kFlushed, now);
  grid->flushed.push_back(block.block->index());
  --grid->running;
  Forget(tracked_[slot]);
  tracked_[slot] = {};
  host_->Vacate(slot, now);
  look_ = true;
}

// Brings back the block that left first, of those with the highest priority.
void BlockSwitch::ComeBack(Cycle now) {
  while (true) {
    size_t best = away_.size();
    for (size_t i = 0; i < away_.size(); ++i) {
      const GridRun& grid = *away_[i].block.grid;
      if (!Admits(grid)) continue;
      if (best == away_.size() ||
          grid.options.priority > away_[best].block.grid->options.priority) {
        best = i;
      }
    }
    if (best == away_.size() || !host_->HasRoom(away_[best].block.contexts)) {
      return;
    }
    Away away = std::move(away_[best]);
    away_.erase(away_.begin() + static_cast<ptrdiff_t>(best));
    auto& blocks = host_->blocks();
    const auto free = std::ranges::find(blocks, nullptr, &BlockSlot::grid);
    const auto slot = static_cast<uint32_t>(free - blocks.begin());
    *free = std::move(away.block);
    Tracked& tracked = tracked_[slot];
    tracked = std::move(away.tracked);
    tracked.stage = Stage::kRestoring;
    tracked.token = next_token_++;
    tracked.first = 0;
    tracked.to_move = tracked.saved.base + tracked.saved.incremental;
    tracked.on_chip_until =
        now + tracked.saved.in_place * config_.preemption.in_place_cycles;
    for (size_t i = 0; i < away.warps.size(); ++i) {
      const auto warp = static_cast<uint32_t>(std::countr_zero(~warps_->used));
      const WarpMask bit = BitOf(warp);
      WarpContext& context = warps_->slots[warp];
      const uint32_t generation = context.generation;
      context = away.warps[i];
      context.generation = generation;
      context.block = slot;
      free->warps |= bit;
      tracked.held |= bit;
      warps_->held |= bit;
      warps_->used |= bit;
      warps_->running |= bit;
      warps_->of_class[static_cast<size_t>(free->grid->options.warp_class)] |=
          bit;
      if (context.warp->waits()) warps_->barrier |= bit;
      if ((away.asleep >> i & 1) != 0 && context.awake > now) {
        warps_->asleep |= bit;
      }
      ++warps_->arrivals;
    }
    tracked.stopped = away.left;
    host_->Occupied(slot, now);
    again_ = true;
  }
}

// What was saved is given up with the return, so all of it is dirty again.
void BlockSwitch::Restored(uint32_t slot, Cycle now) {
  Tracked& tracked = tracked_[slot];
  for (size_t i = 0; i < kMaxWarps; ++i) {
    tracked.dirty[i].AddAll(std::exchange(tracked.base[i], {}));
  }
  Forget(tracked);
  tracked.has_base = false;
  tracked.saved = {};
  tracked.base_cycles = 0;
  tracked.incremental_cycles = 0;
  GoOn(slot, now);
  client_->OnRestored(sm_, tracked, now);
}

void BlockSwitch::Forget(Tracked& tracked) {
  if (tracked.area != 0) areas_[tracked.area - 1] = false;
  tracked.area = 0;
  host_->free().Return(std::exchange(tracked.in_place_contexts, {}));
  host_->OnFreeChanged();
}

bool BlockSwitch::busy() const {
  return std::ranges::any_of(tracked_, [](const Tracked& tracked) {
    return tracked.stage != Stage::kRuns;
  });
}

bool BlockSwitch::HasAway(const GridRun* grid) const {
  return std::ranges::any_of(
      away_, [&](const Away& away) { return away.block.grid == grid; });
}

void BlockSwitch::BlockStarted(uint32_t slot, Cycle now) {
  const BlockSlot& block = host_->blocks()[slot];
  Tracked& tracked = tracked_[slot];
  tracked = {.serial = next_serial_++};
  const uint32_t uses = block.grid->options.registers != 0
                            ? block.grid->options.registers
                            : block.grid->launch.kernel->registers;
  tracked.registers = std::clamp(uses, 1u, RegistersOf(block));
  tracked.shared_written.assign(
      (block.contexts.shared_bytes / kLineBytes + 63) / 64, 0);
  client_->OnStarted(sm_, slot, now);
}

void BlockSwitch::BlockEnded(uint32_t slot, Cycle now) {
  const BlockSlot& block = host_->blocks()[slot];
  client_->OnLeft(sm_, block, tracked_[slot],
                  block.grid->failed() ? Way::kDropped : Way::kEnded, now);
  Forget(tracked_[slot]);
  tracked_[slot] = {};
  look_ = true;
}

void BlockSwitch::WroteBack(const WarpContext& context, Pc pc) {
  Tracked& tracked = tracked_[context.block];
  tracked.dirty[context.warp->index()].AddWrites(context.operations[pc],
                                                 tracked.registers);
}

void BlockSwitch::Issued(const WarpContext& context, const Access& access,
                         bool any_lane) {
  const uint32_t slot = context.block;
  const Op& op = context.grid->launch.program->ops[context.head];
  const OpTiming& timing = context.operations[context.head];
  Tracked& tracked = tracked_[slot];
  if (++tracked.instructions == tracked.notify_at) {
    notify_.push_back(slot);
    active_ = true;
    look_ = true;
  }
  if (!any_lane) return;
  const BlockSlot& block = host_->blocks()[slot];
  if (timing.unit == Unit::kMemory) {
    if (!access.store && !access.atomic) return;
    if (access.space == MemorySpace::kLocal) return;
    if (access.space != MemorySpace::kShared) {
      tracked.visible = true;
      return;
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((access.mask >> lane & 1) == 0) continue;
      const uint64_t line = access.address[lane] / kLineBytes;
      if (line / 64 < tracked.shared_written.size()) {
        tracked.shared_written[line / 64] |= uint64_t{1} << line % 64;
      }
    }
  } else if (op.flow == Flow::kCall) {
    const Call& call = block.grid->launch.program->calls[op.target];
    // The library's functions print, launch graphs, or consume a release.
    tracked.visible |= call.builtin != Builtin::kNone || call.by_address;
    // The numbers of a callee's registers are its own, so which ones it writes
    // is not known here.
    for (RegisterSet& dirty : tracked.dirty) {
      dirty.AddFirst(tracked.registers);
    }
  }
}

void BlockSwitch::Drop(const GridRun* grid, Cycle now) {
  for (size_t i = 0; i < away_.size();) {
    if (away_[i].block.grid != grid) {
      ++i;
      continue;
    }
    --away_[i].block.grid->running;
    Forget(away_[i].tracked);
    client_->OnLeft(sm_, away_[i].block, away_[i].tracked, Way::kDropped, now);
    away_.erase(away_.begin() + static_cast<ptrdiff_t>(i));
  }
  look_ = true;
}

void BlockSwitch::WakeReleased() {
  for (Away& away : away_) away.block.block->WakeReleased();
}

const Block* BlockSwitch::FindWaiting(const GridRun* grid) const {
  for (const Away& away : away_) {
    if (away.block.grid == grid && away.block.block->waits()) {
      return away.block.block.get();
    }
  }
  return nullptr;
}

bool BlockSwitch::idle() const {
  return away_.empty() && !busy() && InPlace() == Contexts{} &&
         std::ranges::find(areas_, true) == areas_.end();
}

}  // namespace carillon::sim::timing
