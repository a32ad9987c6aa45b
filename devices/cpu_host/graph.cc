#include "devices/cpu_host/graph.h"

#include <random>

namespace carillon::cpu_host {

Graph RandomGraph(uint32_t vertices, uint32_t degree, uint64_t seed) {
  // The standard fixes the engine's numbers, but not those of the
  // distributions.
  std::mt19937_64 random(seed);
  Graph graph;
  graph.rows.reserve(uint64_t{vertices} + 1);
  graph.columns.reserve(uint64_t{vertices} * degree);
  graph.rows.push_back(0);
  for (uint32_t v = 0; v < vertices; ++v) {
    // 0 to 2 * degree edges give uneven work, as in real graphs.
    const auto edges =
        static_cast<uint32_t>(random() % (2 * uint64_t{degree} + 1));
    for (uint32_t i = 0; i < edges; ++i) {
      graph.columns.push_back(static_cast<uint32_t>(random() % vertices));
    }
    graph.rows.push_back(static_cast<uint32_t>(graph.columns.size()));
  }
  return graph;
}

std::vector<uint32_t> BreadthFirst(const Graph& graph, uint32_t source) {
  std::vector<uint32_t> levels(graph.vertices(), kUnvisited);
  std::vector<uint32_t> queue = {source};
  levels[source] = 0;
  for (size_t next = 0; next < queue.size(); ++next) {
    const uint32_t v = queue[next];
    for (uint32_t edge = graph.rows[v]; edge < graph.rows[v + 1]; ++edge) {
      const uint32_t neighbour = graph.columns[edge];
      if (levels[neighbour] != kUnvisited) continue;
      levels[neighbour] = levels[v] + 1;
      queue.push_back(neighbour);
    }
  }
  return levels;
}

}  // namespace carillon::cpu_host
