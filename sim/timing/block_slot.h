// A thread block on an SM, and what preemption has to know of it.
#ifndef CARILLON_SIM_TIMING_BLOCK_SLOT_H_
#define CARILLON_SIM_TIMING_BLOCK_SLOT_H_

#include <cstdint>
#include <memory>

#include "sim/exec/warp.h"
#include "sim/timing/edge/event_warps.h"
#include "sim/timing/grid.h"
#include "sim/timing/occupancy.h"
#include "sim/timing/warp_context.h"

namespace carillon::sim::timing {

struct BlockSlot {
  // Warps point to it, so it stays where it is when a block leaves its slot.
  std::unique_ptr<Block> block = std::make_unique<Block>();
  GridRun* grid = nullptr;  // nullptr: free
  WarpMask warps = 0;       // unfinished warps that are in their slots
  uint32_t away = 0;        // unfinished warps that are away as EDGE's victims
  uint32_t entry = EventWarps::kNoEntry;  // the event's entry in the table
  Contexts contexts;
  Cycle started = 0;  // moved on by the time for which it stood still
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_BLOCK_SLOT_H_
