// The options of the CPU host.
#ifndef CARILLON_DEVICES_CPU_HOST_CPU_HOST_OPTIONS_H_
#define CARILLON_DEVICES_CPU_HOST_CPU_HOST_OPTIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/option_table.h"

namespace carillon::cpu_host {

// What a CPU host runs: a kernel of gpud, or the kernels of one program.
struct WorkloadKind {
  std::string_view name;
  uint32_t default_size = 0;
  uint32_t max_size = 0;
};

// MakeWorkload() knows all of them.
std::span<const WorkloadKind> WorkloadKinds();

struct WorkloadOptions {
  uint32_t size = 0;  // 0: the workload's own default
  uint64_t seed = 1;
  uint32_t priority = 0;
};

struct CpuHostOptions {
  std::string kernel = "matmul";
  WorkloadOptions workload;
  uint32_t gap_us = 0;
  uint64_t launches = 0;
  uint32_t schedule_every_ms = 0;

  // The device whose frames it takes, in place of launching kernels; empty: none.
  std::string take_from;
  std::string frame_size = "128x128";
  uint64_t frames = 0;  // 0: until stopped
  uint32_t ring = 16;
};

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(CpuHostOptions& options);

// Checks options together. Errors: InvalidArgument.
absl::Status Check(const CpuHostOptions& options);

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_CPU_HOST_OPTIONS_H_
