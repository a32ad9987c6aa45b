#include "devices/cpu_host/cpu_host_options.h"

#include "devices/sdk/device_options.h"

namespace carillon::cpu_host {

using enum OptionType;

std::vector<Option> OptionTable(CpuHostOptions& options) {
  WorkloadOptions& workload = options.workload;
  return {
      ChoiceOption("--kernel", "kernel", &options.kernel,
                   {kMatmul, kBfs, kBusy, kBlackScholes, kCutcp, kLbm, kMriQ,
                    kPathfinder, kSgemm, kStencil},
                   "background kernel"),
      {.flag = "--size",
       .key = "size",
       .type = kInteger,
       .field = &workload.size,
       .max = 1 << 24,
       .help =
           "matmul, sgemm: rows; bfs: vertices; busy: steps; black_scholes: "
           "options; mri_q: voxels; pathfinder: columns; cutcp (in bins), "
           "lbm, stencil: a cube's side; 0: the kernel's usual one",
       .lower_max = {{.key = "kernel", .value = kMatmul, .max = 4096},
                     {.key = "kernel", .value = kSgemm, .max = 4096},
                     {.key = "kernel", .value = kBlackScholes, .max = 1 << 20},
                     {.key = "kernel", .value = kMriQ, .max = 1 << 20},
                     {.key = "kernel", .value = kPathfinder, .max = 1 << 20},
                     {.key = "kernel", .value = kCutcp, .max = 32},
                     {.key = "kernel", .value = kLbm, .max = 128},
                     {.key = "kernel", .value = kStencil, .max = 256}}},
      IntegerOption("--seed", "seed", &workload.seed, 0, UINT32_MAX,
                    "of the data"),
      edge::PriorityOption(workload.priority,
                           "of the background kernels; 7 is the highest"),
      IntegerOption("--gap-us", "gap_us", &options.gap_us, 0, 60'000'000,
                    "pause between two runs (bfs: whole searches)"),
      IntegerOption(
          "--launches", "launches", &options.launches, 0, 1'000'000'000'000,
          "ends after this many, and a search that has begun; 0: never"),
      IntegerOption("--schedule-event-every-ms", "schedule_event_every_ms",
                    &options.schedule_every_ms, 0, 3'600'000,
                    "also launches an event by edgeScheduleEvent; 0: never"),
  };
}

absl::Status Check(const CpuHostOptions& options) {
  CpuHostOptions checked = options;
  return CheckLowerMaxima(OptionTable(checked));
}

}  // namespace carillon::cpu_host
