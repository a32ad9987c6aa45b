#include "sim/timing/occupancy.h"

#include <algorithm>

namespace carillon::sim::timing {
namespace {

uint32_t RoundUp(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

uint32_t RegistersOfWarp(uint32_t registers, const Config& config) {
  // Even a kernel without registers occupies one per thread: a warp's context
  // always takes room.
  return RoundUp(std::max(registers, 1u) * kLanes, config.sm.register_unit);
}

Contexts ContextsOfSm(const Config& config) {
  return {.blocks = config.sm.blocks,
          .warps = config.sm.warps,
          .registers = config.sm.registers,
          .shared_bytes = config.sm.shared_bytes};
}

Contexts ContextsOfBlock(const Launch& launch, uint32_t registers,
                         const Config& config) {
  const uint32_t each = registers != 0 ? registers : launch.kernel->registers;
  return {
      .blocks = 1,
      .warps = launch.block_warps(),
      .registers = RegistersOfWarp(each, config) * launch.block_warps(),
      .shared_bytes = RoundUp(launch.shared_bytes(), config.sm.shared_unit)};
}

std::string_view NameOf(OccupancyLimit limit) {
  static constexpr std::string_view kNames[] = {"blocks", "warps", "registers",
                                                "shared memory"};
  return kNames[static_cast<size_t>(limit)];
}

Occupancy OccupancyOf(const Contexts& block, const Config& config) {
  Occupancy result{config.sm.blocks, OccupancyLimit::kBlocks};
  const auto bound = [&](uint32_t has, uint32_t takes, OccupancyLimit limit) {
    if (takes == 0 || has / takes >= result.blocks) return;
    result = {has / takes, limit};
  };
  bound(config.sm.warps, block.warps, OccupancyLimit::kWarps);
  bound(config.sm.registers, block.registers, OccupancyLimit::kRegisters);
  bound(config.sm.shared_bytes, block.shared_bytes,
        OccupancyLimit::kSharedMemory);
  return result;
}

}  // namespace carillon::sim::timing
