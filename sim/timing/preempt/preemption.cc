#include "sim/timing/preempt/preemption.h"

#include <algorithm>
#include <array>

#include "fmt/format.h"

namespace carillon::sim::timing {
namespace {

constexpr uint32_t kLineBytes = kLanes * 4;

uint32_t BlocksIn(const Contexts& room, const Contexts& block) {
  uint32_t most = std::min(room.blocks, room.warps / block.warps);
  if (block.registers != 0) {
    most = std::min(most, room.registers / block.registers);
  }
  if (block.shared_bytes != 0) {
    most = std::min(most, room.shared_bytes / block.shared_bytes);
  }
  return most;
}

}  // namespace

std::string_view NameOf(PreemptionCase preemption_case) {
  static constexpr std::array<std::string_view, kPreemptionCases> kNames = {
      "two checkpoints",       "one checkpoint",         "drain",
      "drain, one checkpoint", "drain, two checkpoints", "flush"};
  return kNames[static_cast<size_t>(preemption_case)];
}

Preemption::Preemption(const Config& config, std::deque<Sm>* sms)
    : config_(config), sms_(*sms) {
  for (Sm& sm : sms_) sm.block_switch()->set_client(this);
}

Cycle Preemption::CyclesOf(uint64_t nanoseconds) const {
  return nanoseconds * config_.clock.core_mhz / 1000;
}

AnnouncementId Preemption::Announce(const Contexts& block, uint64_t blocks,
                                    uint32_t priority, Cycle at) {
  ++counters_.announcements;
  requests_.push_back(
      {.id = next_id_++,
       .block = block,
       .blocks = blocks,
       .priority = priority,
       .announced = at,
       .trap = at + CyclesOf(config_.preemption.trap_ns),
       .expires = at + CyclesOf(config_.preemption.timeout_ns)});
  return requests_.back().id;
}

absl::Status Preemption::Launch(AnnouncementId announcement, GridRun* grid) {
  if (announcement >= next_id_) {
    return absl::NotFoundError(
        fmt::format("announcement {}: there is none", announcement));
  }
  Request* const request = Find(announcement);
  if (request == nullptr || request->grid != nullptr) {
    if (std::ranges::find(launched_, announcement) != launched_.end()) {
      return absl::FailedPreconditionError(fmt::format(
          "announcement {}: another grid was launched by it", announcement));
    }
    // It was given up. What was saved for it still serves.
    ++counters_.launches_late;
    launched_.push_back(announcement);
    return absl::OkStatus();
  }
  launched_.push_back(announcement);
  request->grid = grid;
  return absl::OkStatus();
}

Preemption::Request* Preemption::Find(uint64_t id) {
  const auto found = std::ranges::find(requests_, id, &Request::id);
  return found == requests_.end() ? nullptr : &*found;
}

const Preemption::Request* Preemption::AnnouncedOn(uint32_t sm) const {
  for (const Request& request : requests_) {
    if (request.trapped && !request.arrived &&
        std::ranges::find(request.sms, sm) != request.sms.end()) {
      return &request;
    }
  }
  return nullptr;
}

void Preemption::Advance(Cycle now,
                         const std::vector<std::unique_ptr<GridRun>>& grids) {
  for (Request& request : requests_) {
    if (!request.trapped && request.trap <= now && !request.arrived) {
      Trap(request, now);
    }
    // A grid that was submitted is on its way, however long it takes.
    if (!request.arrived && request.grid == nullptr && request.expires <= now) {
      Expire(request);
    }
  }
  std::erase_if(requests_, [&](const Request& request) {
    return !request.arrived && request.grid == nullptr &&
           request.expires <= now;
  });
  next_arrival_ = kNever;
  for (const auto& grid : grids) {
    if (grid->options.event || grid->arrival_seen) continue;
    if (grid->result.submitted > now) {
      next_arrival_ = std::min(next_arrival_, grid->result.submitted);
      continue;
    }
    grid->arrival_seen = true;
    if (grid->failed()) continue;
    const auto announced = std::ranges::find(
        requests_, grid.get(), [](const Request& r) { return r.grid; });
    if (announced != requests_.end()) {
      Arrive(*announced, now);
      continue;
    }
    requests_.push_back({.id = next_id_++,
                         .block = grid->contexts,
                         .blocks = grid->launch.grid.count(),
                         .priority = grid->options.priority,
                         .grid = grid.get()});
    Arrive(requests_.back(), now);
  }
  if (config_.preemption.quantum_ns != 0) Slice(now, grids);
  for (Request& request : requests_) {
    for (const uint32_t sm : std::exchange(request.waiting, {})) {
      PreemptSm(request, sm, now);
    }
    if (request.record != kNoRecord && request.left == 0 &&
        request.waiting.empty()) {
      Cycle& vacated = records_[request.record].vacated;
      vacated = std::min(vacated, now);
    }
  }
  Finish(now);
}

Cycle Preemption::next(Cycle now) const {
  Cycle next = std::min(next_arrival_, next_slice_);
  for (const Request& request : requests_) {
    if (!request.waiting.empty()) return now + 1;
    if (request.arrived) continue;
    if (!request.trapped) next = std::min(next, request.trap);
    if (request.grid == nullptr) next = std::min(next, request.expires);
  }
  return std::max(next, now + 1);
}

bool Preemption::IsVictim(const Request& request,
                          const BlockSlot& block) const {
  if (block.grid == nullptr || block.grid == request.grid ||
      block.grid->options.event || block.grid->failed()) {
    return false;
  }
  const uint32_t priority = block.grid->options.priority;
  return priority < request.priority ||
         (request.slice && priority == request.priority);
}

// The first SMs where room can be made, until there is enough for all blocks.
std::vector<uint32_t> Preemption::ChooseSms(const Request& request) const {
  uint64_t fit = 0;
  for (const Sm& sm : sms_) {
    if (sm.takes_others()) fit += BlocksIn(sm.free(), request.block);
  }
  std::vector<uint32_t> chosen;
  for (uint32_t i = 0; i < sms_.size() && fit < request.blocks; ++i) {
    const Sm& sm = sms_[i];
    const GridRun* const favored = sm.block_switch()->favored();
    if (!sm.takes_others() ||
        (favored != nullptr && favored != request.grid && !request.slice &&
         favored->options.priority >= request.priority)) {
      continue;
    }
    Contexts room = sm.free();
    bool any = false;
    for (const BlockSlot& block : sm.blocks()) {
      if (!IsVictim(request, block)) continue;
      room.Return(block.contexts);
      any = true;
    }
    const uint32_t gain =
        BlocksIn(room, request.block) - BlocksIn(sm.free(), request.block);
    if (!any || gain == 0) continue;
    fit += gain;
    chosen.push_back(i);
    if (chosen.size() == config_.preemption.sms) break;
  }
  return chosen;
}

bool Preemption::IsTaken(const Request& request, uint32_t sm) const {
  const BlockSwitch& unit = *sms_[sm].block_switch();
  for (uint32_t slot = 0; slot < BlocksOf(sm).size(); ++slot) {
    const BlockSlot& block = BlocksOf(sm)[slot];
    const BlockSwitch::Tracked& tracked = unit.tracked(slot);
    if (block.grid == nullptr || tracked.stage == BlockSwitch::Stage::kRuns) {
      continue;
    }
    const auto victim = victims_.find({sm, tracked.serial});
    if (victim == victims_.end() || victim->second.request != request.id) {
      return true;
    }
  }
  return false;
}

// --- From the announcement to the arrival.

void Preemption::Trap(Request& request, Cycle now) {
  request.trapped = true;
  if (config_.preemption.technique != PreemptionTechnique::kPep) return;
  const Cycle expected =
      request.announced + CyclesOf(config_.preemption.predicted_ns);
  for (const uint32_t sm : ChooseSms(request)) {
    // Another grid has this SM. Its blocks are looked at when this one arrives.
    if (IsTaken(request, sm) || AnnouncedOn(sm) != nullptr) continue;
    request.sms.push_back(sm);
    const Cycle switch_time = SwitchTime(request, sm);
    for (uint32_t slot = 0; slot < BlocksOf(sm).size(); ++slot) {
      if (!IsVictim(request, BlocksOf(sm)[slot])) continue;
      const Cycle left = LeftOf(sm, slot, now);
      const bool outlasts = left == kNever || now + left > expected;
      if (outlasts && left > switch_time) {
        SaveBase(request, sm, slot, now);
      }
    }
  }
}

// A block that starts between the announcement and the arrival: it drains if it
// is short, or is saved when it has done some work.
void Preemption::OnStarted(uint32_t sm, uint32_t slot, Cycle) {
  const Request* const request = AnnouncedOn(sm);
  const BlockSlot& block = BlocksOf(sm)[slot];
  if (request == nullptr || !IsVictim(*request, block)) return;
  const BlockSerial serial = sms_[sm].block_switch()->tracked(slot).serial;
  victims_[{sm, serial}] = {.request = request->id, .after_drain = true};
  const Cycle mean = profiles_.Of(block.grid->launch.kernel).cycles;
  if (mean != 0 && mean <= SwitchTime(*request, sm)) return;
  sms_[sm].block_switch()->NotifyAt(
      slot, uint64_t{config_.preemption.new_block_instructions} *
                block.contexts.warps);
}

void Preemption::OnInstructions(uint32_t sm, uint32_t slot, Cycle now) {
  const Request* const announced = AnnouncedOn(sm);
  if (announced == nullptr || !IsVictim(*announced, BlocksOf(sm)[slot]) ||
      sms_[sm].block_switch()->tracked(slot).stage !=
          BlockSwitch::Stage::kRuns) {
    return;
  }
  SaveBase(*Find(announced->id), sm, slot, now);
}

void Preemption::SaveBase(Request& request, uint32_t sm, uint32_t slot,
                          Cycle now) {
  BlockSwitch& unit = *sms_[sm].block_switch();
  victims_[{sm, unit.tracked(slot).serial}].request = request.id;
  ++counters_.bases;
  unit.Save(slot, BlockSwitch::Checkpoint::kBase, true, {}, now);
}

void Preemption::Expire(const Request& request) {
  ++counters_.launches_lost;
  std::erase_if(victims_, [&](const auto& victim) {
    return victim.second.request == request.id;
  });
}

// --- From the arrival on.

void Preemption::Arrive(Request& request, Cycle now) {
  if (request.announced != kNever && !request.trapped) {
    ++counters_.launches_early;
  }
  // What is known for certain now, whatever was announced.
  request.block = request.grid->contexts;
  request.blocks = request.grid->launch.grid.count();
  request.priority = request.grid->options.priority;
  const std::vector<uint32_t> chosen = ChooseSms(request);
  if (chosen.empty()) {
    if (request.announced != kNever) ++counters_.launches_fit;
    request.sms.clear();
  } else if (request.sms.empty()) {
    request.sms = chosen;
  }
  request.arrived = true;
  if (request.sms.empty()) return;
  request.record = records_.size();
  records_.push_back({.grid = request.grid->result.id,
                      .announced = request.announced,
                      .arrived = request.grid->result.submitted,
                      .sms = static_cast<uint32_t>(request.sms.size()),
                      .slice = request.slice});
  for (const uint32_t sm : request.sms) PreemptSm(request, sm, now);
}

void Preemption::PreemptSm(Request& request, uint32_t sm, Cycle now) {
  if (IsTaken(request, sm)) {
    ++counters_.waits;
    request.waiting.push_back(sm);
    return;
  }
  sms_[sm].block_switch()->Favor(request.grid, now);
  uint32_t switched = 0;
  for (uint32_t slot = 0; slot < BlocksOf(sm).size(); ++slot) {
    if (!IsVictim(request, BlocksOf(sm)[slot])) continue;
    PreemptBlock(request, sm, slot, switched++, now);
  }
  if (config_.preemption.whole_sm != 0 && IsAwaited(request.id, sm)) {
    sms_[sm].block_switch()->Close();
  }
}

bool Preemption::IsAwaited(uint64_t request, uint32_t sm) const {
  for (auto victim = victims_.lower_bound({sm, 0});
       victim != victims_.end() && victim->first.first == sm; ++victim) {
    if (victim->second.counted && victim->second.request == request) {
      return true;
    }
  }
  return false;
}

void Preemption::PreemptBlock(Request& request, uint32_t sm, uint32_t slot,
                              uint32_t index, Cycle now) {
  using enum PreemptionTechnique;
  BlockSwitch& unit = *sms_[sm].block_switch();
  const BlockSwitch::Tracked& tracked = unit.tracked(slot);
  Victim& victim = victims_[{sm, tracked.serial}];
  if (victim.counted && victim.request != request.id) {
    // It drains for another grid already.
    NoLongerAwaited(victim.request, now);
    victim.counted = false;
  }
  victim.request = request.id;
  if (!victim.counted) ++request.left;
  victim.counted = true;
  // Its base checkpoint is under way; it leaves when that is done.
  if (tracked.stage != BlockSwitch::Stage::kRuns) return;
  const auto& config = config_.preemption;
  const Cycle left = LeftOf(sm, slot, now);
  switch (config.technique) {
    case kNone:
    case kDrain:
      return;
    case kFlush:
      // At the end of a turn none is flushed: blocks that are longer than their
      // turn would never end.
      if (request.slice) break;
      if (unit.CanFlush(slot)) {
        unit.Flush(slot, now);
        return;
      }
      ++counters_.flushes_refused;
      break;
    case kSwitch:
      if (config.switch_blocks != 0 && index >= config.switch_blocks) return;
      break;
    case kChimera: {
      const Cycle deadline = CyclesOf(config.deadline_ns);
      const Cycle switch_time = TimeOf(unit.LinesOf(slot, config.dirty != 0));
      // A drain costs nothing but its time.
      if (left <= deadline) return;
      const Cycle ran = now - BlocksOf(sm)[slot].started;
      const bool can_flush =
          config.flush != 0 && !request.slice && unit.CanFlush(slot);
      // A flush costs the work that it throws away, a switch both ways.
      if (can_flush && (switch_time > deadline || ran <= 2 * switch_time)) {
        unit.Flush(slot, now);
        return;
      }
      if (switch_time > deadline && left <= switch_time) return;
      break;
    }
    case kPep:
      if (!tracked.has_base && left <= SwitchTime(request, sm)) return;
      break;
  }
  Save(request, sm, slot, config.technique == kPep || config.dirty != 0, now);
}

void Preemption::Save(Request& request, uint32_t sm, uint32_t slot,
                      bool dirty_only, Cycle now) {
  // In place, a block may use what the grid that takes its place leaves free
  // when it has as many blocks here as an SM holds.
  Contexts limit;
  if (config_.preemption.in_place != 0) {
    limit = ContextsOfSm(config_);
    const uint32_t blocks = BlocksIn(limit, request.block);
    for (uint32_t i = 0; i < blocks; ++i) limit.Take(request.block);
  }
  sms_[sm].block_switch()->Save(slot, BlockSwitch::Checkpoint::kIncremental,
                                dirty_only, limit, now);
}

bool Preemption::OnSaved(uint32_t sm, const BlockSwitch::Tracked& tracked,
                         Cycle) {
  const auto victim = victims_.find({sm, tracked.serial});
  return victim != victims_.end() && victim->second.counted;
}

void Preemption::OnLeft(uint32_t sm, const BlockSlot& block,
                        const BlockSwitch::Tracked& tracked,
                        BlockSwitch::Way way, Cycle now) {
  using Way = BlockSwitch::Way;
  const bool ended = way == Way::kEnded;
  if (ended && !block.grid->options.event) {
    profiles_.Add(block.grid->launch.kernel, now - block.started,
                  tracked.instructions);
  }
  if (ended && tracked.stage != BlockSwitch::Stage::kRuns) {
    ++counters_.ended_stopping;
  }
  if (ended && tracked.has_base) ++counters_.bases_unused;
  const auto found = victims_.find({sm, tracked.serial});
  if (found == victims_.end()) return;
  const Victim victim = found->second;
  victims_.erase(found);
  Request* const request = Find(victim.request);
  if (!victim.counted || request == nullptr) return;
  PreemptionRecord& record = records_[request->record];
  NoLongerAwaited(victim.request, now);
  BlockSwitch& unit = *sms_[sm].block_switch();
  if (unit.favored() == request->grid && !IsAwaited(victim.request, sm)) {
    unit.Open(now);
  }
  PreemptedBlock left{.sm = sm,
                      .saved = tracked.saved,
                      .base_cycles = tracked.base_cycles,
                      .incremental_cycles = tracked.incremental_cycles,
                      .left = now};
  switch (way) {
    case Way::kDropped:
      return;
    case Way::kEnded:
      ++counters_.drained;
      left.way = PreemptionCase::kDrain;
      break;
    case Way::kFlushed:
      ++counters_.flushed;
      left.way = PreemptionCase::kFlush;
      break;
    case Way::kSwitched:
      ++counters_.switched;
      left.way =
          tracked.incremental
              ? (victim.after_drain ? PreemptionCase::kDrainTwoCheckpoints
                                    : PreemptionCase::kTwoCheckpoints)
              : (victim.after_drain ? PreemptionCase::kDrainOneCheckpoint
                                    : PreemptionCase::kOneCheckpoint);
      break;
  }
  record.blocks.push_back(left);
}

void Preemption::NoLongerAwaited(uint64_t id, Cycle now) {
  Request* const request = Find(id);
  if (request == nullptr) return;
  if (--request->left == 0 && request->waiting.empty()) {
    records_[request->record].vacated = now;
  }
}

void Preemption::OnRestored(uint32_t, const BlockSwitch::Tracked&, Cycle) {
  ++counters_.restored;
}

// Ends what is over: SMs whose grid has all of its blocks placed are free again
// for others.
void Preemption::Finish(Cycle now) {
  for (Request& request : requests_) {
    if (!request.arrived || request.over || request.sms.empty()) continue;
    const bool placed = request.grid == nullptr ||
                        !request.grid->has_blocks() || request.grid->failed();
    if (!placed) continue;
    request.waiting.clear();
    for (const uint32_t sm : request.sms) {
      BlockSwitch& unit = *sms_[sm].block_switch();
      // In slices, its blocks that are away need the turn as well.
      if (request.slice && request.grid != nullptr &&
          unit.HasAway(request.grid)) {
        continue;
      }
      if (unit.favored() == request.grid || request.grid == nullptr) {
        unit.Favor(nullptr, now);
      }
    }
  }
  std::erase_if(requests_, [](const Request& request) {
    return request.arrived && request.left == 0 && request.waiting.empty() &&
           (request.sms.empty() || request.over || request.grid == nullptr ||
            !request.grid->has_blocks() || request.grid->failed());
  });
}

void Preemption::Remove(const GridRun* grid, Cycle now) {
  for (Sm& sm : sms_) {
    if (sm.block_switch()->favored() == grid) {
      sm.block_switch()->Favor(nullptr, now);
    }
  }
  for (Request& request : requests_) {
    if (request.grid != grid) continue;
    // Nobody waits for its victims any more: those that are being saved go on.
    std::erase_if(victims_, [&](const auto& victim) {
      return victim.second.request == request.id;
    });
    request.grid = nullptr;
    request.waiting.clear();
    request.left = 0;
    request.arrived = true;
  }
}

// --- Turns.

void Preemption::Slice(Cycle now,
                       const std::vector<std::unique_ptr<GridRun>>& grids) {
  if (next_slice_ != kNever && now < next_slice_) return;
  // Those of the highest priority that have blocks here or to come.
  std::vector<GridRun*> sharing;
  bool waits = false;
  for (const auto& grid : grids) {
    if (grid->options.event || grid->failed() || !grid->in_kdu) continue;
    if (grid->running == 0 && !grid->has_blocks()) continue;
    if (!sharing.empty()) {
      const uint32_t highest = sharing.front()->options.priority;
      if (grid->options.priority < highest) continue;
      if (grid->options.priority > highest) sharing.clear();
    }
    sharing.push_back(grid.get());
  }
  for (const GridRun* const grid : sharing) {
    waits |= grid->has_blocks();
    for (const Sm& sm : sms_) waits |= sm.block_switch()->HasAway(grid);
  }
  if (sharing.size() < 2 || !waits) {
    next_slice_ = kNever;
    if (sharing.size() > 1)
      next_slice_ = now + CyclesOf(config_.preemption.quantum_ns);
    return;
  }
  if (next_slice_ == kNever) {
    moved_ = false;
    // The one that is here has its quantum first.
    next_slice_ = now + CyclesOf(config_.preemption.quantum_ns);
    last_turn_ = sharing.front()->result.id;
    return;
  }
  next_slice_ = now + CyclesOf(config_.preemption.quantum_ns);
  // A quantum is time to run: one in which blocks came or went does not count,
  // or short ones would be spent with that alone.
  const bool moves = std::ranges::any_of(
      sms_, [](const Sm& sm) { return sm.block_switch()->busy(); });
  if (moves || std::exchange(moved_, false)) {
    moved_ = moves;
    return;
  }
  moved_ = true;
  const auto next = std::ranges::find_if(sharing, [&](const GridRun* grid) {
    return grid->result.id > last_turn_;
  });
  GridRun* const turn = next == sharing.end() ? sharing.front() : *next;
  last_turn_ = turn->result.id;
  ++counters_.slices;
  for (Request& request : requests_) {
    if (!request.slice) continue;
    request.waiting.clear();
    request.over = true;
  }
  Request& request = requests_.emplace_back();
  request = {.id = next_id_++,
             .block = turn->contexts,
             .blocks = turn->launch.grid.count(),
             .priority = turn->options.priority,
             .slice = true,
             .arrived = true,
             .grid = turn};
  request.record = records_.size();
  for (uint32_t sm = 0; sm < sms_.size(); ++sm) {
    if (sms_[sm].takes_others()) request.sms.push_back(sm);
  }
  records_.push_back({.grid = turn->result.id,
                      .arrived = now,
                      .sms = static_cast<uint32_t>(request.sms.size()),
                      .slice = true});
  for (const uint32_t sm : request.sms) PreemptSm(request, sm, now);
}

// --- Estimates.

// PEP uses the mean time of the kernel's blocks, if it is known; else, as
// Chimera always does, the instructions that are left.
Cycle Preemption::LeftOf(uint32_t sm, uint32_t slot, Cycle now) const {
  const BlockSlot& block = BlocksOf(sm)[slot];
  const ProgramFunction* const kernel = block.grid->launch.kernel;
  const Cycle ran = now > block.started ? now - block.started : 0;
  if (config_.preemption.technique == PreemptionTechnique::kPep) {
    const Cycle left = profiles_.LeftByTime(kernel, ran);
    if (left != kNever) return left;
  }
  return profiles_.LeftByInstructions(
      kernel, ran, sms_[sm].block_switch()->tracked(slot).instructions);
}

// The worst case: all of the SM's blocks that may have to go are switched, one
// after the other.
Cycle Preemption::SwitchTime(const Request& request, uint32_t sm) const {
  uint64_t lines = 0;
  for (uint32_t slot = 0; slot < BlocksOf(sm).size(); ++slot) {
    if (!IsVictim(request, BlocksOf(sm)[slot])) continue;
    lines += sms_[sm].block_switch()->LinesOf(slot, true);
  }
  return TimeOf(lines);
}

// By an SM's share of the memory's bandwidth, as Chimera has it.
Cycle Preemption::TimeOf(uint64_t lines) const {
  const uint64_t per_dram_cycle =
      uint64_t{config_.dram.channels} * config_.dram.bytes_per_cycle;
  return lines * kLineBytes * config_.sm.count * config_.clock.core_mhz /
         (per_dram_cycle * config_.clock.dram_mhz);
}

}  // namespace carillon::sim::timing
