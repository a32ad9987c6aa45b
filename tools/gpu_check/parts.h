// What gpu_check does, in order, and what it may take.
#ifndef CARILLON_TOOLS_GPU_CHECK_PARTS_H_
#define CARILLON_TOOLS_GPU_CHECK_PARTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/gpu_check/runner.h"

namespace carillon::gpu_check {

struct PartOptions {
  std::string self;       // gpu_check
  std::string programs;   // the folder of the other programs
  std::string directory;  // for results
  // compute-sanitizer; empty: there is none.
  std::string sanitizer;
  uint64_t seed = 0;  // of random inputs
  // Short, and on the fake driver: a folder with its libcuda.so.1. What cannot
  // run on it must say that there is no GPU.
  bool dry_run = false;
  std::string fake_driver;
};

// One question of gpu_probes.
struct ProbeStep {
  std::string_view name;
  int seconds;  // its limit
};
std::span<const ProbeStep> ProbeSteps();

std::vector<Part> MakeParts(const PartOptions& options);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_PARTS_H_
