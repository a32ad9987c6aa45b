// The parts of gpu_check in their order, with their limits.
#ifndef CARILLON_TOOLS_GPU_CHECK_PARTS_H_
#define CARILLON_TOOLS_GPU_CHECK_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/gpu_check/runner.h"

namespace carillon::gpu_check {

struct PartOptions {
  std::string self;       // gpu_check
  std::string programs;   // the folder of the other programs
  std::string directory;  // for results
  // The path of compute-sanitizer; empty if there is none.
  std::string sanitizer;
  std::string nvidia_smi;  // its path; empty if there is none
  uint64_t seed = 0;       // the seed of random inputs
  // Runs short versions on another driver than NVIDIA's. What cannot run there
  // must report that there is no GPU; a probe may say what that driver lacks.
  bool dry_run = false;
  std::string driver;  // a folder with its libcuda.so.1; empty: there is none
};

// What is wanted most comes first, since a machine may be lent for ten minutes:
// the latency of each launch path right behind what it depends on.
std::vector<CheckPart> MakeParts(const PartOptions& options);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_PARTS_H_
