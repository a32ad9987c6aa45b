#include "tools/cfg_sim/walk.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <map>
#include <random>

#include "base/status.h"

namespace carillon::cfg_sim {
namespace {

constexpr uint64_t kMaxNodes = 10'000'000;
constexpr int kMaxDepth = 1000;

class Warp {
 public:
  Warp(std::span<const Graph> graphs, std::mt19937_64& random, uint32_t lanes,
       Activity& activity)
      : graphs_(graphs),
        random_(random),
        activity_(activity),
        live_(lanes >= kLanes ? ~uint32_t{0} : (uint32_t{1} << lanes) - 1) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Call(0, live_));
    ++activity_.warps;
    activity_.instructions += instructions_;
    if (instructions_ != 0) {
      activity_.sum_of_ratios += static_cast<double>(of_lanes_) /
                                 (kLanes * static_cast<double>(instructions_));
    }
    return absl::OkStatus();
  }

 private:
  // Lanes at a node, and where they wait for others. Lanes that have left since
  // count no more.
  struct Entry {
    uint32_t node;
    uint32_t meets;
    uint32_t lanes;
  };

  uint32_t Draw(uint32_t lanes, double probability) {
    if (probability <= 0) return 0;
    if (probability >= 1) return lanes;
    uint32_t drawn = 0;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      if (uniform_(random_) < probability) drawn |= rest & -rest;
    }
    return drawn;
  }

  // The lanes come back together, but for those that have exited.
  absl::Status Call(uint32_t index, uint32_t lanes) {
    const Graph& graph = graphs_[index];
    if (++depth_ > kMaxDepth) {
      return absl::ResourceExhaustedError(fmt::format(
          "calls of '{}' nest deeper than {}", graph.name, kMaxDepth));
    }
    uint32_t inside = lanes;
    std::vector<Entry> stack = {{0, kEnd, lanes}};
    while (!stack.empty()) {
      Entry& top = stack.back();
      top.lanes &= inside & live_;
      if (top.node == top.meets || top.lanes == 0) {
        stack.pop_back();
        continue;
      }
      const Node& node = graph.nodes[top.node];
      if (++nodes_ > kMaxNodes) {
        return absl::ResourceExhaustedError(
            fmt::format("a warp has walked through {} nodes and is at '{}': "
                        "its loops hardly end",
                        kMaxNodes, node.name));
      }
      const auto active = static_cast<uint32_t>(std::popcount(top.lanes));
      instructions_ += node.instructions;
      of_lanes_ += node.instructions * active;
      activity_.with_lanes[active] += node.instructions;
      if (node.callee != kEnd) {
        const uint32_t calling = Draw(top.lanes, node.calls);
        if (calling != 0) RETURN_IF_ERROR(Call(node.callee, calling));
        top.lanes &= live_;
      }
      const uint32_t leaving = Draw(top.lanes, node.leaves);
      (node.exits ? live_ : inside) &= ~leaving;
      top.lanes &= ~leaving;
      Branch(node, &node - graph.nodes.data(), index, stack);
    }
    --depth_;
    return absl::OkStatus();
  }

  // The lanes that take the first of two edges, by how often each was here.
  uint32_t DrawByVisit(const Node& node, uint64_t place, uint32_t lanes) {
    std::array<uint32_t, kLanes>& visits = visits_[place];
    uint32_t drawn = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const uint32_t visit = visits[lane]++;
      drawn |= Draw(1u << lane, visit < node.first_edge_by_visit.size()
                                    ? node.first_edge_by_visit[visit]
                                    : node.edges[0].probability);
    }
    return drawn;
  }

  void Branch(const Node& node, uint64_t at, uint64_t graph,
              std::vector<Entry>& stack) {
    const Entry top = stack.back();
    if (node.edges.size() < 2) {
      stack.back().node = node.edges.empty() ? kEnd : node.edges[0].to;
      return;
    }
    ways_.clear();
    double left = 1;
    uint32_t lanes = top.lanes;
    const bool by_visit = !node.first_edge_by_visit.empty();
    for (const Edge& edge : node.edges) {
      // Sums of probabilities are not exact.
      const bool all = by_visit ? &edge != node.edges.data()
                                : edge.probability > left - 1e-9;
      const uint32_t taken = all ? lanes
                             : by_visit
                                 ? DrawByVisit(node, graph << 32 | at, lanes)
                                 : Draw(lanes, edge.probability / left);
      left -= edge.probability;
      lanes &= ~taken;
      if (taken != 0) ways_.push_back({edge.to, node.meets, taken});
    }
    if (ways_.size() < 2) {
      if (!ways_.empty()) stack.back().node = ways_[0].node;
      return;
    }
    // As the simulator does it: the lanes may join an entry that waits for them
    // at the same place already.
    stack.back().node = node.meets;
    if (node.meets == top.meets) stack.pop_back();
    for (const Entry& way : ways_) {
      if (way.node != way.meets) stack.push_back(way);
    }
  }

  const std::span<const Graph> graphs_;
  std::mt19937_64& random_;
  Activity& activity_;
  uint32_t live_;  // lanes that have not exited
  int depth_ = 0;
  uint64_t nodes_ = 0;
  uint64_t instructions_ = 0;
  uint64_t of_lanes_ = 0;
  std::uniform_real_distribution<double> uniform_;
  std::vector<Entry> ways_;
  std::map<uint64_t, std::array<uint32_t, kLanes>>
      visits_;  // by graph and node
};

}  // namespace

absl::StatusOr<Activity> Walk(std::span<const Graph> graphs,
                              const WalkOptions& options) {
  std::mt19937_64 random(options.seed);
  Activity activity;
  for (uint32_t i = 0; i < options.warps; ++i) {
    Warp warp(graphs, random, options.lanes[i % options.lanes.size()],
              activity);
    RETURN_IF_ERROR(warp.Run());
  }
  return activity;
}

}  // namespace carillon::cfg_sim
