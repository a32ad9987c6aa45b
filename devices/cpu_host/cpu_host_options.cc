#include "devices/cpu_host/cpu_host_options.h"

#include <utility>

#include "devices/sdk/device_options.h"

namespace carillon::cpu_host {

using enum OptionType;

namespace {

constexpr uint32_t kMaxSize = 1 << 24;

constexpr WorkloadKind kKinds[] = {
    {"matmul", 256, 4096},
    {"bfs", 65536, kMaxSize},
    {"bfs_frontier", 65536, 1 << 22},
    {"black_scholes", 65536, 1 << 20},
    {"bp", 4096, 1 << 20},
    {"busy", 2000, kMaxSize},
    {"conv1", 128, 1 << 13},
    {"conv2", 128, 1 << 13},
    {"cutcp", 4, 32},
    {"heartwall", 51, 4096},
    {"hotspot", 256, 4096},
    {"kmn", 8192, 1 << 20},
    {"lbm", 32, 128},
    {"lud", 256, 1024},
    {"mri_q", 4096, 1 << 20},
    {"pathfinder", 65536, 1 << 20},
    {"sc", 8192, 1 << 20},
    {"sgemm", 256, 4096},
    {"srad_v1", 256, 2048},
    {"srad_v2", 256, 2048},
    {"stencil", 64, 256},
};

Option RingOfFrames(uint32_t& field) {
  Option option = edge::RingOption(field, 65536);
  option.help = "of these frames: how many it has room for";
  return option;
}

}  // namespace

std::span<const WorkloadKind> WorkloadKinds() { return kKinds; }

std::vector<Option> OptionTable(CpuHostOptions& options) {
  WorkloadOptions& workload = options.workload;
  std::vector<std::string_view> names;
  std::vector<LowerMax> lower_max;
  for (const WorkloadKind& kind : kKinds) {
    names.push_back(kind.name);
    if (kind.max_size == kMaxSize) continue;
    lower_max.push_back(
        {.key = "kernel", .value = kind.name, .max = kind.max_size});
  }
  return {
      ChoiceOption("--kernel", "kernel", &options.kernel, std::move(names),
                   "background kernel"),
      {.flag = "--size",
       .key = "size",
       .type = kInteger,
       .field = &workload.size,
       .max = kMaxSize,
       .help =
           "of its data: rows, vertices, points, ... (docs/workloads.md has "
           "the unit of each kernel); 0: the kernel's usual one",
       .lower_max = std::move(lower_max)},
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
      edge::DeviceOption("--take-from", "take_from", options.take_from,
                         "launch no kernels, but take and check the frames "
                         "that this fpga hands on (`hand_to`)"),
      {.flag = "--frame-size",
       .key = "frame_size",
       .type = kDimensions,
       .field = &options.frame_size,
       .min = 1,
       .max = 8192,
       .help = "of these frames, as the fpga's `size`"},
      IntegerOption("--frames", "frames", &options.frames, 0, 1'000'000'000'000,
                    "ends when the last of this many has come, and misses each "
                    "of these that has not; 0: never"),
      RingOfFrames(options.ring),
  };
}

absl::Status Check(const CpuHostOptions& options) {
  CpuHostOptions checked = options;
  return CheckLowerMaxima(OptionTable(checked));
}

}  // namespace carillon::cpu_host
