#include "tools/cfg_sim/graph.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/ptx/control_flow.h"

namespace carillon::cfg_sim {

void FindMeetingPoints(Graph& graph) {
  std::vector<sim::ptx::BasicBlock> blocks(graph.nodes.size());
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    for (const Edge& edge : graph.nodes[i].edges) {
      blocks[i].successors.push_back(edge.to);
      blocks[edge.to].predecessors.push_back(i);
    }
  }
  sim::ptx::FindPostDominators(blocks);
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    const uint32_t meets = blocks[i].immediate_post_dominator;
    graph.nodes[i].meets = meets == sim::ptx::kNoBlock ? kEnd : meets;
  }
}

absl::Status Check(const Graph& graph) {
  if (graph.nodes.empty()) {
    return absl::InvalidArgumentError("the graph has no nodes");
  }
  for (const Node& node : graph.nodes) {
    double sum = 0;
    for (const Edge& edge : node.edges) {
      // NaN is none of these.
      if (!(edge.probability >= 0 && edge.probability <= 1)) {
        return absl::InvalidArgumentError(fmt::format(
            "node '{}': the edge to '{}' has p={}; allowed: 0 to 1", node.name,
            graph.nodes[edge.to].name, edge.probability));
      }
      sum += edge.probability;
    }
    if (!node.edges.empty() && std::fabs(sum - 1) > 1e-6) {
      return absl::InvalidArgumentError(
          fmt::format("node '{}': the probabilities of its edges add up to {}, "
                      "not to 1",
                      node.name, sum));
    }
  }
  // Forwards from the entry, and backwards from where the function ends.
  std::vector<std::vector<uint32_t>> before(graph.nodes.size());
  std::vector<uint32_t> work = {0};
  std::vector<bool> reached(graph.nodes.size()), ends(graph.nodes.size());
  reached[0] = true;
  std::vector<uint32_t> last;
  while (!work.empty()) {
    const uint32_t at = work.back();
    work.pop_back();
    const Node& node = graph.nodes[at];
    if (node.edges.empty() || node.leaves > 0) last.push_back(at);
    for (const Edge& edge : node.edges) {
      if (edge.probability == 0) continue;
      before[edge.to].push_back(at);
      if (reached[edge.to]) continue;
      reached[edge.to] = true;
      work.push_back(edge.to);
    }
  }
  work = last;
  while (!work.empty()) {
    const uint32_t at = work.back();
    work.pop_back();
    if (ends[at]) continue;
    ends[at] = true;
    work.insert(work.end(), before[at].begin(), before[at].end());
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (reached[i] && !ends[i]) {
      return absl::InvalidArgumentError(fmt::format(
          "node '{}' lies on a cycle that no edge of p>0 leads out of",
          graph.nodes[i].name));
    }
  }
  return absl::OkStatus();
}

}  // namespace carillon::cfg_sim
