// Describes the machine that a figure was measured on, and how much of it
// others used.
#ifndef CARILLON_TOOLS_BENCH_MACHINE_H_
#define CARILLON_TOOLS_BENCH_MACHINE_H_

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace carillon::bench {

// CPU model, usable CPUs, kernel, distribution, memory, whether it is virtual.
// No name by which the machine could be found.
Json DescribeMachine();

// What a document must say of the driver below a cuda back-end, by the back-end's
// description: "fake driver: function only"; empty for NVIDIA's own.
std::string DriverOf(std::string_view description);

// The CPUs that this process may use, in ascending order.
std::vector<int> UsableCpus();

// The time of all CPUs that the kernel has counted since its start (in ticks of
// 10 ms): everything that ran, and what the hypervisor gave to others.
uint64_t MachineCpuNs();

// The CPU time of this process and of its children that have been waited for.
uint64_t OwnCpuNs();

// The CPU time of another process and of those that it has started and that have
// not ended, theirs included.
uint64_t TreeCpuNs(pid_t pid);

// How many nanoseconds one cache line takes to another CPU and back (the
// fastest of several short bursts). On a virtual machine this shows whether the
// host has placed the two CPUs near each other. 0 with fewer than two CPUs.
double PlacementProbeNs(int cpu_a, int cpu_b);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_MACHINE_H_
