// How long the anchors take, in the GPU's cycles and in the host's time.
//
//   bazel run //sim/timing:timing_benchmark [-- PRESET]
//
// With STATISTICS set in the environment it prints all counters as well.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "fmt/format.h"
#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

int Run(std::string_view name, const Config& config, KernelRunner& runner,
        const Launch& launch) {
  Gpu gpu(config, &runner.memory(), {});
  // The processor's time: others may have the cores as well.
  const std::clock_t begin = std::clock();
  const auto grid = gpu.Submit(launch, {});
  if (!grid.ok()) {
    fmt::print(stderr, "{}\n", grid.status().ToString());
    return 1;
  }
  gpu.Run();
  const double took =
      static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const GridResult& result = *gpu.result(*grid);
  if (!result.status.ok()) {
    fmt::print(stderr, "{}\n", result.status.ToString());
    return 1;
  }
  const auto instructions = static_cast<double>(result.warp_instructions);
  const auto cycles = static_cast<double>(gpu.cycle());
  fmt::print(
      "{:<16} {:>9} cycles {:>9} warp instructions  IPC {:5.2f}  {:6.3f} s  "
      "{:5.2f} M instructions/s  {:6.1f} k cycles/s\n",
      name, gpu.cycle(), result.warp_instructions, instructions / cycles, took,
      instructions / took / 1e6, cycles / took / 1e3);
  if (std::getenv("STATISTICS") != nullptr) {
    fmt::print("{}\n", ToJson(gpu.statistics()));
  }
  return 0;
}

int Main(const char* preset) {
  const auto config = LoadConfig(preset);
  if (!config.ok()) {
    fmt::print(stderr, "{}\n", config.status().ToString());
    return 2;
  }
  int failed = 0;
  {
    KernelRunner runner;
    failed |= Run("vectoradd 1M", *config, runner, runner.VectorAdd(1 << 20));
  }
  {
    KernelRunner runner;
    failed |= Run("matmul 256", *config, runner, runner.MatrixProduct(256));
  }
  return failed;
}

}  // namespace
}  // namespace carillon::sim::timing

int main(int argc, char** argv) {
  return carillon::sim::timing::Main(argc > 1 ? argv[1] : "edge_table2");
}
