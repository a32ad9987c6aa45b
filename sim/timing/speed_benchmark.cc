// How many warp instructions of a kernel the simulated GPU executes in a second
// of the host, without time and with it, and how many cycles they take.
//
//   bazel run //sim/timing:speed_benchmark
//
// vectoradd and matmul are what kernels usually are; the others (speed.cu) do
// for the whole of their time what is slow.
#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

constexpr uint32_t kWords = 1 << 20;  // speed.cu
constexpr uint32_t kBlocks = 64;
constexpr uint32_t kThreads = 256;

struct Case {
  const char* name;
  std::function<Launch(KernelRunner&)> make;
};

Case OfSpeedCu(const char* name, uint32_t n) {
  return {name, [=](KernelRunner& runner) {
            runner.LoadFile("speed.ptx");
            const DeviceAddress data = runner.Allocate(kWords * 4);
            const auto words = runner.At<uint32_t>(data, kWords);
            for (uint32_t i = 0; i < kWords; ++i) words[i] = i * 2654435761u;
            const DeviceAddress out =
                runner.Allocate((1 + kBlocks * kThreads + kWords) * 4);
            return runner.MakeLaunch(name, {kBlocks, 1, 1}, {kThreads, 1, 1},
                                     {data, out}, {n});
          }};
}

const Case kCases[] = {
    {"vectoradd", [](KernelRunner& r) { return r.VectorAdd(1 << 18); }},
    {"matmul", [](KernelRunner& r) { return r.MatrixProduct(128); }},
    OfSpeedCu("one_address", 100),
    OfSpeedCu("many_addresses", 100),
    OfSpeedCu("division", 60),
    OfSpeedCu("work_queue", 100'000),
    OfSpeedCu("scattered_loads", 60),
    OfSpeedCu("scattered_stores", 60),
    OfSpeedCu("local_arrays", 60),
    OfSpeedCu("matrices", 60),
};

// Return how many warp instructions there were.
absl::StatusOr<uint64_t> Functional(benchmark::State& /*state*/,
                                    const Launch& launch,
                                    const Memory& memory) {
  FunctionalGpu gpu(&memory, {});
  ASSIGN_OR_RETURN(const auto result, gpu.Run(launch));
  return result.warp_instructions;
}

absl::StatusOr<uint64_t> Timed(benchmark::State& state, const Launch& launch,
                               const Memory& memory) {
  Gpu gpu(*LoadConfig("edge_table2"), &memory, {});
  ASSIGN_OR_RETURN(const GridId grid, gpu.Submit(launch, {}));
  gpu.Run();
  RETURN_IF_ERROR(gpu.result(grid)->status);
  state.counters["cycles"] = static_cast<double>(gpu.cycle());
  return gpu.result(grid)->warp_instructions;
}

void Run(benchmark::State& state, const Case& of, decltype(&Timed) run) {
  uint64_t instructions = 0;
  for (auto _ : state) {
    state.PauseTiming();
    KernelRunner runner;  // memory as at the first time
    const Launch launch = of.make(runner);
    state.ResumeTiming();
    const auto executed = run(state, launch, runner.memory());
    if (!executed.ok()) {
      return state.SkipWithError(executed.status().ToString().c_str());
    }
    instructions += *executed;
    state.counters["instructions"] = static_cast<double>(*executed);
  }
  state.SetItemsProcessed(static_cast<int64_t>(instructions));
}

}  // namespace
}  // namespace carillon::sim::timing

int main(int argc, char** argv) {
  using namespace carillon::sim::timing;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const auto& [mode, run] :
       {std::pair{"functional/", &Functional}, std::pair{"timed/", &Timed}}) {
    for (const Case& of : kCases) {
      benchmark::RegisterBenchmark(
          (std::string(mode) + of.name).c_str(),
          [run = run, &of](benchmark::State& state) { Run(state, of, run); })
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
}
