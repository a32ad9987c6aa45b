#include "gpu_daemon/event/stage_histograms.h"

namespace carillon::gpud {

std::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kRungToSeen:
      return "rung_to_seen";
    case Stage::kSeenToDispatched:
      return "seen_to_dispatched";
    case Stage::kDispatchedToFinished:
      return "dispatched_to_finished";
    case Stage::kRungToFinished:
      return "rung_to_finished";
  }
  return "unknown";
}

StageHistograms::StageHistograms() {
  for (auto& stage : cells_)
    stage = std::vector<std::atomic<uint64_t>>(shm::kHistogramBuckets);
}

void StageHistograms::Add(const shm::EventLife& life) {
  const auto add = [&](Stage stage, uint64_t from, uint64_t to) {
    if (from == 0 || to < from) return;
    cells_[static_cast<size_t>(stage)][shm::HistogramBucket(to - from)]
        .fetch_add(1, std::memory_order_relaxed);
    sums_[static_cast<size_t>(stage)].fetch_add(to - from,
                                                std::memory_order_relaxed);
  };
  add(Stage::kRungToSeen, life.rung_ns, life.seen_ns);
  add(Stage::kSeenToDispatched, life.seen_ns, life.dispatched_ns);
  add(Stage::kDispatchedToFinished, life.dispatched_ns, life.finished_ns);
  add(Stage::kRungToFinished, life.rung_ns, life.finished_ns);
}

shm::HistogramSnapshot StageHistograms::Snapshot(Stage stage) const {
  shm::HistogramSnapshot snapshot;
  const auto& cells = cells_[static_cast<size_t>(stage)];
  for (uint32_t i = 0; i < cells.size(); ++i) {
    const uint64_t count = cells[i].load(std::memory_order_relaxed);
    if (count != 0) snapshot.AddBucket(i, count);
  }
  snapshot.AddSum(
      sums_[static_cast<size_t>(stage)].load(std::memory_order_relaxed));
  return snapshot;
}

void StageHistograms::Reset() {
  for (auto& stage : cells_) {
    for (auto& cell : stage) cell.store(0, std::memory_order_relaxed);
  }
  for (auto& sum : sums_) sum.store(0, std::memory_order_relaxed);
}

}  // namespace carillon::gpud
