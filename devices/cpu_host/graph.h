// Random graphs in compressed sparse rows, and the plain breadth-first search
// that the GPU's answer is compared with.
#ifndef CARILLON_DEVICES_CPU_HOST_GRAPH_H_
#define CARILLON_DEVICES_CPU_HOST_GRAPH_H_

#include <cstdint>
#include <vector>

namespace carillon::cpu_host {

inline constexpr uint32_t kUnvisited = 0xffffffff;

// Edges go from a vertex to columns[rows[v] .. rows[v + 1]).
struct Graph {
  std::vector<uint32_t> rows;  // vertices + 1
  std::vector<uint32_t> columns;

  uint32_t vertices() const { return static_cast<uint32_t>(rows.size() - 1); }
};

// `vertices` > 0, `degree` edges a vertex on average, the same graph for the
// same seed on every machine. Most vertices can be reached from vertex 0, some
// cannot.
Graph RandomGraph(uint32_t vertices, uint32_t degree, uint64_t seed);

// Distance of every vertex from `source`, in edges; kUnvisited for those out of
// reach.
std::vector<uint32_t> BreadthFirst(const Graph& graph, uint32_t source);

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_GRAPH_H_
