#include "sim/timing/occupancy.h"

#include <gtest/gtest.h>

namespace carillon::sim::timing {
namespace {

struct Kernel {
  const char* name;
  uint32_t threads;
  uint32_t registers;
  uint32_t shared;
  uint32_t blocks;
  OccupancyLimit limit;
};

void Check(const Config& config, const std::vector<Kernel>& kernels) {
  for (const Kernel& kernel : kernels) {
    const ProgramFunction function{.registers = kernel.registers,
                                   .static_shared_bytes = kernel.shared};
    const Launch launch{.kernel = &function, .block = {kernel.threads, 1, 1}};
    const Occupancy occupancy =
        OccupancyOf(ContextsOfBlock(launch, 0, config), config);
    EXPECT_EQ(occupancy.blocks, kernel.blocks) << kernel.name;
    EXPECT_EQ(NameOf(occupancy.limit), NameOf(kernel.limit)) << kernel.name;
  }
}

// Registers from ptxas, sizes from research: 64 warps, 16 blocks, 65,536
// registers in units of 128 a warp, 48 KB in units of 128.
TEST(Occupancy, OfTheWorkloadsOnEdgesTableTwo) {
  using enum OccupancyLimit;
  Check(*LoadConfig("edge_table2"),
        {
            {"matmul", 256, 39, 2048, 6, kRegisters},  // 8 * 1280 each
            {"vectoradd", 256, 12, 0, 8, kWarps},
            {"conv", 128, 34, 1600, 14, kRegisters},  // 4 * 1152
            {"bfs", 512, 20, 0, 4, kWarps},
            {"bp_forward", 256, 16, 1088, 8, kWarps},
            {"kmeans", 256, 60, 0, 4, kRegisters},
            {"event of a warp", 32, 16, 0, 16, kBlocks},
            {"srad", 256, 22, 6144, 8, kWarps},
            {"half of shared memory", 64, 16, 24576, 2, kSharedMemory},
            {"one byte more", 64, 16, 24577, 1, kSharedMemory},
            {"a partial warp", 33, 16, 0, 16, kBlocks},
        });
}

TEST(Occupancy, RoundsToTheUnitsOfAllocation) {
  const Config config = *LoadConfig("gtx980");
  const ProgramFunction function{.registers = 33, .static_shared_bytes = 257};
  const Launch launch{
      .kernel = &function, .block = {65, 1, 1}, .dynamic_shared_bytes = 256};
  EXPECT_EQ(ContextsOfBlock(launch, 0, config),
            (Contexts{.blocks = 1,
                      .warps = 3,
                      .registers = 3 * 1280,  // 33 * 32 = 1056
                      .shared_bytes = 768}));
}

TEST(Occupancy, RegistersCanBeSaidByTheLaunch) {
  const Config config = *LoadConfig("edge_table2");
  const ProgramFunction function{.registers = 100};
  const Launch launch{.kernel = &function, .block = {32, 1, 1}};
  EXPECT_EQ(ContextsOfBlock(launch, 0, config).registers, 3200u);
  EXPECT_EQ(ContextsOfBlock(launch, 16, config).registers, 512u);
}

TEST(Contexts, WhatIsTakenComesBack) {
  const Contexts all = ContextsOfSm(*LoadConfig("tiny"));
  Contexts free = all;
  const Contexts block{1, 4, 2048, 512};
  free.Take(block);
  EXPECT_EQ(free, (Contexts{3, 4, 6144, 15872}));
  EXPECT_TRUE(free.Holds(block));
  free.Take(block);
  EXPECT_FALSE(free.Holds(block));  // no warps
  free.Return(block);
  free.Return(block);
  EXPECT_EQ(free, all);
}

}  // namespace
}  // namespace carillon::sim::timing
