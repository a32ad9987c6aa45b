#include "tools/cfg_sim/profile.h"

#include <fmt/format.h>

#include <bit>

#include "sim/ptx/control_flow.h"

namespace carillon::cfg_sim {

using sim::Flow;

namespace {
constexpr uint32_t kMaxVisits = 1 << 12;  // that are told apart
}  // namespace

Profile::Profile(const sim::Program* program)
    : program_(program), counts_(program->ops.size()) {}

void Profile::Observe(const sim::Warp& warp) {
  const sim::Op& op = program_->ops[warp.pc()];
  const sim::LaneMask active = warp.active();
  sim::LaneMask done = active;
  if (op.guarded) {
    const sim::LaneMask guard = warp.Predicate(op.guard);
    done &= op.negated ? ~guard : guard;
  }
  const auto lanes = static_cast<uint32_t>(std::popcount(active));
  Count& count = counts_[warp.pc()];
  count.reached += lanes;
  count.done += static_cast<uint32_t>(std::popcount(done));
  const sim::Dim3& grid = warp.launch().grid;
  const sim::Dim3& at = warp.block().index();
  const uint64_t block = (uint64_t{at.z} * grid.y + at.y) * grid.x + at.x;
  if (op.flow == Flow::kBranch && op.guarded) {
    Visits& visits = visits_[&warp];
    if (visits.block != block + 1) visits = {.block = block + 1};
    std::array<uint32_t, kLanes>& of_lanes = visits.of[warp.pc()];
    std::vector<Count>& counts = by_visit_[warp.pc()];
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((active >> lane & 1) == 0) continue;
      const uint32_t visit = of_lanes[lane]++;
      if (visit >= kMaxVisits) continue;
      if (counts.size() <= visit) counts.resize(visit + 1);
      ++counts[visit].reached;
      counts[visit].done += done >> lane & 1;
    }
  }
  OfWarp& of_warp = warps_[{block, warp.index()}];
  ++of_warp.instructions;
  of_warp.of_lanes += lanes;
  ++with_lanes_[lanes];
}

Activity Profile::Measured() const {
  Activity activity{.warps = warps_.size(), .with_lanes = with_lanes_};
  for (const auto& [where, warp] : warps_) {
    activity.instructions += warp.instructions;
    activity.sum_of_ratios += static_cast<double>(warp.of_lanes) /
                              (kLanes * static_cast<double>(warp.instructions));
  }
  return activity;
}

absl::StatusOr<std::vector<Graph>> Profile::Graphs(
    const sim::ProgramFunction& kernel, View view) const {
  for (const sim::Op& op : program_->ops) {
    if (op.flow == Flow::kCall && program_->calls[op.target].by_address &&
        counts_[op.pc].done != 0) {
      return absl::UnimplementedError(
          fmt::format("line {} calls a function by its address: who is called "
                      "is in no graph",
                      program_->info[op.pc].at.line));
    }
  }
  // Graphs by their functions; GraphOf() numbers those that it finds.
  std::map<uint32_t, uint32_t> indices = {
      {static_cast<uint32_t>(&kernel - program_->functions.data()), 0}};
  std::vector<Graph> graphs;
  for (uint32_t next = 0; next < indices.size(); ++next) {
    for (const auto& [function, index] : indices) {
      if (index != next) continue;
      graphs.push_back(GraphOf(function, view, indices));
      break;
    }
  }
  return graphs;
}

Graph Profile::GraphOf(uint32_t function, View view,
                       std::map<uint32_t, uint32_t>& indices) const {
  const sim::ProgramFunction& of = program_->functions[function];
  const sim::ptx::ControlFlow flow = sim::ptx::AnalyzeControlFlow(*of.source);
  // How many of the lanes that reach an instruction execute it.
  const auto part_of = [&](uint32_t instruction, bool leaves) -> double {
    const sim::Op& op = program_->ops[of.entry + instruction];
    if (!op.guarded) return 1;
    const Count& count = counts_[op.pc];
    if (count.reached == 0) return leaves ? 0 : 0.5;
    const double part =
        static_cast<double>(count.done) / static_cast<double>(count.reached);
    return view >= View::kMeasured ||
                   (view == View::kAugmented && (part == 0 || part == 1))
               ? part
               : 0.5;
  };
  Graph graph{.name = std::string(of.name), .nodes = {}};
  // A block is one node and one more for each call, in turn.
  std::vector<uint32_t> first_of(flow.blocks.size());
  std::vector<uint32_t> last_of(flow.blocks.size());
  for (uint32_t b = 0; b < flow.blocks.size(); ++b) {
    const sim::ptx::BasicBlock& block = flow.blocks[b];
    first_of[b] = static_cast<uint32_t>(graph.nodes.size());
    graph.nodes.push_back({.name = fmt::format("b{}", b)});
    for (uint32_t i = block.begin; i < block.end; ++i) {
      Node& node = graph.nodes.back();
      ++node.instructions;
      const sim::Op& op = program_->ops[of.entry + i];
      if (op.flow != Flow::kCall) continue;
      const sim::Call& call = program_->calls[op.target];
      if (call.by_address || call.builtin != sim::Builtin::kNone) continue;
      node.callee =
          indices
              .try_emplace(call.function, static_cast<uint32_t>(indices.size()))
              .first->second;
      node.calls = part_of(i, true);
      node.edges = {{static_cast<uint32_t>(graph.nodes.size()), 1}};
      graph.nodes.push_back({.name = fmt::format("b{}+{}", b, i + 1)});
    }
    last_of[b] = static_cast<uint32_t>(graph.nodes.size()) - 1;
  }
  for (uint32_t b = 0; b < flow.blocks.size(); ++b) {
    const sim::ptx::BasicBlock& block = flow.blocks[b];
    Node& node = graph.nodes[last_of[b]];
    const uint32_t last = block.end - 1;
    const sim::ptx::Instruction& instruction = of.source->body[last];
    const uint32_t meets = block.immediate_post_dominator;
    node.meets = meets == sim::ptx::kNoBlock ? kEnd : first_of[meets];
    const auto& to = block.successors;
    const bool ends = instruction.opcode == "exit" ||
                      instruction.opcode == "ret" ||
                      instruction.opcode == "trap";
    if (ends) {
      node.leaves = part_of(last, true);
      node.exits = instruction.opcode != "ret";
    }
    if (to.size() == 2) {
      const double taken = part_of(last, false);
      node.edges = {{first_of[to[0]], taken}, {first_of[to[1]], 1 - taken}};
      const auto counts = by_visit_.find(of.entry + last);
      if (view == View::kByVisit && counts != by_visit_.end()) {
        for (const Count& count : counts->second) {
          node.first_edge_by_visit.push_back(
              static_cast<double>(count.done) /
              static_cast<double>(count.reached));
        }
      }
    } else if (to.size() == 1) {
      node.edges = {{first_of[to[0]], 1}};
    }
  }
  return graph;
}

}  // namespace carillon::cfg_sim
