#include "tools/bench/quiet.h"

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "tools/bench/machine.h"

namespace carillon::bench {

void ForeignMeter::Start(uint64_t measured_ns) {
  start_ns_ = NowNs();
  all_ns_ = MachineCpuNs();
  ours_ns_ = measured_ns + OwnCpuNs();
}

double ForeignMeter::Stop(uint64_t measured_ns) const {
  const auto elapsed = static_cast<double>(NowNs() - start_ns_);
  const auto all = static_cast<double>(MachineCpuNs() - all_ns_);
  const auto ours = static_cast<double>(measured_ns + OwnCpuNs() - ours_ns_);
  const auto cpus = std::max(1u, std::thread::hardware_concurrency());
  return std::max(0.0, all - ours) / elapsed / cpus;
}

uint64_t SumCpuNs(const std::vector<LineProcess>& processes) {
  uint64_t sum = 0;
  for (const LineProcess& process : processes) sum += process.CpuNs();
  return sum;
}

double ForeignDuring(std::chrono::milliseconds time) {
  ForeignMeter meter;
  meter.Start(0);
  std::this_thread::sleep_for(time);
  return meter.Stop(0);
}

void WaitForQuiet(
    double max_foreign, std::chrono::milliseconds patience,
    const std::function<double(std::chrono::milliseconds)>& look) {
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(patience).count();
  if (NowNs() >= deadline) return;
  // Two ticks of the kernel's count, too coarse for a share: but no tick at all
  // is nobody.
  if (look(std::chrono::milliseconds(20)) == 0) return;
  while (NowNs() < deadline) {
    if (look(std::chrono::milliseconds(300)) <= max_foreign) return;
  }
}

}  // namespace carillon::bench
