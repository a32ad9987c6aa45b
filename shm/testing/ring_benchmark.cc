// Measures the bare ring and a bare futex: bazel run //shm/testing:ring_benchmark
//
// Times are of this machine at this moment; compare only what was measured in
// turns in one run.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "shm/testing/ring_pingpong.h"

namespace carillon::shm {
namespace {

struct Figures {
  std::vector<double> values;

  void Print(const char* name, const char* unit) {
    std::sort(values.begin(), values.end());
    std::printf("%-34s %10.2f %-4s [%.2f .. %.2f]\n", name,
                values[values.size() / 2], unit, values.front(), values.back());
  }
};

// The first two cores of this process, or -1 if it has only one.
std::vector<int> TwoCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE && cores.size() < 2; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  if (cores.size() < 2) cores.assign(2, -1);
  return cores;
}

int Main(int argc, char** argv) {
  int rounds = 7;
  uint64_t round_trips = 200'000;
  uint64_t sleeping = 2'000;
  uint64_t events = 2'000'000;
  bool threads = false;
  CLI::App app("Measures the bare ring: both ends, no gpud, no kernel.");
  app.add_option("--rounds", rounds, "Measure everything this often, in turns")
      ->check(CLI::Range(1, 1000));
  app.add_option("--round-trips", round_trips, "Spinning round trips a round")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--sleeping-round-trips", sleeping,
                 "Round trips with a wake-up each way, a round")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--events", events, "Pipelined events a round")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_flag("--threads", threads, "Two threads instead of two processes");
  CLI11_PARSE(app, argc, argv);

  const std::vector<int> cores = TwoCores();
  auto yardstick = RingYardstick::Start({.child_process = !threads,
                                         .device_core = cores[0],
                                         .gpud_core = cores[1]});
  if (!yardstick.ok()) {
    std::fprintf(stderr, "%s\n", yardstick.status().ToString().c_str());
    return 1;
  }
  RingYardstick& ring = **yardstick;
  absl::Status status;
  const auto percentiles = [&](absl::StatusOr<HistogramSnapshot> times,
                               double scale, Figures& p50, Figures& p99) {
    status.Update(times.status());
    if (!times.ok()) return;
    p50.values.push_back(static_cast<double>(times->Percentile(0.5)) / scale);
    p99.values.push_back(static_cast<double>(times->Percentile(0.99)) / scale);
  };
  const auto rate = [&](absl::StatusOr<double> value, Figures& figures) {
    status.Update(value.status());
    if (value.ok()) figures.values.push_back(*value / 1e6);
  };
  Figures spin50, spin99, sleep50, sleep99, futex50, futex99, single, batched;
  // Once to warm up.
  (void)ring.RoundTrips(std::min<uint64_t>(round_trips, 10'000));
  for (int round = 0; round < rounds && status.ok(); ++round) {
    std::vector<std::function<void()>> turns = {
        [&] { percentiles(ring.RoundTrips(round_trips), 1, spin50, spin99); },
        [&] { rate(ring.EventsPerSecond(events, 1), single); },
        [&] { rate(ring.EventsPerSecond(events, 32), batched); },
        [&] {
          percentiles(ring.SleepingRoundTrips(sleeping), 1000, sleep50,
                      sleep99);
        },
        [&] {
          percentiles(ring.FutexRoundTrips(sleeping), 1000, futex50, futex99);
        }};
    // A B .. B A: a drift of the machine hits all alike.
    if (round % 2 == 1) std::reverse(turns.begin(), turns.end());
    for (const auto& turn : turns) turn();
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::printf("two %s, %s; 64-byte entries; median of %d rounds [range]\n",
              threads ? "threads" : "processes",
              cores[0] < 0 ? "not pinned (one core)"
                           : ("pinned to cores " + std::to_string(cores[0]) +
                              " and " + std::to_string(cores[1]))
                                 .c_str(),
              rounds);
  spin50.Print("round trip, spinning, p50", "ns");
  spin99.Print("round trip, spinning, p99", "ns");
  single.Print("one way, doorbell for each", "M/s");
  batched.Print("one way, doorbell for 32", "M/s");
  sleep50.Print("round trip, both asleep, p50", "us");
  sleep99.Print("round trip, both asleep, p99", "us");
  futex50.Print("round trip, bare futex, p50", "us");
  futex99.Print("round trip, bare futex, p99", "us");
  return 0;
}

}  // namespace
}  // namespace carillon::shm

int main(int argc, char** argv) { return carillon::shm::Main(argc, argv); }
