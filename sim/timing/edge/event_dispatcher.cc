#include "sim/timing/edge/event_dispatcher.h"

#include <algorithm>
#include <tuple>

namespace carillon::sim::timing {

bool EventDispatcher::Takes(const GridRun& grid) const {
  if (grid.options.privileged) return true;
  if (!grid.options.event || grid.options.by_tb_scheduler ||
      config_.edge.path != EventPath::kWarp ||
      grid.contexts.shared_bytes != 0) {
    return false;
  }
  return config_.edge.several_victims != 0 ||
         grid.contexts.warps * grid.launch.grid.count() == 1;
}

void EventDispatcher::Submit(GridRun* grid) {
  grid->result.arrived =
      grid->result.submitted + (grid->options.privileged
                                    ? config_.edge.interrupt_cycles
                                    : config_.dispatch.device_cycles);
  const auto key = [](const GridRun* g) {
    return std::tuple(~g->options.priority, g->result.arrived, g->result.id);
  };
  pending_.insert(std::ranges::upper_bound(pending_, key(grid), {}, key), grid);
}

void EventDispatcher::Remove(const GridRun* grid) {
  std::erase(pending_, grid);
}

void EventDispatcher::Advance(Cycle now, std::deque<Sm>& sms) {
  if (pending_.empty() || blocked_) return;
  for (size_t i = 0; i < pending_.size();) {
    GridRun* const grid = pending_[i];
    if (grid->result.arrived > now || grid->failed()) {
      ++i;
      continue;
    }
    Sm* const sm = Choose(*grid, now, sms);
    if (sm == nullptr) {
      blocked_ = true;
      if (grid->options.sm == kAnySm) return;
      ++i;  // others may go elsewhere
      continue;
    }
    sm->AcceptEvent(grid, now);
    if (grid->placed == grid->launch.grid.count()) {
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

// Prefers an SM with a free context, if possible one that other kernels do not
// use; then one with a warp to preempt; then any whose table has room. Equals
// take turns.
Sm* EventDispatcher::Choose(const GridRun& grid, Cycle now,
                            std::deque<Sm>& sms) {
  Sm* best = nullptr;
  uint32_t best_rank = ~0u;
  size_t best_at = 0;
  for (size_t i = 0; i < sms.size() && best_rank != 0; ++i) {
    const size_t at = (next_sm_ + i) % sms.size();
    Sm& sm = sms[at];
    const EventWarps& table = sm.event_warps();
    const bool meant =
        grid.options.sm == kAnySm ? sm.takes_events() : grid.options.sm == at;
    if (!meant || !table.HasRoom()) continue;
    uint32_t rank = 3;
    if (!table.waiting()) {
      if (sm.Fits(grid)) {
        rank = sm.takes_others() ? 1 : 0;
      } else if (best_rank > 2 && table.HasVictims(grid, now)) {
        rank = 2;
      }
    }
    if (rank >= best_rank) continue;
    best = &sm;
    best_rank = rank;
    best_at = at;
  }
  if (best != nullptr) next_sm_ = (best_at + 1) % sms.size();
  return best;
}

Cycle EventDispatcher::NextOfPending(Cycle now) const {
  Cycle next = kNever;
  for (const GridRun* const grid : pending_) {
    if (grid->result.arrived > now) {
      next = std::min(next, grid->result.arrived);
    } else if (!blocked_) {
      return now + 1;
    }
  }
  return next;
}

}  // namespace carillon::sim::timing
