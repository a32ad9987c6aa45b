#include "devices/link/link_figures.h"

#include <spdlog/spdlog.h>

#include <iterator>
#include <utility>

namespace carillon::link {
namespace {

// In the order of Show().
constexpr const char* kNames[] = {"up",        "connections", "refused",
                                  "rtt_ns",    "downs",       "down_ns",
                                  "takeovers", "in_flight"};

// Whoever makes up more does not fill the log.
constexpr size_t kMaxSaid = 64;

}  // namespace

std::vector<std::string> LinkFigures::CounterNames(bool simulated) {
  return {std::begin(kNames), std::end(kNames) - (simulated ? 1 : 0)};
}

void LinkFigures::Say(const std::string& sentence) {
  if (said_.size() >= kMaxSaid || !said_.insert(sentence).second) return;
  spdlog::warn("{}", sentence);
  if (said_.size() == kMaxSaid) {
    spdlog::warn("the log has {} such lines, and gets no more", kMaxSaid);
  }
}

void LinkFigures::Show(const mesh::LinkStatus& status, edge::Device& device) {
  if (status.refused != std::exchange(refused_, status.refused) &&
      !status.refusal.empty()) {
    Say("link refused: " + status.refusal);
  }
  if (status.takeovers != std::exchange(takeovers_, status.takeovers)) {
    Say(status.takeover);
  }
  const uint64_t values[] = {status.up,        status.connections,
                             status.refused,   status.rtt.value_or(0),
                             status.downs,     status.down,
                             status.takeovers, status.in_flight};
  static_assert(std::size(values) == std::size(kNames));
  for (size_t i = 0; i < std::size(values); ++i) {
    device.SetCounter(static_cast<uint32_t>(i), values[i]);
  }
}

}  // namespace carillon::link
