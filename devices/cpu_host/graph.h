// Random graphs in compressed sparse rows, and a plain breadth-first search as
// the reference for the GPU's result.
#ifndef CARILLON_DEVICES_CPU_HOST_GRAPH_H_
#define CARILLON_DEVICES_CPU_HOST_GRAPH_H_

#include <cstdint>
#include <vector>

namespace carillon::cpu_host {

inline constexpr uint32_t kUnvisited = 0xffffffff;

// The edges of vertex v go to columns[rows[v] .. rows[v + 1]).
struct Graph {
  std::vector<uint32_t> rows;  // vertices + 1
  std::vector<uint32_t> columns;

  uint32_t vertices() const { return static_cast<uint32_t>(rows.size() - 1); }
};

// Requires `vertices` > 0. Has `degree` edges per vertex on average, and is the
// same for the same seed on every machine. Most vertices can be reached from
// vertex 0, some cannot.
Graph RandomGraph(uint32_t vertices, uint32_t degree, uint64_t seed);

// Every vertex's distance from `source` in edges; kUnvisited if it cannot be
// reached.
std::vector<uint32_t> BreadthFirst(const Graph& graph, uint32_t source);

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_GRAPH_H_
