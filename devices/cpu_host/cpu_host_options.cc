#include "devices/cpu_host/cpu_host_options.h"

#include "devices/sdk/device_options.h"

namespace carillon::cpu_host {

using enum OptionType;

std::vector<Option> OptionTable(CpuHostOptions& options) {
  WorkloadOptions& workload = options.workload;
  return {
      {.flag = "--kernel",
       .key = "kernel",
       .type = kChoice,
       .field = &options.kernel,
       .choices = {kMatmul, kBfs, kBusy},
       .help = "background kernel"},
      {.flag = "--size",
       .key = "size",
       .type = kInteger,
       .field = &workload.size,
       .max = 1 << 24,
       .help = "matmul: rows, at most 4096 (256); bfs: vertices (65536); busy: "
               "steps of a thread (2000); 0: the number in brackets",
       .lower_max = {{.key = "kernel", .value = kMatmul, .max = 4096}}},
      {.flag = "--seed",
       .key = "seed",
       .type = kInteger,
       .field = &workload.seed,
       .max = UINT32_MAX,
       .help = "of matrices and graphs"},
      edge::PriorityOption(workload.priority,
                           "of the background kernels; 7 is the highest"),
      {.flag = "--gap-us",
       .key = "gap_us",
       .type = kInteger,
       .field = &options.gap_us,
       .max = 60'000'000,
       .help = "pause between two runs (bfs: whole searches)"},
      {.flag = "--launches",
       .key = "launches",
       .type = kInteger,
       .field = &options.launches,
       .max = 1'000'000'000'000,
       .help = "ends after this many, and a search that has begun; 0: never"},
      {.flag = "--schedule-event-every-ms",
       .key = "schedule_event_every_ms",
       .type = kInteger,
       .field = &options.schedule_every_ms,
       .max = 3'600'000,
       .help = "also launches an event by edgeScheduleEvent; 0: never"},
  };
}

absl::Status Check(const CpuHostOptions& options) {
  CpuHostOptions checked = options;
  return CheckLowerMaxima(OptionTable(checked));
}

}  // namespace carillon::cpu_host
