// What a launch costs in the KMU: one thread submits, gives out and ends, so
// that callgrind can count instructions.
//
//   kmu_benchmark LAUNCHES WAITING [BLOCKS [POLICY]]
//
// keeps WAITING launches of BLOCKS blocks in the KMU, and runs no code in them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "gpu_daemon/dispatch/kmu.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

void Submit(Kmu& kmu, uint32_t blocks, uint64_t* ended) {
  auto launch = std::make_unique<KernelLaunch>();
  launch->kmd = {.kernel = simt::FindKernel("null_event"),
                 .grid = {blocks, 1, 1},
                 .block = {64, 1, 1}};
  launch->cost = CostOf(64, launch->kmd.kernel->registers_per_thread, 0);
  launch->on_end = [ended](const LaunchResult&) { ++*ended; };
  kmu.Submit(std::move(launch));
}

int Run(uint64_t launches, uint64_t waiting, uint32_t blocks,
        const char* policy) {
  auto made = MakePolicy(policy);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
    return 1;
  }
  Kmu kmu(GpuModel{}, *std::move(made));
  uint64_t ended = 0;
  for (uint64_t i = 0; i < waiting; ++i) Submit(kmu, blocks, &ended);
  const Nanoseconds start = NowNs();
  while (ended < launches) {
    const uint64_t before = ended;
    kmu.EndBlock(*kmu.NextBlock());
    if (ended != before) Submit(kmu, blocks, &ended);
  }
  std::printf("%.1f ns a launch\n", static_cast<double>(NowNs() - start) /
                                        static_cast<double>(launches));
  return 0;
}

}  // namespace
}  // namespace carillon::gpud

int main(int argc, char** argv) {
  const auto number = [&](int index) {
    return index < argc ? std::strtoull(argv[index], nullptr, 10) : 0;
  };
  const uint64_t blocks = argc > 3 ? number(3) : 1;
  if (argc < 3 || argc > 5 || number(1) == 0 || number(2) == 0 || blocks == 0) {
    std::fprintf(stderr,
                 "usage: kmu_benchmark LAUNCHES WAITING [BLOCKS [POLICY]]\n");
    return 2;
  }
  return carillon::gpud::Run(number(1), number(2),
                             static_cast<uint32_t>(blocks),
                             argc > 4 ? argv[4] : "first_come");
}
