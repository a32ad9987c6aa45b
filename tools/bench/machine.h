// The machine that a figure was measured on, and how much of it others used.
#ifndef CARILLON_TOOLS_BENCH_MACHINE_H_
#define CARILLON_TOOLS_BENCH_MACHINE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"

namespace carillon::bench {

// CPU model, usable CPUs, kernel, distribution, memory, virtualised or not. No
// name by which the machine could be found.
Json DescribeMachine();

// The CPUs that this process may use, lowest first.
std::vector<int> UsableCpus();

// CPU time of all CPUs, as the kernel has counted it since it started (in ticks
// of 10 ms): everything that ran, and what the hypervisor gave to others.
struct MachineTime {
  uint64_t busy_ns = 0;
  uint64_t stolen_ns = 0;
};
MachineTime ReadMachineTime();

// CPU time of this process and of its children that have been waited for.
uint64_t OwnCpuNs();

// What one cache line costs to go to another CPU and back, in nanoseconds (the
// fastest of several short bursts), between two CPUs: on a virtual machine it
// tells whether the host has placed them near each other. 0 with less than two
// CPUs.
double PlacementProbeNs(int cpu_a, int cpu_b);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_MACHINE_H_
