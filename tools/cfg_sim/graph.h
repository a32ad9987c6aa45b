// Control flow graphs with what CFG-Sim needs to know of them (Hetherington's
// thesis, 3.2): how many instructions a block has, and how often each way out of
// it is taken.
#ifndef CARILLON_TOOLS_CFG_SIM_GRAPH_H_
#define CARILLON_TOOLS_CFG_SIM_GRAPH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace carillon::cfg_sim {

inline constexpr uint32_t kEnd = ~uint32_t{0};  // of the function

struct Edge {
  uint32_t to = kEnd;
  double probability = 0;
};

// A basic block, or the part of one that ends with a call.
struct Node {
  std::string name;
  uint64_t instructions = 0;
  std::vector<Edge> edges;  // none: here the function ends
  // Diverged lanes meet at this node: its immediate post-dominator.
  uint32_t meets = kEnd;
  // So many of the lanes return by a predicated instruction at its end, without
  // a branch; or, if `exits`, end the thread. The others take an edge.
  double leaves = 0;
  bool exits = false;
  // If not empty: the probability of the first of two edges when a lane comes
  // here for the first time, the second, ...; later, it is the edge's own.
  std::vector<double> first_edge_by_visit;
  // So many of the lanes call the graph of this index before that.
  uint32_t callee = kEnd;
  double calls = 0;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;  // the first is the entry
};

// Reads a graph in the DOT language:
//
//   digraph {
//     a [insns=6]; b [insns=2]; c [insns=35];
//     a -> b [p=0.25];
//     a -> c;            // the rest, in equal parts if there are more
//     b -> c;
//   }
//
// The first node of the text is the entry, and nodes without edges end. Other
// attributes do not count; subgraphs and ports are refused. An edge of p=0 counts
// for where lanes meet. Errors: InvalidArgument (with the line), also where
// Check() finds something.
absl::StatusOr<Graph> ReadDot(std::string_view text);

// Fills Node::meets.
void FindMeetingPoints(Graph& graph);

// Whether probabilities lie in 0..1 and add up to 1, and every node that is
// reached leads to the end. Errors: InvalidArgument (names the node).
absl::Status Check(const Graph& graph);

}  // namespace carillon::cfg_sim

#endif  // CARILLON_TOOLS_CFG_SIM_GRAPH_H_
