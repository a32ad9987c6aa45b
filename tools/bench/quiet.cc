#include "tools/bench/quiet.h"

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "tools/bench/machine.h"

namespace carillon::bench {
namespace {

uint64_t AllNs() {
  const MachineTime time = ReadMachineTime();
  return time.busy_ns + time.stolen_ns;
}

}  // namespace

void ForeignMeter::Start(uint64_t measured_ns) {
  start_ns_ = NowNs();
  all_ns_ = AllNs();
  ours_ns_ = measured_ns + OwnCpuNs();
}

double ForeignMeter::Stop(uint64_t measured_ns) const {
  const auto elapsed = static_cast<double>(NowNs() - start_ns_);
  const auto all = static_cast<double>(AllNs() - all_ns_);
  const auto ours = static_cast<double>(measured_ns + OwnCpuNs() - ours_ns_);
  const auto cpus = std::max(1u, std::thread::hardware_concurrency());
  return std::max(0.0, all - ours) / elapsed / cpus;
}

void WaitForQuiet(double max_foreign, std::chrono::milliseconds patience) {
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(patience).count();
  while (NowNs() < deadline) {
    ForeignMeter meter;
    meter.Start(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (meter.Stop(0) <= max_foreign) return;
  }
}

}  // namespace carillon::bench
