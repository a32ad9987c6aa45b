// Latencies and bandwidths of a simulated GPU's memory, as microbenchmarks
// measure them on real ones (docs/sim_calibration.md has both).
//
//   bazel run //sim/timing:memory_benchmark [-- PRESET]
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

constexpr uint32_t kLine = 128;
constexpr uint32_t kThreads = 256;

class Benchmark {
 public:
  explicit Benchmark(Config config) : config_(std::move(config)) {}

  void Run() {
    // Half of the L1, what only the L2 holds, and twice the L2.
    Latency("L1, or L2 where it caches no global loads", config_.l1.bytes / 2);
    Latency("L2", std::max(config_.l1.bytes * 4, config_.l2.bytes / 4));
    Latency("DRAM", config_.l2.bytes * 2);
    constexpr uint32_t kBytes = 16 << 20;
    constexpr uint32_t kWords = kBytes / 4;
    Bandwidth("read", "read", kBytes, {kWords});
    Bandwidth("write", "write", kBytes, {kWords});
    Bandwidth("copy, both ways together", "copy", 2.0 * kBytes, {kWords});
    for (const uint32_t stride : {8u, 32u, 256u}) {
      Bandwidth(fmt::format("words {} bytes apart, words only", stride * 4),
                "strided", kBytes / stride, {kWords, stride});
    }
    constexpr uint32_t kEach = 16;
    Bandwidth("words anywhere, words only", "scattered",
              4.0 * kEach * Threads(), {kWords, kEach});
    Bandwidth("one line of the L2, by all warps", "hot",
              4.0 * kEach * Threads(), {kEach});
    Bandwidth("one word, added to by all lanes", "add", 4.0 * kEach * Threads(),
              {kEach});
  }

 private:
  uint32_t Blocks() const { return config_.sm.count * 8; }
  uint32_t Threads() const { return Blocks() * kThreads; }

  Cycle Cycles(KernelRunner& runner, const Launch& launch) {
    Gpu gpu(config_, &runner.memory(), {});
    const GridId grid = *gpu.Submit(launch, {});
    gpu.Run();
    const GridResult& result = *gpu.result(grid);
    if (!result.status.ok()) {
      fmt::print(stderr, "{}\n", result.status.ToString());
      std::exit(1);
    }
    statistics_ = gpu.statistics();
    return result.completed - result.dispatched;
  }

  // One thread follows pointers through all lines of so many bytes, in an order
  // that repeats; the first lap does not count.
  void Latency(std::string_view name, uint32_t bytes) {
    KernelRunner runner;
    runner.LoadFile("memory.compute_75.ptx");
    const uint32_t lines = bytes / kLine;
    const DeviceAddress at = runner.Allocate(bytes);
    const DeviceAddress out = runner.Allocate(8);
    std::vector<uint32_t> order(lines);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    const auto words = runner.At<uint64_t>(at, bytes / 8);
    for (uint32_t i = 0; i < lines; ++i) {
      words[uint64_t{order[i]} * kLine / 8] =
          at + uint64_t{order[(i + 1) % lines]} * kLine;
    }
    const auto cycles = [&](uint32_t steps) {
      return Cycles(
          runner,
          runner.MakeLaunch("chase", {1, 1, 1}, {1, 1, 1},
                            {at + uint64_t{order[0]} * kLine, out}, {steps}));
    };
    const Cycle once = cycles(lines);
    const Cycle twice = cycles(2 * lines);
    fmt::print("{:<48} {:>8.1f} cycles\n", name,
               static_cast<double>(twice - once) / lines);
  }

  void Bandwidth(std::string_view name, const char* kernel, double bytes,
                 const std::vector<uint32_t>& parameters) {
    KernelRunner runner;
    runner.LoadFile("memory.compute_75.ptx");
    const DeviceAddress in = runner.Allocate(16 << 20);
    const DeviceAddress out = runner.Allocate(16 << 20);
    const Cycle cycles = Cycles(
        runner, runner.MakeLaunch(kernel, {Blocks(), 1, 1}, {kThreads, 1, 1},
                                  {in, out}, parameters));
    const double seconds = static_cast<double>(cycles) / config_.clock.core_mhz;
    fmt::print(
        "{:<48} {:>8.1f} GB/s  DRAM {:>6.1f} GB/s\n", name,
        bytes / seconds / 1e3,
        static_cast<double>(statistics_.memory.dram_bytes) / seconds / 1e3);
  }

  const Config config_;
  Statistics statistics_;
};

int Main(const char* preset) {
  auto config = LoadConfig(preset);
  if (!config.ok()) {
    fmt::print(stderr, "{}\n", config.status().ToString());
    return 2;
  }
  Benchmark(*std::move(config)).Run();
  return 0;
}

}  // namespace
}  // namespace carillon::sim::timing

int main(int argc, char** argv) {
  return carillon::sim::timing::Main(argc > 1 ? argv[1] : "gtx980");
}
