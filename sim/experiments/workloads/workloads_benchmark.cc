// How long each workload of the figures takes alone, in the GPU's cycles beside
// EDGE's, and in the host's time; and how long a block of PEP's kernels takes
// beside PEP's Table 1.
//
//   bazel run //sim/experiments:workloads_benchmark --
//       [PRESET [NAME...]]
#include <algorithm>
#include <ctime>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "sim/experiments/workloads/background.h"
#include "sim/experiments/workloads/event_kernel.h"
#include "sim/experiments/workloads/isolated.h"
#include "sim/experiments/workloads/pep_kernels.h"
#include "sim/timing/occupancy.h"

namespace carillon::sim::figures {
namespace {

// EDGE VI and its artifact.
const std::map<std::string_view, double> kPaper = {
    {"CONV1", 917947}, {"MM", 917025},  {"BP", 698933},  {"IPv4", 2300},
    {"IPv6", 2300},    {"MemC", 22936}, {"IPSec", 24171}};

void Print(std::string_view name, std::string_view size,
           const absl::StatusOr<IsolatedRun>& run, double seconds) {
  if (!run.ok()) {
    fmt::print("{:<6} {}\n", name, run.status().ToString());
    return;
  }
  const auto paper = kPaper.find(name);
  const std::string beside =
      paper == kPaper.end()
          ? fmt::format("{:>15}", "")
          : fmt::format("{:>7} {:6.2f}x", paper->second,
                        static_cast<double>(run->cycles) / paper->second);
  fmt::print(
      "{:<6} {:>8} cycles {} {:>9} warp instructions in {:>3} launches  "
      "IPC {:5.2f}  {:6.2f} s  {:5.2f} M/s  {:6.1f} k cycles/s  {}\n",
      name, run->cycles, beside, run->warp_instructions, run->launches,
      run->ipc(), seconds,
      static_cast<double>(run->warp_instructions) / seconds / 1e6,
      static_cast<double>(run->statistics.cycles) / seconds / 1e3, size);
  std::fflush(stdout);
}

std::string ToText(const Dim3& size) {
  return fmt::format("{}x{}x{}", size.x, size.y, size.z);
}

// The launch and the mean time of a block, if it is one of PEP's kernels.
void PrintBlocks(Background& background, const IsolatedRun& run,
                 const timing::Config& config) {
  const auto kernel = std::ranges::find(PepKernels(), background.name(),
                                        &PepKernel::background);
  if (kernel == PepKernels().end()) return;
  background.Start(1);
  const Launch launch = *background.Next();
  const uint32_t registers = background.registers() != 0
                                 ? background.registers()
                                 : launch.kernel->registers;
  const timing::Contexts block =
      timing::ContextsOfBlock(launch, registers, config);
  const timing::Occupancy occupancy = timing::OccupancyOf(block, config);
  fmt::print(
      "       {} blocks of {}, {} registers, {} bytes shared: {} on an SM, "
      "each {:.1f} us; PEP's {}: {} us\n",
      ToText(launch.grid), ToText(launch.block), registers,
      launch.dynamic_shared_bytes, occupancy.blocks,
      run.block_cycles / config.clock.core_mhz, kernel->name, kernel->block_us);
}

int Main(std::span<char*> arguments) {
  const auto config =
      timing::LoadConfig(arguments.size() > 1 ? arguments[1] : "edge_table2");
  if (!config.ok()) {
    fmt::print(stderr, "{}\n", config.status().ToString());
    return 2;
  }
  const auto chosen = [&](std::string_view name) {
    return arguments.size() < 3 ||
           std::ranges::find(arguments.subspan(2), name) != arguments.end();
  };
  for (const std::string_view name : BackgroundNames()) {
    if (!chosen(name)) continue;
    Memory memory;
    const auto kernels = Kernels::Load(&memory);
    const auto background = MakeBackground(name, Size::kFull, kernels->get());
    // The processor's time: others may have the cores as well. With the filling
    // of buffers and the check.
    const std::clock_t begin = std::clock();
    const auto run = RunIsolated(*config, **background, memory, 1);
    Print(name, (*background)->size(), run,
          static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    if (run.ok()) PrintBlocks(**background, *run, *config);
  }
  for (const std::string_view name : EventKernelNames()) {
    if (!chosen(name)) continue;
    constexpr uint32_t kSlots = 16;
    Memory memory;
    const auto kernels = Kernels::Load(&memory);
    const auto event =
        MakeEventKernel(name, Size::kFull, kSlots, kernels->get());
    const std::clock_t begin = std::clock();
    const auto run = RunIsolated(*config, **event, memory, 1, kSlots);
    Print(name, "mean of 16", run,
          static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return 0;
}

}  // namespace
}  // namespace carillon::sim::figures

int main(int argc, char** argv) {
  return carillon::sim::figures::Main({argv, static_cast<size_t>(argc)});
}
