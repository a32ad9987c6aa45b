#include "sim/timing/kmu.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace carillon::sim::timing {
namespace {

// A grid that lacks room is overtaken by no more blocks than these: then SMs
// that it may use wait for it.
constexpr uint32_t kMostOvertakes = 256;

}  // namespace

// Inserts the grid before those of lower priority and those that come later.
void Kmu::Add(std::vector<GridRun*>& grids, GridRun* grid) const {
  const auto key = [this](const GridRun* g) {
    return std::tuple(!(events_first_ && g->options.event),
                      by_priority_ ? ~g->options.priority : 0,
                      g->result.submitted, g->result.id);
  };
  grids.insert(std::ranges::upper_bound(grids, key(grid), {}, key), grid);
}

void Kmu::Share(Sharing sharing) {
  using enum Sharing;
  sharing_ = sharing;
  events_first_ = sharing == kConfigured
                      ? config_.edge.event_priority >= EventPriority::kP1
                      : sharing == kP1 || sharing == kP2;
  by_priority_ = sharing == kConfigured || sharing == kPriority ||
                 sharing == kGpes || events_first_;
  // A slice that has not ended is none any more.
  slice_grid_ = nullptr;
  slice_left_ = 0;
  HoldOthers(false);
  ChooseAnew();
}

void Kmu::ChooseAnew() {
  std::vector<GridRun*> begun;
  for (GridRun* const grid : kdu_) {
    if (grid->begun()) {
      begun.push_back(grid);
    } else {
      grid->in_kdu = false;
      pending_.push_back(grid);
    }
  }
  kdu_.clear();
  for (GridRun* const grid : begun) Add(kdu_, grid);
  std::vector<GridRun*> pending = std::exchange(pending_, {});
  for (GridRun* const grid : pending) Add(pending_, grid);
  Unblock();
}

void Kmu::Submit(GridRun* grid) {
  Add(pending_, grid);
  if (kdu_.size() < config_.dispatch.grids ||
      sharing_ != Sharing::kConfigured) {
    next_ = std::min(next_, grid->result.submitted);
  }
}

void Kmu::Remove(const GridRun* grid) {
  std::erase(pending_, grid);
  std::erase(kdu_, grid);
  if (slice_grid_ == grid) {
    slice_grid_ = nullptr;
    slice_left_ = 0;
  }
  Unblock();
}

bool Kmu::Admits(const GridRun& grid) const {
  switch (sharing_) {
    case Sharing::kReservation:
    case Sharing::kDynamicReservation: {
      // Neither side keeps the other out.
      const auto same = std::ranges::count_if(kdu_, [&](const GridRun* other) {
        return other->options.event == grid.options.event;
      });
      return static_cast<size_t>(same) <
             std::max(config_.dispatch.grids / 2, 1u);
    }
    case Sharing::kExclusive:
      return turns_.owner() == grid.options.device;
    default:
      return true;
  }
}

bool Kmu::Displace(const GridRun& grid) {
  if (!by_priority_) return false;
  const auto rank = [this](const GridRun& g) {
    return std::pair(events_first_ && g.options.event, g.options.priority);
  };
  for (size_t i = kdu_.size(); i-- > 0;) {
    GridRun* const other = kdu_[i];
    if (rank(*other) >= rank(grid)) return false;
    if (other->begun()) continue;
    kdu_.erase(kdu_.begin() + static_cast<ptrdiff_t>(i));
    other->in_kdu = false;
    Add(pending_, other);
    return true;
  }
  return false;
}

void Kmu::TakeTurns(Cycle now) {
  std::vector<DeviceTurns::Party> parties;
  const auto party_of = [&](const GridRun& grid) -> DeviceTurns::Party& {
    for (DeviceTurns::Party& party : parties) {
      if (party.device == grid.options.device) return party;
    }
    return parties.emplace_back(DeviceTurns::Party{
        .device = grid.options.device, .weight = grid.options.weight});
  };
  for (const GridRun* const grid : kdu_) {
    DeviceTurns::Party& party = party_of(*grid);
    (grid->begun() ? party.begun : party.waits) = true;
  }
  for (const GridRun* const grid : pending_) {
    if (grid->result.submitted <= now) party_of(*grid).waits = true;
  }
  if (turns_.Advance(now, parties)) ChooseAnew();
}

void Kmu::Started(GridRun* grid) {
  grid->overtaken = 0;
  if (grid == slice_grid_) --slice_left_;
}

bool Kmu::MakeRoom(const GridRun& grid) {
  if (kdu_.size() < config_.dispatch.grids) return true;
  if (sharing_ != Sharing::kConfigured) return Displace(grid);
  if (!displaces_ || kdu_.back()->options.event ||
      kdu_.back()->options.priority >= grid.options.priority) {
    return false;
  }
  GridRun* const displaced = kdu_.back();
  kdu_.pop_back();
  displaced->in_kdu = false;
  Add(pending_, displaced);
  return true;
}

bool Kmu::FillKdu(Cycle now) {
  bool filled = false;
  for (size_t i = 0; i < pending_.size();) {
    GridRun* const grid = pending_[i];
    if (grid->result.submitted > now || !Admits(*grid)) {
      ++i;
      continue;
    }
    if (!MakeRoom(*grid)) break;
    grid->in_kdu = true;
    filled = true;
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
    const bool host =
        grid->options.origin == LaunchOrigin::kHost && !grid->options.event;
    grid->ready = now + (host ? config_.dispatch.host_cycles
                              : config_.dispatch.device_cycles);
    if (grid->options.event) grid->result.arrived = grid->ready;
    Add(kdu_, grid);
    next_ready_ = std::min(next_ready_, grid->ready);
  }
  return filled;
}

bool Kmu::EventsWait(Cycle now) const {
  return std::ranges::any_of(kdu_, [now](const GridRun* grid) {
    return grid->options.event && grid->ready <= now && grid->has_blocks() &&
           !grid->failed();
  });
}

GridRun* Kmu::Choose(Cycle now, const Sm& sm) {
  const bool only_events = (hold_others_ || events_wait_) && sm.takes_events();
  if (sharing_ == Sharing::kGpes) return ChooseSlice(now, sm);
  if (sharing_ != Sharing::kConfigured) {
    return ChooseShared(now, sm, only_events);
  }
  for (GridRun* const grid : kdu_) {
    if (only_events && !grid->options.event) continue;
    if (grid->ready <= now && grid->has_blocks() && !grid->failed() &&
        sm.Fits(*grid)) {
      return grid;
    }
  }
  return nullptr;
}

GridRun* Kmu::ChooseShared(Cycle now, const Sm& sm, bool only_events) {
  passed_over_.clear();
  for (GridRun* const grid : kdu_) {
    if (only_events && !grid->options.event) continue;
    if (grid->ready > now || !grid->has_blocks() || grid->failed()) continue;
    // What has begun before the turns did ends first, whose ever it is.
    if (sharing_ == Sharing::kExclusive && !grid->begun() &&
        !(turns_.may_begin() && turns_.owner() == grid->options.device)) {
      continue;
    }
    if (sm.Fits(*grid)) {
      for (GridRun* const other : passed_over_) ++other->overtaken;
      return grid;
    }
    const bool takes =
        grid->options.event ? sm.takes_events() : sm.takes_others();
    if (!takes) continue;
    if (grid->overtaken >= kMostOvertakes) return nullptr;
    passed_over_.push_back(grid);
  }
  return nullptr;
}

GridRun* Kmu::ChooseSlice(Cycle now, const Sm& sm) {
  GridRun* next = nullptr;
  for (GridRun* const grid : kdu_) {
    if (grid->failed()) {
      if (grid->running != 0) return nullptr;
      continue;
    }
    if (grid == slice_grid_ && slice_left_ != 0) {
      return sm.Fits(*grid) ? grid : nullptr;
    }
    if (grid->running != 0) {
      // Blocks that wait for those which have not begun would not end.
      if (!grid->waits_for_all_blocks() || !grid->has_blocks()) return nullptr;
      next = grid;
      break;
    }
    if (next == nullptr && grid->ready <= now && grid->has_blocks()) {
      next = grid;
    }
  }
  if (next == nullptr || !sm.Fits(*next)) return nullptr;
  slice_grid_ = next;
  ++next->slices;
  const uint64_t left = next->launch.grid.count() - next->started;
  const uint64_t wave =
      uint64_t{config_.sm.count} * OccupancyOf(next->contexts, config_).blocks;
  slice_left_ = next->waits_for_all_blocks() ? left : std::min(wave, left);
  return next;
}

Cycle Kmu::NextReady(Cycle now) const {
  Cycle next = kNever;
  for (const GridRun* const grid : kdu_) {
    if (grid->ready > now) next = std::min(next, grid->ready);
  }
  return next;
}

Cycle Kmu::NextArrival(Cycle now) const {
  const bool full = kdu_.size() >= config_.dispatch.grids;
  if (full && sharing_ == Sharing::kConfigured) return kNever;
  Cycle next = kNever;
  for (const GridRun* const grid : pending_) {
    // What has come waits for somebody's end.
    if (sharing_ != Sharing::kConfigured && grid->result.submitted <= now) {
      continue;
    }
    next = std::min(next, std::max(grid->result.submitted, now + 1));
  }
  return next;
}

}  // namespace carillon::sim::timing
