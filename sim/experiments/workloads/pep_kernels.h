// The 16 kernels that PEP is evaluated with, each as a background of one launch,
// and the paper's times of them.
#ifndef CARILLON_SIM_EXPERIMENTS_WORKLOADS_PEP_KERNELS_H_
#define CARILLON_SIM_EXPERIMENTS_WORKLOADS_PEP_KERNELS_H_

#include <span>
#include <string_view>

namespace carillon::sim::figures {

struct PepKernel {
  std::string_view name;        // in the paper
  std::string_view background;  // for MakeBackground()
  // PEP's Table 1: means in microseconds, on a GTX 980.
  double launch_us;
  double block_us;
  double switch_us;
  bool long_blocks = false;  // one of the nine that the paper tells apart
};

// In the order of Table 1.
std::span<const PepKernel> PepKernels();

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_WORKLOADS_PEP_KERNELS_H_
