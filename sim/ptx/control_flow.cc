#include "sim/ptx/control_flow.h"

#include <algorithm>
#include <set>

#include "fmt/format.h"

namespace carillon::sim::ptx {
namespace {

bool IsBranch(const Instruction& instruction) {
  return instruction.opcode == "bra";
}
bool EndsFunction(const Instruction& instruction) {
  return instruction.opcode == "ret" || instruction.opcode == "exit" ||
         instruction.opcode == "trap";
}

}  // namespace

// By the iteration of Cooper, Harvey and Kennedy ("A
// Simple, Fast Dominance Algorithm"), on the reversed graph with the function's
// end as its root. Some blocks cannot reach the end, as in a loop that is left
// only by exit or never: the last of these in the text counts as if it led to
// the end, so that warps meet within the loop.
void FindPostDominators(std::vector<BasicBlock>& blocks) {
  const auto end = static_cast<uint32_t>(blocks.size());
  std::vector<std::vector<uint32_t>> before(end + 1);
  for (uint32_t block = 0; block < end; ++block) {
    if (blocks[block].successors.empty()) before[end].push_back(block);
    before[block] = blocks[block].predecessors;
  }
  // In postorder of the reversed graph.
  std::vector<uint32_t> order;
  std::vector<uint32_t> number(end + 1, kNoBlock);
  std::vector<std::pair<uint32_t, size_t>> path{{end, 0}};
  std::vector<bool> seen(end + 1, false);
  seen[end] = true;
  bool any_endless = false;
  std::vector<bool> endless(end + 1, false);
  std::vector<bool> leads_to_end(end + 1, false);
  for (const uint32_t block : before[end]) leads_to_end[block] = true;
  uint32_t last = end;
  while (!path.empty()) {
    auto& [block, next] = path.back();
    if (block == end && next == before[end].size()) {
      while (last > 0 && seen[last - 1]) --last;
      if (last > 0) {
        for (uint32_t b = 0; b < end && !any_endless; ++b)
          endless[b] = !seen[b];
        any_endless = true;
        leads_to_end[last - 1] = true;
        before[end].push_back(last - 1);
      }
    }
    if (next < before[block].size()) {
      const uint32_t to = before[block][next++];
      if (!seen[to]) {
        seen[to] = true;
        path.emplace_back(to, 0);
      }
      continue;
    }
    number[block] = static_cast<uint32_t>(order.size());
    order.push_back(block);
    path.pop_back();
  }
  std::vector<uint32_t> dominator(end + 1, kNoBlock);
  dominator[end] = end;
  const auto common = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (number[a] < number[b]) a = dominator[a];
      while (number[b] < number[a]) b = dominator[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const uint32_t block = *it;
      if (block == end) continue;
      uint32_t found = leads_to_end[block] ? end : kNoBlock;
      for (const uint32_t successor : blocks[block].successors) {
        if (dominator[successor] == kNoBlock ||
            endless[successor] != endless[block]) {
          continue;
        }
        found = found == kNoBlock ? successor : common(found, successor);
      }
      if (found == dominator[block]) continue;
      dominator[block] = found;
      changed = true;
    }
  }
  for (uint32_t block = 0; block < end; ++block) {
    if (dominator[block] != end) {
      blocks[block].immediate_post_dominator = dominator[block];
    }
  }
}

uint32_t ControlFlow::MeetingPoint(uint32_t instruction) const {
  const uint32_t meet = blocks[block_of[instruction]].immediate_post_dominator;
  return meet == kNoBlock ? kNoBlock : blocks[meet].begin;
}

ControlFlow AnalyzeControlFlow(const Function& function) {
  const std::vector<Instruction>& body = function.body;
  const auto count = static_cast<uint32_t>(body.size());
  std::set<uint32_t> leaders{0};
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsBranch(body[i]) && !EndsFunction(body[i])) continue;
    if (i + 1 < count) leaders.insert(i + 1);
    if (!IsBranch(body[i])) continue;
    for (const Operand& operand : body[i].operands) {
      // A label behind the last instruction is the function's end.
      if (operand.kind == Operand::Kind::kLabel && operand.index < count) {
        leaders.insert(operand.index);
      }
    }
  }
  ControlFlow flow;
  flow.block_of.resize(count);
  if (count == 0) return flow;
  for (auto leader = leaders.begin(); leader != leaders.end(); ++leader) {
    const auto next = std::next(leader);
    const uint32_t end = next == leaders.end() ? count : *next;
    for (uint32_t i = *leader; i < end; ++i) {
      flow.block_of[i] = static_cast<uint32_t>(flow.blocks.size());
    }
    flow.blocks.push_back({.begin = *leader, .end = end});
  }
  for (uint32_t block = 0; block < flow.blocks.size(); ++block) {
    std::vector<uint32_t>& successors = flow.blocks[block].successors;
    const auto add = [&](uint32_t instruction) {
      if (instruction >= count) return;
      const uint32_t to = flow.block_of[instruction];
      if (std::find(successors.begin(), successors.end(), to) ==
          successors.end()) {
        successors.push_back(to);
        flow.blocks[to].predecessors.push_back(block);
      }
    };
    const uint32_t end = flow.blocks[block].end;
    const Instruction& last = body[end - 1];
    if (IsBranch(last)) {
      for (const Operand& operand : last.operands) {
        if (operand.kind == Operand::Kind::kLabel) add(operand.index);
      }
    }
    const bool leaves = IsBranch(last) || EndsFunction(last);
    if (!leaves || last.guard) add(end);
  }
  FindPostDominators(flow.blocks);
  return flow;
}

std::string ToDot(const Module& module, const Function& function,
                  const ControlFlow& flow) {
  std::string dot = fmt::format(
      "digraph \"{}\" {{\n  node [shape=box, fontname=monospace];\n",
      function.name);
  for (uint32_t i = 0; i < flow.blocks.size(); ++i) {
    const BasicBlock& block = flow.blocks[i];
    std::string text;
    for (uint32_t at = block.begin; at < block.end; ++at) {
      const Instruction& instruction = function.body[at];
      // Show the instruction as it stands in the text, up to its semicolon.
      const char* const begin = instruction.name.data();
      const char* const end =
          module.text->data() +
          module.text->find(';', begin - module.text->data());
      text += fmt::format("{}: ", instruction.at.line);
      if (instruction.guard) {
        text += instruction.guard->negated ? "@! " : "@ ";
      }
      bool blank = false;
      for (const char* c = begin; c != end; ++c) {
        if (*c == ' ' || *c == '\t' || *c == '\n' || *c == '\r') {
          blank = true;
          continue;
        }
        if (blank) text += ' ';
        blank = false;
        if (*c == '"' || *c == '\\') text += '\\';
        text += *c;
      }
      text += "\\l";
    }
    dot += fmt::format("  b{} [label=\"{}\"];\n", i, text);
    for (const uint32_t to : block.successors) {
      dot += fmt::format("  b{} -> b{};\n", i, to);
    }
    if (block.successors.size() > 1 &&
        block.immediate_post_dominator != kNoBlock) {
      dot += fmt::format("  b{} -> b{} [style=dashed, constraint=false];\n", i,
                         block.immediate_post_dominator);
    }
  }
  return dot + "}\n";
}

}  // namespace carillon::sim::ptx
