// The options of the CPU host.
#ifndef CARILLON_DEVICES_CPU_HOST_CPU_HOST_OPTIONS_H_
#define CARILLON_DEVICES_CPU_HOST_CPU_HOST_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/option_table.h"

namespace carillon::cpu_host {

// MakeWorkload() knows these.
inline constexpr std::string_view kMatmul = "matmul";
inline constexpr std::string_view kBfs = "bfs";
inline constexpr std::string_view kBusy = "busy";
inline constexpr std::string_view kBlackScholes = "black_scholes";
inline constexpr std::string_view kCutcp = "cutcp";
inline constexpr std::string_view kLbm = "lbm";
inline constexpr std::string_view kMriQ = "mri_q";
inline constexpr std::string_view kPathfinder = "pathfinder";
inline constexpr std::string_view kSgemm = "sgemm";
inline constexpr std::string_view kStencil = "stencil";

struct WorkloadOptions {
  uint32_t size = 0;  // 0: the workload's own default
  uint64_t seed = 1;
  uint32_t priority = 0;
};

struct CpuHostOptions {
  std::string kernel{kMatmul};
  WorkloadOptions workload;
  uint32_t gap_us = 0;
  uint64_t launches = 0;
  uint32_t schedule_every_ms = 0;
};

// The table refers to the fields of `options`.
std::vector<Option> OptionTable(CpuHostOptions& options);

// Checks options together. Errors: InvalidArgument.
absl::Status Check(const CpuHostOptions& options);

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_CPU_HOST_OPTIONS_H_
