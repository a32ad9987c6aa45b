#include "sim/timing/edge/event_warps.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace carillon::sim::timing {
namespace {

constexpr uint32_t kBarrierWait = 1u
                                  << static_cast<uint32_t>(FlushWait::kBarrier);

uint32_t RegistersOfThread(const GridRun& grid) {
  return grid.options.registers != 0 ? grid.options.registers
                                     : grid.launch.kernel->registers;
}

}  // namespace

EventWarps::EventWarps(const Config& config, uint32_t sm, SmWarps* warps,
                       InstructionFetch* fetch, Lsu* lsu, SmCounters* counters,
                       Host* host)
    : config_(config),
      warps_(warps),
      lsu_(lsu),
      counters_(counters),
      host_(host),
      victims_(config, sm, warps, fetch, lsu, counters),
      entries_(config.edge.event_warps) {}

void EventWarps::Accept(GridRun* grid, Cycle now) {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(),
                   [](const Entry& e) { return e.state == EntryState::kFree; });
  *entry = {
      .state = EntryState::kWaiting, .grid = grid, .order = next_order_++};
  ++grid->placed;
  ++used_;
  ++waiting_;
  host_->Observe(Observation::What::kEventArrive, *grid, Observation::kNowhere,
                 now);
}

bool EventWarps::HasVictims(const GridRun& grid, Cycle now) const {
  bool own = false;
  return !Select(grid, now, &own).empty();
}

bool EventWarps::freezes() const {
  return state_ >= State::kFlush && (waits_ & kBarrierWait) == 0;
}

void EventWarps::Count(Cycle cycles) {
  if (state_ != State::kFlush) return;
  counters_->flush_cycles += cycles;
  for (FlushWaits left = waits_; left != 0; left &= left - 1) {
    counters_->flush_waits[static_cast<size_t>(std::countr_zero(left))] +=
        cycles;
  }
}

void EventWarps::Tick(Cycle now) {
  again_ = false;
  victims_.Advance(
      now, [&](uint32_t slot) { host_->OnVictimBack(slot); },
      [&](uint32_t slot) {
        host_->Observe(Observation::What::kEventRestore,
                       *warps_->slots[slot].grid, slot, now);
        for (Entry& entry : entries_) {
          std::erase_if(entry.places, [&](const VictimSlot& place) {
            return place.slot == slot;
          });
          if (entry.state == EntryState::kEnded) Free(entry);
        }
      });
  switch (state_) {
    case State::kIdle:
    case State::kSelect:
      PlaceNext(now);
      break;
    case State::kFlush:
      Flush(now);
      break;
    case State::kSave:
      Save(now);
      break;
    case State::kLaunch:
      Launch(now);
      break;
  }
  again_ |= victims_.again() || state_ == State::kSave ||
            state_ == State::kLaunch ||
            (state_ == State::kIdle && waiting_ != 0);
}

// Gives the event that waits longest a free context, or else selects victims
// for it.
void EventWarps::PlaceNext(Cycle now) {
  Entry* next = nullptr;
  for (Entry& entry : entries_) {
    if (entry.state != EntryState::kWaiting) continue;
    if (next == nullptr || entry.order < next->order) next = &entry;
  }
  state_ = State::kIdle;
  if (next == nullptr) return;
  GridRun& grid = *next->grid;
  current_ = static_cast<uint32_t>(next - entries_.data());
  if (host_->Fits(grid)) {
    next->taken = {};
    Launch(now);
    return;
  }
  state_ = State::kSelect;
  const Seen seen{next->order, warps_->arrivals, warps_->running, warps_->held,
                  host_->free().registers};
  // The choice was empty last time, and nothing that it depends on has changed.
  // With several victims it also depends on barriers, which Seen does not hold.
  if (config_.edge.several_victims == 0 && seen == none_) return;
  bool own = false;
  next->places = Select(grid, now, &own);
  if (next->places.empty()) {
    none_ = seen;
    return;
  }
  next->taken = {};
  if (own) next->taken.registers = grid.contexts.registers;
  host_->free().Take(next->taken);
  if (next->selected == kNever) next->selected = now;
  next->victims = static_cast<uint32_t>(next->places.size());
  waits_ = 0;
  for (const VictimSlot& place : next->places) {
    victims_.Stop(place.slot);
    waits_ |= victims_.WaitsOf(place.slot, now, &again_);
    host_->Observe(Observation::What::kEventSelect, grid, place.slot, now);
  }
  state_ = State::kFlush;
  again_ = true;
}

uint32_t EventWarps::RegistersOf(uint32_t slot) const {
  const Contexts& block = warps_->slots[slot].grid->contexts;
  return block.registers / block.warps;
}

std::vector<EventWarps::VictimSlot> EventWarps::Select(const GridRun& grid,
                                                       Cycle now,
                                                       bool* own) const {
  const Contexts& needs = grid.contexts;
  *own = config_.edge.registers == EventRegisters::kFreeOrSave &&
         host_->free().registers >= needs.registers;
  // With free registers of its own, an event may have more than its victims.
  const bool larger = *own && config_.edge.larger_events != 0;
  std::vector<VictimSlot> places;
  const auto add = [&](uint32_t slot) {
    places.push_back(
        {.slot = slot, .generation = warps_->slots[slot].generation});
    places.back().lent = places.size() > needs.warps;
  };
  const std::vector<uint32_t> candidates = victims_.Candidates(now);
  if (needs.warps == 1) {
    for (const uint32_t slot : candidates) {
      if (!larger && RegistersOf(slot) < needs.registers) continue;
      add(slot);
      return places;
    }
  }
  if (config_.edge.several_victims == 0) return {};
  uint32_t registers = 0;
  for (const uint32_t slot : candidates) {
    // A victim that waits at a barrier may wait for another victim of its own
    // block, and then neither could ever leave.
    if (WaitsForOthers(slot, now)) continue;
    add(slot);
    registers += RegistersOf(slot);
    if (places.size() >= needs.warps &&
        (larger || registers >= needs.registers)) {
      return places;
    }
  }
  return {};
}

bool EventWarps::WaitsForOthers(uint32_t slot, Cycle now) const {
  bool again = false;
  return (victims_.WaitsOf(slot, now, &again) & kBarrierWait) != 0;
}

bool EventWarps::MustReselect(Cycle now) const {
  const std::vector<VictimSlot>& places = entries_[current_].places;
  for (const VictimSlot& place : places) {
    const WarpMask bit = BitOf(place.slot);
    if (warps_->slots[place.slot].generation != place.generation ||
        (warps_->running & bit) == 0) {
      return true;
    }
    if (places.size() > 1 && WaitsForOthers(place.slot, now)) return true;
  }
  return false;
}

// A victim may exit by itself while its pipeline runs empty. Its context is
// then free or another warp's, so the event must choose again.
void EventWarps::Flush(Cycle now) {
  Entry& entry = entries_[current_];
  if (MustReselect(now)) {
    ++counters_->reselections;
    ++entry.reselections;
    Release();
    PlaceNext(now);
    return;
  }
  waits_ = 0;
  for (const VictimSlot& place : entry.places) {
    waits_ |= victims_.WaitsOf(place.slot, now, &again_);
  }
  if (waits_ == 0) Leave(now);
}

// Lets the victims go on where they are.
void EventWarps::Release() {
  Entry& entry = entries_[current_];
  for (const VictimSlot& place : entry.places) {
    if (warps_->slots[place.slot].generation == place.generation) {
      victims_.Continue(place.slot);
    }
  }
  entry.places.clear();
  entry.victims = 0;
  host_->free().Return(std::exchange(entry.taken, {}));
  waits_ = 0;
  state_ = State::kIdle;
}

void EventWarps::Leave(Cycle now) {
  Entry& entry = entries_[current_];
  GridRun& grid = *entry.grid;
  entry.flushed = now;
  entry.saves = entry.taken.registers == 0;
  uint32_t left =
      entry.saves ? RegistersOfThread(grid) * grid.contexts.warps : 0;
  for (VictimSlot& place : entry.places) {
    place.saved = std::min(left, RegistersOf(place.slot) / kLanes);
    left -= place.saved;
    victims_.Leave(place.slot);
    host_->OnVictimLeft(place.slot);
  }
  host_->Observe(Observation::What::kEventFlush, grid, entry.places[0].slot,
                 now);
  saving_ = 0;
  saved_ = 0;
  state_ = State::kSave;
}

void EventWarps::Save(Cycle now) {
  Entry& entry = entries_[current_];
  const auto skip = [&] {
    while (saving_ < entry.places.size() &&
           saved_ == entry.places[saving_].saved) {
      ++saving_;
      saved_ = 0;
    }
  };
  skip();
  if (saving_ < entry.places.size() && lsu_->CanAccept()) {
    victims_.SaveRegister(entry.places[saving_].slot, saved_++, now);
    skip();
  }
  if (saving_ == entry.places.size()) state_ = State::kLaunch;
}

void EventWarps::Launch(Cycle now) {
  Entry& entry = entries_[current_];
  GridRun* const grid = std::exchange(entry.grid, nullptr);
  std::vector<uint32_t> slots;
  for (const VictimSlot& place : entry.places) {
    if (!place.lent) slots.push_back(place.slot);
  }
  host_->free().Return(entry.taken);
  entry.state = EntryState::kRuns;
  --waiting_;
  if (GridResult& result = grid->result; result.dispatched == kNever) {
    result.selected = entry.selected;
    result.flushed = entry.flushed;
    result.victims = entry.victims;
    result.reselections = entry.reselections;
    result.saved_registers = entry.saves;
  }
  host_->StartEvent(grid, current_, slots,
                    slots.empty() ? grid->contexts : entry.taken, now);
  entry.taken = {};
  current_ = kNoEntry;
  state_ = State::kIdle;
  host_->OnRoomChanged();
}

void EventWarps::Vacated(uint32_t entry, uint32_t slot) {
  std::vector<VictimSlot>& places = entries_[entry].places;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].slot != slot) continue;
    if (victims_.away(slot)) {
      victims_.ComeBack(slot, places[i].saved);
      again_ = true;
    } else {
      places.erase(places.begin() + static_cast<ptrdiff_t>(i));
    }
    return;
  }
}

void EventWarps::BlockEnded(uint32_t index) {
  Entry& entry = entries_[index];
  entry.state = EntryState::kEnded;
  std::vector<uint32_t> lent;
  for (const VictimSlot& place : entry.places) {
    if (place.lent) lent.push_back(place.slot);
  }
  for (const uint32_t slot : lent) {
    warps_->used &= ~BitOf(slot);
    Vacated(index, slot);
  }
  Free(entry);
}

void EventWarps::Free(Entry& entry) {
  if (!entry.places.empty()) return;
  entry = {};
  --used_;
  host_->OnRoomChanged();
}

// A victim that has left is away in any state from kSave on. If its event is
// dropped there, the victim must come back as if the event had ended.
void EventWarps::Drop(const GridRun* grid) {
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.state != EntryState::kWaiting || entry.grid != grid) continue;
    const bool is_current = i == current_ && state_ >= State::kFlush;
    if (is_current && state_ == State::kFlush) Release();
    if (is_current && state_ != State::kIdle) {
      // The event has not run, so the victims' registers are still intact and
      // none need be restored.
      host_->free().Return(std::exchange(entry.taken, {}));
      std::vector<VictimSlot> places = entry.places;
      for (VictimSlot& place : entry.places) place.saved = 0;
      for (const VictimSlot& place : places) {
        warps_->used &= ~BitOf(place.slot);
        Vacated(i, place.slot);
      }
      state_ = State::kIdle;
    }
    --waiting_;
    entry.grid = nullptr;
    entry.state = EntryState::kEnded;
    Free(entry);
  }
  for (uint32_t i = 0; i < entries_.size(); ++i) ForgetVictims(grid, i);
}

// An absent victim has no warp to stop. Its slot and registers pass to the
// event that took them, unless that has ended and they were about to go back.
void EventWarps::ForgetVictims(const GridRun* grid, uint32_t index) {
  Entry& entry = entries_[index];
  for (size_t at = 0; at < entry.places.size();) {
    const VictimSlot place = entry.places[at];
    if (!victims_.away(place.slot) ||
        victims_.context(place.slot).grid != grid) {
      ++at;
      continue;
    }
    const Victims::Owner owner = victims_.Forget(place.slot);
    if (owner == Victims::Owner::kEvent) {
      const Contexts keeps{
          .warps = 1,
          .registers = place.saved != 0
                           ? grid->contexts.registers / grid->contexts.warps
                           : 0};
      if (entry.state == EntryState::kWaiting) entry.taken.Return(keeps);
      host_->TakeOver(index, keeps);
      ++at;
      continue;
    }
    if (owner == Victims::Owner::kNobody) warps_->used &= ~BitOf(place.slot);
    entry.places.erase(entry.places.begin() + static_cast<ptrdiff_t>(at));
  }
  if (entry.state == EntryState::kEnded) Free(entry);
}

}  // namespace carillon::sim::timing
