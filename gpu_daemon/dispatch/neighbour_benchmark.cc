// How long the front-end's thread takes to get to an honest device's event
// beside a device that always has work:
//
//   neighbour_benchmark [ROUNDS [EVENTS]]
//
// Devices and front-end are one thread, and times are its CPU time without the
// devices' part: what else the machine does meanwhile does not count. A null
// event is rung at any moment, also while a kernel runs, and timed until it
// runs. Beside it, a load of kLoads: once as an honest device makes it (a ring),
// once as a hostile one (16 of them, always full, with any priority), in the
// order honest, hostile, hostile, honest; with and without FrontEndBudget.
// Prints p50, p99 and maximum in us, and the ratio of the 99th percentiles. A
// measurement ends after half a second of that time at the latest.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/doorbell_poller.h"
#include "gpu_daemon/dispatch/edge_launcher.h"
#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/dispatch/run_clock.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

constexpr uint32_t kEntries = 32;
constexpr size_t kHostileRings = 16;
// Without shares an event may wait for ever: a measurement takes no longer, and
// an event that waits then has waited for that long at least.
constexpr Nanoseconds kLongest = 500'000'000;

struct Load {
  const char* name;
  const char* policy;
  Nanoseconds event_ns;       // of the front-end's thread
  uint32_t honest_in_flight;  // of kEntries
  uint32_t hostile_priority;
};
constexpr Load kLoads[] = {
    {"slow kernels, 100 us", "first_come", 100'000, 1, 0},
    {"doorbells", "first_come", 0, kEntries, 0},
    {"top priority", "priority", 0, kEntries, 7},
    {"slow, top priority", "priority", 100'000, 1, 7},
};

// All in one thread, and so plain variables, which kernels reach.
Nanoseconds devices_ns = 0;  // the devices' part
Nanoseconds Now() { return ThreadCpuNs() - devices_ns; }

struct Neighbour {
  shm::DeviceRing* ring = nullptr;
  std::mt19937 random{1};
  Nanoseconds due_ns = 0;  // of the next ring; 0: one is in flight
  Nanoseconds rung_ns = 0;
  std::vector<Nanoseconds> waits;

  void RingIfDue() {
    if (due_ns == 0 || Now() < due_ns) return;
    due_ns = 0;
    ring->Commit();
    rung_ns = Now();
    ring->RingDoorbell();
  }
  void Ran() { waits.push_back(Now() - rung_ns); }
  void TakeEnd() {
    if (due_ns != 0 || !ring->Poll()) return;
    ring->Consume();
    due_ns = Now() + 1 + random() % 300'000;
  }
};
Neighbour* neighbour = nullptr;

simt::KernelInfo NeighboursKernel() {
  simt::KernelInfo kernel = *simt::FindKernel("null_event");
  kernel.run_block = [](const simt::BlockLaunch&, const void*) {
    neighbour->Ran();
  };
  return kernel;
}

simt::KernelInfo LoadsKernel() {
  simt::KernelInfo kernel = *simt::FindKernel("null_event");
  kernel.run_block = [](const simt::BlockLaunch&, const void* args) {
    const Nanoseconds end = ThreadCpuNs() + *static_cast<const uint64_t*>(args);
    do neighbour->RingIfDue();
    while (ThreadCpuNs() < end);
  };
  return kernel;
}

// Nothing is sent to workers: there are none.
class InlineLauncher final : public EdgeLauncher {
 public:
  using EdgeLauncher::EdgeLauncher;
  void TookLong(EventKernel&, Nanoseconds) override {}
};

struct Percentiles {
  double p50, p99, max;
};

Percentiles Measure(const Load& load, bool hostile, bool shares,
                    size_t events) {
  const simt::KernelInfo neighbours_kernel = NeighboursKernel();
  const simt::KernelInfo loads_kernel = LoadsKernel();
  Kmu kmu(GpuModel{}, *MakePolicy(load.policy));
  CpuBlockRunner runner;
  InlineLauncher launcher(&kmu, &runner);
  DoorbellPoller poller({.ticks = shares ? nullptr : NoTicks}, &launcher);
  TestDevice other("other");
  std::vector<TestDevice::Event> rings;
  for (size_t i = 0; i < (hostile ? kHostileRings : 1); ++i) {
    rings.push_back(
        other.Register({.kernel = &loads_kernel,
                        .bindings = {{.constant_bits = load.event_ns}},
                        .entries = hostile ? kEntries : load.honest_in_flight,
                        .priority = hostile ? load.hostile_priority : 0}));
    poller.Add(rings.back().kernel).IgnoreError();
  }
  TestDevice honest("honest");
  const auto event = honest.Register(
      {.kernel = &neighbours_kernel, .bindings = {{.constant_bits = 0}}});
  poller.Add(event.kernel).IgnoreError();
  Neighbour self{.ring = event.ring.get()};
  neighbour = &self;
  self.due_ns = Now();
  const Nanoseconds start = Now();
  while (self.waits.size() < events) {
    if (Now() - start > kLongest) {
      if (self.due_ns == 0) self.Ran();
      break;
    }
    const Nanoseconds began = ThreadCpuNs();
    for (const auto& [kernel, ring] : rings) {
      while (ring->Poll()) ring->Consume();
      while (ring->free_slots() > 0) ring->Commit();
      ring->RingDoorbell();
    }
    self.TakeEnd();
    devices_ns += ThreadCpuNs() - began;
    poller.PollOnce();
  }
  std::sort(self.waits.begin(), self.waits.end());
  const auto us = [&](double share) {
    const auto last = static_cast<double>(self.waits.size() - 1);
    return static_cast<double>(self.waits[static_cast<size_t>(share * last)]) /
           1000;
  };
  return {us(0.5), us(0.99), us(1)};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Compare(const Load& load, bool shares, size_t rounds, size_t events) {
  std::vector<double> p50[2], p99[2], max[2], ratios;
  for (size_t round = 0; round < rounds; ++round) {
    double product[2] = {1, 1};
    for (const bool hostile : {false, true, true, false}) {
      const Percentiles one = Measure(load, hostile, shares, events);
      p50[hostile].push_back(one.p50);
      p99[hostile].push_back(one.p99);
      max[hostile].push_back(one.max);
      product[hostile] *= one.p99;
    }
    ratios.push_back(std::sqrt(product[1] / product[0]));
  }
  std::printf("%-21s %-4s", load.name, shares ? "yes" : "no");
  for (const int hostile : {0, 1}) {
    std::printf("  %8.1f %8.1f %8.1f", Median(p50[hostile]),
                Median(p99[hostile]), Median(max[hostile]));
  }
  std::printf("   %7.2f [%.2f to %.2f]\n", Median(ratios),
              *std::min_element(ratios.begin(), ratios.end()),
              *std::max_element(ratios.begin(), ratios.end()));
  std::fflush(stdout);
}

int Run(size_t rounds, size_t events) {
  std::printf("%-21s %-4s  %-26s  %-26s   %s\n", "", "", "beside an honest one",
              "beside a hostile one", "p99, hostile / honest");
  std::printf("%-21s %-4s  %8s %8s %8s  %8s %8s %8s   %s\n", "load", "fair",
              "p50", "p99", "max", "p50", "p99", "max", "median [range]");
  for (const Load& load : kLoads) {
    for (const bool shares : {false, true}) {
      Compare(load, shares, rounds, events);
    }
  }
  return 0;
}

}  // namespace
}  // namespace carillon::gpud

int main(int argc, char** argv) {
  const auto number = [&](int index, size_t otherwise) {
    return index < argc ? std::strtoull(argv[index], nullptr, 10) : otherwise;
  };
  const size_t rounds = number(1, 5);
  const size_t events = number(2, 2000);
  if (rounds == 0 || events == 0) {
    std::fprintf(stderr, "usage: neighbour_benchmark [ROUNDS [EVENTS]]\n");
    return 2;
  }
  return carillon::gpud::Run(rounds, events);
}
