// How many blocks of a kernel an SM holds, and what is free on one.
#ifndef CARILLON_SIM_TIMING_OCCUPANCY_H_
#define CARILLON_SIM_TIMING_OCCUPANCY_H_

#include <cstdint>
#include <string_view>

#include "sim/exec/warp.h"
#include "sim/timing/config.h"

namespace carillon::sim::timing {

// The resources of a block, in whole units of allocation; or of an SM.
struct Contexts {
  uint32_t blocks = 0;
  uint32_t warps = 0;
  uint32_t registers = 0;
  uint32_t shared_bytes = 0;

  bool operator==(const Contexts&) const = default;
  bool Holds(const Contexts& other) const {
    return other.blocks <= blocks && other.warps <= warps &&
           other.registers <= registers && other.shared_bytes <= shared_bytes;
  }
  void Take(const Contexts& other) {
    blocks -= other.blocks;
    warps -= other.warps;
    registers -= other.registers;
    shared_bytes -= other.shared_bytes;
  }
  void Return(const Contexts& other) {
    blocks += other.blocks;
    warps += other.warps;
    registers += other.registers;
    shared_bytes += other.shared_bytes;
  }
};

// The registers of a warp whose threads have so many.
uint32_t RegistersOfWarp(uint32_t registers, const Config& config);
Contexts ContextsOfSm(const Config& config);
// `registers` is per thread; 0: the kernel's own number.
Contexts ContextsOfBlock(const Launch& launch, uint32_t registers,
                         const Config& config);

enum class OccupancyLimit : uint8_t {
  kBlocks,
  kWarps,
  kRegisters,
  kSharedMemory,
};
std::string_view NameOf(OccupancyLimit limit);

struct Occupancy {
  uint32_t blocks = 0;                             // per SM
  OccupancyLimit limit = OccupancyLimit::kBlocks;  // the first that binds
};
Occupancy OccupancyOf(const Contexts& block, const Config& config);

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_OCCUPANCY_H_
