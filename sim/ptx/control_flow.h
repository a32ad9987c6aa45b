// A function's control flow graph: where warps divide, and where they meet.
#ifndef CARILLON_SIM_PTX_CONTROL_FLOW_H_
#define CARILLON_SIM_PTX_CONTROL_FLOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/ptx/module.h"

namespace carillon::sim::ptx {

inline constexpr uint32_t kNoBlock = ~uint32_t{0};

// Instructions that are executed from the first to the last, or not at all.
struct BasicBlock {
  uint32_t begin = 0;  // of Function::body
  uint32_t end = 0;    // one past its last
  std::vector<uint32_t> successors;
  std::vector<uint32_t> predecessors;
  // The first block that every path from here to the function's end goes
  // through; kNoBlock: there is none but the end itself. A guarded ret or exit
  // is no end: its lanes are gone, and the others go on. Of blocks from which
  // there is no way to an end, the last in the text stands for one.
  uint32_t immediate_post_dominator = kNoBlock;
};

struct ControlFlow {
  std::vector<BasicBlock> blocks;  // in the order of the text; the first is run
                                   // first
  std::vector<uint32_t> block_of;  // each instruction's

  // Where the two sides of the branch at this instruction meet: an instruction,
  // or kNoBlock.
  uint32_t MeetingPoint(uint32_t instruction) const;
};

// Of a function that is defined.
ControlFlow AnalyzeControlFlow(const Function& function);

// As a graph in the DOT language: blocks with their instructions, and dashed
// edges to where divided warps meet.
std::string ToDot(const Module& module, const Function& function,
                  const ControlFlow& flow);

}  // namespace carillon::sim::ptx

#endif  // CARILLON_SIM_PTX_CONTROL_FLOW_H_
