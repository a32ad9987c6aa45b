// bfs_level: one level of a breadth-first search over a graph in compressed
// sparse rows. Launch it for level 0, 1, 2, ... until `changed` stays 0.
#ifndef CARILLON_KERNELS_BFS_LEVEL_CUH_
#define CARILLON_KERNELS_BFS_LEVEL_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kBfsUnvisited = 0xffffffff;

// An edge list that leaves the graph fails the event with this.
inline constexpr uint32_t kBfsBadGraph = 16;

struct BfsLevelArgs {
  simt::Span<const uint32_t> rows;
  simt::Span<const uint32_t> columns;
  simt::Span<uint32_t> levels;
  simt::Span<uint32_t> changed;
  uint32_t level;
};

// The grid may have any size: a thread takes vertices in steps of the grid's
// size.
CARILLON_KERNEL(bfs_level, BfsLevelArgs, args, self) {
  const uint64_t vertices = args.levels.size;
  if (args.rows.size < vertices + 1 || args.changed.size < 1) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  for (uint64_t v = self.global_linear(); v < vertices;
       v += self.grid_threads()) {
    // Other threads may be setting levels at this moment, but only to level+1.
    if (simt::LoadRelaxed(&args.levels[v]) != args.level) continue;
    const uint32_t begin = args.rows[v];
    const uint32_t end = args.rows[v + 1];
    if (begin > end || end > args.columns.size) {
      self.Fail(kBfsBadGraph);
      return;
    }
    for (uint32_t edge = begin; edge < end; ++edge) {
      const uint32_t neighbour = args.columns[edge];
      if (neighbour >= vertices) {
        self.Fail(kBfsBadGraph);
        return;
      }
      uint32_t* cell = &args.levels[neighbour];
      if (simt::LoadRelaxed(cell) == kBfsUnvisited &&
          simt::AtomicCas(cell, kBfsUnvisited, args.level + 1) ==
              kBfsUnvisited) {
        simt::StoreRelaxed(&args.changed[0], 1u);
      }
    }
  }
}

inline const char* CheckBfsLevel(const simt::LaunchShape&,
                                 const BfsLevelArgs& args) {
  if (args.rows.size < args.levels.size + 1) {
    return "rows must have one entry more than levels";
  }
  if (args.changed.size < 1) return "changed must have one entry";
  return nullptr;
}

CARILLON_KERNEL_INFO(
    bfs_level, BfsLevelArgs, "one level of a breadth-first search",
    simt::Registers(20)
        .From("breadth-first search on sparse rows")
        .Oracle("NumPy, SciPy")
        .Validate<&CheckBfsLevel>(),
    CARILLON_PARAM(BfsLevelArgs, rows,
                   "first edge of each vertex, and the number of edges"),
    CARILLON_PARAM(BfsLevelArgs, columns, "target vertex of each edge"),
    CARILLON_PARAM(BfsLevelArgs, levels,
                   "of each vertex: 0 for the source, 0xffffffff unvisited"),
    CARILLON_PARAM(BfsLevelArgs, changed,
                   "one word, set to 1 when a vertex was reached"),
    CARILLON_PARAM(BfsLevelArgs, level, "whose vertices are expanded"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BFS_LEVEL_CUH_
