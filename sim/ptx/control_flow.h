// A function's control flow graph: where warps diverge, and where they
// reconverge.
#ifndef CARILLON_SIM_PTX_CONTROL_FLOW_H_
#define CARILLON_SIM_PTX_CONTROL_FLOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/ptx/module.h"

namespace carillon::sim::ptx {

inline constexpr uint32_t kNoBlock = ~uint32_t{0};

// Instructions that execute all, from the first to the last, or not at all.
struct BasicBlock {
  uint32_t begin = 0;  // an index into Function::body
  uint32_t end = 0;    // one past its last
  std::vector<uint32_t> successors;
  std::vector<uint32_t> predecessors;
  // The first block that every path from here to the function's end goes
  // through; kNoBlock if that is the end itself. A guarded ret or exit is no
  // end: some lanes leave, and the others go on. Among blocks that cannot reach
  // an end, the last in the text stands for one.
  uint32_t immediate_post_dominator = kNoBlock;
};

struct ControlFlow {
  std::vector<BasicBlock> blocks;  // in the order of the text; the first is run
                                   // first
  std::vector<uint32_t> block_of;  // each instruction's

  // Where the two sides of the branch at this instruction reconverge: an
  // instruction, or kNoBlock.
  uint32_t MeetingPoint(uint32_t instruction) const;
};

// Fills immediate_post_dominator, given successors and predecessors.
void FindPostDominators(std::vector<BasicBlock>& blocks);

// The function must have a body.
ControlFlow AnalyzeControlFlow(const Function& function);

// The graph in the DOT language: blocks with their instructions, and dashed
// edges to where diverged warps reconverge.
std::string ToDot(const Module& module, const Function& function,
                  const ControlFlow& flow);

}  // namespace carillon::sim::ptx

#endif  // CARILLON_SIM_PTX_CONTROL_FLOW_H_
