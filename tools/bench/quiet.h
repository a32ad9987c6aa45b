// Measures how much of the machine others use, and waits until it is little.
#ifndef CARILLON_TOOLS_BENCH_QUIET_H_
#define CARILLON_TOOLS_BENCH_QUIET_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/line_process.h"

namespace carillon::bench {

// The CPU time that neither the measured processes nor this one used (or that
// the hypervisor took), as a share of all CPUs; 1 if others kept all of them
// busy. `measured_ns` must only grow from Start() to Stop(). The kernel counts
// in ticks of 10 ms, so a short measurement gives a coarse share.
class ForeignMeter {
 public:
  void Start(uint64_t measured_ns);
  double Stop(uint64_t measured_ns) const;

 private:
  uint64_t start_ns_ = 0;
  uint64_t all_ns_ = 0;
  uint64_t ours_ns_ = 0;
};

// The CPU time of all of them so far.
uint64_t SumCpuNs(const std::vector<LineProcess>& processes);

// What others use of the machine for so long: ForeignMeter's share.
double ForeignDuring(std::chrono::milliseconds time);

// Returns once others use at most `max_foreign` of the machine, or after
// `patience`. Where nobody else is there, a glance is enough. `look` is
// ForeignDuring() but for tests.
void WaitForQuiet(double max_foreign, std::chrono::milliseconds patience,
                  const std::function<double(std::chrono::milliseconds)>& look =
                      ForeignDuring);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_QUIET_H_
