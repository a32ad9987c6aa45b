// Every case of kernel_cases.h on the simulated GPU, which runs the PTX that
// nvcc made of the kernels: the results are those of their CPU form.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu_daemon/backends/sim/sim_block_runner.h"
#include "gpu_daemon/backends/sim/sim_memory.h"
#include "sim/exec/memory.h"
#include "tools/gpu_check/kernel_cases.h"

namespace carillon::gpu_check {
namespace {

struct Memory {
  explicit Memory(uint64_t size)
      : bytes(new (std::align_val_t(256)) std::byte[size]()), size(size) {}
  ~Memory() { ::operator delete[](bytes, std::align_val_t(256)); }
  std::span<std::byte> span() const { return {bytes, size}; }
  std::byte* bytes;
  uint64_t size;
};

TEST(PtxCases, ComputeWhatTheCpuFormDoes) {
  gpud::PtxEngine engine(sim::Addresses::kOwn);
  ASSERT_TRUE(engine.kernels.LoadOwn().ok());
  gpud::SimBlockRunner runner(&engine);
  gpud::SimMemory gpu(&engine);
  std::vector<std::string> missing;
  for (const Case& one : MakeCases(1, &missing)) {
    SCOPED_TRACE(one.name);
    const Memory cpu_memory(Arena::BytesFor(one));
    const Memory gpu_memory(Arena::BytesFor(one));
    const auto mapping = gpu.MapHost(gpu_memory.span());
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    const Arena expected(one, cpu_memory.span());
    const Arena found(one, gpu_memory.span());
    for (const CaseLaunch& launch : one.launches) {
      expected.Feed(launch);
      found.Feed(launch);
      const uint32_t want = RunOnCpu(launch, expected.Args(launch));
      const auto args = found.Args(launch, (*mapping)->data());
      gpud::LaunchRun run;
      for (uint64_t block = 0; block < launch.kmd.grid.count(); ++block) {
        runner.Run(launch.kmd, block, args.data(), &run);
      }
      ASSERT_EQ(run.fail_status, want) << launch.kmd.kernel->name;
      const absl::Status same = CompareArenas(one, expected, found);
      ASSERT_TRUE(same.ok()) << launch.kmd.kernel->name << ": " << same;
    }
  }
}

}  // namespace
}  // namespace carillon::gpu_check
