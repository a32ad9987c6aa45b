// How long the stages of an event kernel's events took, as histograms that are kept while tracing
// is on.
#ifndef CARILLON_GPU_DAEMON_EVENT_STAGE_HISTOGRAMS_H_
#define CARILLON_GPU_DAEMON_EVENT_STAGE_HISTOGRAMS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shm/histogram.h"
#include "shm/layout.h"

namespace carillon::gpud {

enum class Stage {
  kRungToSeen,
  kSeenToDispatched,
  kDispatchedToFinished,
  kRungToFinished
};
inline constexpr uint32_t kStages = 4;
std::string_view StageName(Stage stage);

// Thread safe.
class StageHistograms {
 public:
  StageHistograms();

  // Counts each stage whose two ends are known: a stamp of 0 is not.
  void Add(const shm::EventLife& life);
  shm::HistogramSnapshot Snapshot(Stage stage) const;
  void Reset();

 private:
  // Writers: whoever ends an event, and Reset(); readers: any thread. Relaxed:
  // each is a figure for display and orders nothing.
  std::array<std::vector<std::atomic<uint64_t>>, kStages> cells_;
  std::array<std::atomic<uint64_t>, kStages> sums_{};  // ns, modulo 2^64
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_STAGE_HISTOGRAMS_H_
