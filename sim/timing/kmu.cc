#include "sim/timing/kmu.h"

#include <algorithm>
#include <tuple>

namespace carillon::sim::timing {
namespace {

// Inserts the grid before those of lower priority and those that come later.
void Insert(std::vector<GridRun*>& grids, GridRun* grid, bool events_first) {
  const auto key = [&](const GridRun* g) {
    return std::tuple(!(events_first && g->options.event), ~g->options.priority,
                      g->result.submitted, g->result.id);
  };
  grids.insert(std::ranges::upper_bound(grids, key(grid), {}, key), grid);
}

}  // namespace

void Kmu::Submit(GridRun* grid) {
  Insert(pending_, grid, events_first_);
  if (kdu_.size() < config_.dispatch.grids) {
    next_ = std::min(next_, grid->result.submitted);
  }
}

void Kmu::Remove(const GridRun* grid) {
  std::erase(pending_, grid);
  std::erase(kdu_, grid);
  Unblock();
}

bool Kmu::MakeRoom(const GridRun& grid) {
  if (kdu_.size() < config_.dispatch.grids) return true;
  if (!displaces_ || kdu_.back()->options.event ||
      kdu_.back()->options.priority >= grid.options.priority) {
    return false;
  }
  GridRun* const displaced = kdu_.back();
  kdu_.pop_back();
  displaced->in_kdu = false;
  Insert(pending_, displaced, events_first_);
  return true;
}

bool Kmu::FillKdu(Cycle now) {
  bool filled = false;
  for (size_t i = 0; i < pending_.size();) {
    GridRun* const grid = pending_[i];
    if (grid->result.submitted > now) {
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
    Insert(kdu_, grid, events_first_);
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

GridRun* Kmu::Choose(Cycle now, const Sm& sm) const {
  const bool only_events = (hold_others_ || events_wait_) && sm.takes_events();
  for (GridRun* const grid : kdu_) {
    if (only_events && !grid->options.event) continue;
    if (grid->ready <= now && grid->has_blocks() && !grid->failed() &&
        sm.Fits(*grid)) {
      return grid;
    }
  }
  return nullptr;
}

Cycle Kmu::NextReady(Cycle now) const {
  Cycle next = kNever;
  for (const GridRun* const grid : kdu_) {
    if (grid->ready > now) next = std::min(next, grid->ready);
  }
  return next;
}

Cycle Kmu::NextArrival(Cycle now) const {
  if (kdu_.size() >= config_.dispatch.grids) return kNever;
  Cycle next = kNever;
  for (const GridRun* const grid : pending_) {
    next = std::min(next, std::max(grid->result.submitted, now + 1));
  }
  return next;
}

}  // namespace carillon::sim::timing
