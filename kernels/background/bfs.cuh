// bfs_expand, bfs_commit: one level of a breadth-first search in two
// kernels, as in Rodinia's bfs. The first expands the frontier, the second
// makes the nodes that were reached the next frontier. Launch both until `over`
// stays 0. A background kernel of EDGE's figures.
#ifndef CARILLON_KERNELS_BACKGROUND_BFS_CUH_
#define CARILLON_KERNELS_BACKGROUND_BFS_CUH_

#include "kernels/background/types.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kBfsBlock = 512;

// An edge list that leaves the graph fails the event with this.
inline constexpr uint32_t kBfsBadEdges = 16;

struct BfsExpandArgs {
  simt::Span<const BfsNode> nodes;
  simt::Span<const uint32_t> edges;  // target of each
  simt::Span<uint8_t> frontier;      // 0 or 1 a node, as the next two
  simt::Span<uint8_t> reached;
  simt::Span<const uint8_t> visited;
  simt::Span<uint32_t> cost;
};

struct BfsCommitArgs {
  simt::Span<uint8_t> frontier;
  simt::Span<uint8_t> reached;
  simt::Span<uint8_t> visited;
  simt::Span<uint8_t> over;  // one byte, set to 1 when a node was reached
};

// Threads of several blocks may store here at once, but they all store the same
// value.
template <class T>
CARILLON_DEVICE void BfsStoreSame(T* to, T value) {
#if defined(__CUDACC__)
  *to = value;
#else
  simt::StoreRelaxed(to, value);
#endif
}

inline const char* CheckBfsShape(const simt::LaunchShape& shape) {
  return shape.block == simt::Dim3{kBfsBlock, 1, 1}
             ? nullptr
             : "blocks have 512x1x1 threads, one a node";
}

CARILLON_KERNEL(bfs_expand, BfsExpandArgs, args, self) {
  const uint64_t count = args.nodes.size;
  if (self.block_dim() != simt::Dim3{kBfsBlock, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  if (args.frontier.size < count || args.reached.size < count ||
      args.visited.size < count || args.cost.size < count) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t i = self.global_x();
  if (i >= count || args.frontier[i] == 0) return;
  args.frontier[i] = 0;
  const BfsNode node = args.nodes[i];
  if (!args.edges.InBounds(node.first_edge, node.edge_count)) {
    self.Fail(kBfsBadEdges);
    return;
  }
  const uint32_t cost = args.cost[i] + 1;
  const uint64_t end = static_cast<uint64_t>(node.first_edge) + node.edge_count;
  for (uint64_t edge = node.first_edge; edge < end; ++edge) {
    const uint32_t target = args.edges[edge];
    if (target >= count) {
      self.Fail(kBfsBadEdges);
      return;
    }
    if (args.visited[target] == 0) {
      BfsStoreSame(&args.cost[target], cost);
      BfsStoreSame(&args.reached[target], uint8_t{1});
    }
  }
}

inline const char* CheckBfsExpand(const simt::LaunchShape& shape,
                                  const BfsExpandArgs& args) {
  const uint64_t count = args.nodes.size;
  if (args.frontier.size < count || args.reached.size < count ||
      args.visited.size < count || args.cost.size < count) {
    return "frontier, reached, visited and cost must have an element a node";
  }
  if (static_cast<uint64_t>(shape.grid.x) * kBfsBlock < count) {
    return "the grid must cover the nodes: ceil(nodes / 512) blocks";
  }
  return CheckBfsShape(shape);
}

CARILLON_KERNEL_INFO(
    bfs_expand, BfsExpandArgs,
    "breadth-first search: what the frontier's nodes reach",
    simt::Registers(16)
        .From("Rodinia bfs (EDGE: BFS)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Shape<&CheckBfsShape>()
        .Validate<&CheckBfsExpand>(),
    CARILLON_PARAM(BfsExpandArgs, nodes,
                   "first edge and number of edges of each node"),
    CARILLON_PARAM(BfsExpandArgs, edges, "target node of each edge"),
    CARILLON_PARAM(BfsExpandArgs, frontier,
                   "1 for the nodes to expand, which become 0"),
    CARILLON_PARAM(BfsExpandArgs, reached, "1 for the nodes that were reached"),
    CARILLON_PARAM(BfsExpandArgs, visited, "1 for the nodes that have a cost"),
    CARILLON_PARAM(BfsExpandArgs, cost, "edges from the source"));

CARILLON_KERNEL(bfs_commit, BfsCommitArgs, args, self) {
  const uint64_t count = args.reached.size;
  if (self.block_dim() != simt::Dim3{kBfsBlock, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    return;
  }
  if (args.frontier.size < count || args.visited.size < count ||
      args.over.size < 1) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t i = self.global_x();
  if (i >= count || args.reached[i] == 0) return;
  args.frontier[i] = 1;
  args.visited[i] = 1;
  BfsStoreSame(&args.over[0], uint8_t{1});
  args.reached[i] = 0;
}

inline const char* CheckBfsCommit(const simt::LaunchShape& shape,
                                  const BfsCommitArgs& args) {
  const uint64_t count = args.reached.size;
  if (args.frontier.size < count || args.visited.size < count) {
    return "frontier and visited must have as many elements as reached";
  }
  if (args.over.size < 1) return "over must have one element";
  if (static_cast<uint64_t>(shape.grid.x) * kBfsBlock < count) {
    return "the grid must cover the nodes: ceil(nodes / 512) blocks";
  }
  return CheckBfsShape(shape);
}

CARILLON_KERNEL_INFO(
    bfs_commit, BfsCommitArgs,
    "breadth-first search: what was reached becomes the frontier",
    simt::Registers(12)
        .From("Rodinia bfs (EDGE: BFS)")
        .Oracle("NumPy, SciPy")
        .LaunchedOnly()
        .Shape<&CheckBfsShape>()
        .Validate<&CheckBfsCommit>(),
    CARILLON_PARAM(BfsCommitArgs, frontier, "becomes 1 for what was reached"),
    CARILLON_PARAM(BfsCommitArgs, reached,
                   "1 for the nodes that were reached, which become 0"),
    CARILLON_PARAM(BfsCommitArgs, visited, "becomes 1 for what was reached"),
    CARILLON_PARAM(BfsCommitArgs, over,
                   "one byte, set to 1 when a node was reached"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_BFS_CUH_
