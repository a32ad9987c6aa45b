// Measures an event: a null event (32 threads) from a device process through
// gpud and back, compared with the primitives that it consists of.
#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/bench/bench_main.h"
#include "tools/bench/transports/transport.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kP50 = "/round_trip_ns/p50";
constexpr std::string_view kRate = "/pipelined/per_second";

Contender Make(std::string transport, std::string name, std::string label,
               Wait wait) {
  Contender contender;
  contender.name = std::move(name);
  contender.label = std::move(label);
  contender.job.transport = std::move(transport);
  contender.job.wait = wait;
  return contender;
}

std::vector<Contender> Spinning() {
  std::vector<Contender> all = {
      Make("ring_null", "ring", "Carillon ring, bare", Wait::kSpins),
      Make("event_null", "event", "null event", Wait::kSpins),
      Make("plain_ring", "plain_ring", "textbook SPSC ring, 64 bytes",
           Wait::kSpins),
      Make("ring_null", "ring_again", "Carillon ring, bare (control)",
           Wait::kSpins)};
  for (Contender& contender : all) contender.job.pipeline_time = {};
  return all;
}

std::vector<Contender> FromIdle() {
  std::vector<Contender> all = {
      Make("futex_wake", "futex", "futex wake each way", Wait::kSleeps),
      Make("futex_wake", "futex_spin", "futex wake each way",
           Wait::kSpinsThenSleeps),
      Make("event_null", "event", "null event", Wait::kSpinsThenSleeps),
      Make("event_null", "event_no_spin", "null event", Wait::kSleeps),
      Make("futex_wake", "futex_again", "futex wake each way (control)",
           Wait::kSleeps)};
  for (Contender& contender : all) {
    contender.job.gap = milliseconds(2);
    contender.job.round_trips = 400;
    contender.job.round_trip_time = seconds(3);
    contender.job.pipeline_time = {};
  }
  return all;
}

std::vector<Contender> Pipelined() {
  std::vector<Contender> all = {
      Make("event_null", "one_device", "one device", Wait::kSpinsThenSleeps),
      Make("event_null", "four_devices", "four devices, in all",
           Wait::kSpinsThenSleeps),
      Make("ring_null", "ring", "Carillon ring, bare", Wait::kSpinsThenSleeps),
      Make("event_null", "one_device_again", "one device (control)",
           Wait::kSpinsThenSleeps)};
  for (Contender& contender : all) {
    contender.job.round_trips = 0;
    contender.job.pipeline_time = milliseconds(1000);
  }
  all[1].clients = 4;
  return all;
}

std::vector<Contender> Idle() {
  Contender contender =
      Make("event_null", "idle", "gpud and four devices, idle",
           Wait::kSpinsThenSleeps);
  contender.clients = 4;
  contender.job.idle_time = seconds(5);
  contender.job.round_trips = 0;
  contender.job.pipeline_time = {};
  return {contender};
}

// One that rings, among so many; the first again at the end.
std::vector<Contender> Crowds(std::vector<Contender> all,
                              const std::string& again) {
  all.push_back(all.front());
  all.back().name += "_again";
  all.back().label = again;
  all.back().of = 0;
  for (Contender& contender : all) {
    contender.job.round_trip_time = milliseconds(400);
    contender.job.pipeline_time = milliseconds(400);
  }
  return all;
}

std::vector<Contender> EventKernels() {
  std::vector<Contender> all;
  for (const size_t kernels : {1, 16, 64, 256, 1024}) {
    all.push_back(Make(
        kernels == 1 ? "event_null"
                     : fmt::format("event_null_{}_kernels", kernels),
        fmt::format("kernels_{}", kernels),
        kernels == 1 ? "one event kernel"
                     : fmt::format("one of {} event kernels rings", kernels),
        Wait::kSpins));
    all.back().of = kernels;
  }
  return Crowds(std::move(all), "one event kernel (control)");
}

// The silent ones live in processes of their own, of which each may have 32.
std::vector<std::string> SilentDevices(size_t devices) {
  std::vector<std::string> processes;
  for (size_t left = devices - 1; left > 0;) {
    const size_t here = std::min<size_t>(left, 32);
    processes.push_back(fmt::format("event_null_{}_devices", here));
    left -= here;
  }
  return processes;
}

std::vector<Contender> Devices() {
  std::vector<Contender> all;
  for (const size_t devices : {1, 4, 16, 32, 64}) {
    all.push_back(Make("event_null", fmt::format("devices_{}", devices),
                       devices == 1
                           ? "one device"
                           : fmt::format("one of {} devices rings", devices),
                       Wait::kSpins));
    all.back().of = devices;
    all.back().bystanders = SilentDevices(devices);
  }
  return Crowds(std::move(all), "one device (control)");
}

std::vector<Contender> IdleCrowds() {
  std::vector<Contender> all = {
      Make("event_null_1024_kernels", "idle_kernels", "1,024 event kernels",
           Wait::kSpinsThenSleeps),
      Make("event_null", "idle_devices", "64 devices", Wait::kSpinsThenSleeps)};
  all[1].bystanders = SilentDevices(64);
  for (Contender& contender : all) {
    contender.job.idle_time = seconds(3);
    contender.job.round_trips = 0;
    contender.job.pipeline_time = {};
  }
  return all;
}

// gpud's part of it.
Range IdlePercentOfGpud(const Part& part, size_t contender) {
  std::vector<double> percent;
  for (const Measurement& measurement : part.measurements()) {
    if (measurement.contender == contender) {
      percent.push_back(measurement.server_cpu * 100);
    }
  }
  return RangeOf(std::move(percent));
}

Range IdlePercent(const Part& part) {
  std::vector<double> percent;
  for (const Measurement& measurement : part.measurements()) {
    percent.push_back((measurement.client_cpu + measurement.server_cpu) * 100);
  }
  return RangeOf(std::move(percent));
}

absl::StatusOr<BenchResult> Run(const BenchRun& run) {
  ASSIGN_OR_RETURN(const auto spinning,
                   run.Measure("null event, both sides spinning", Spinning()));
  ASSIGN_OR_RETURN(const auto from_idle,
                   run.Measure("null event, from idle", FromIdle()));
  ASSIGN_OR_RETURN(const auto pipelined,
                   run.Measure("pipelined null events", Pipelined()));
  ASSIGN_OR_RETURN(const auto idle, run.Measure("idle", Idle()));
  ASSIGN_OR_RETURN(const auto kernels,
                   run.Measure("event kernels of a device, one of which rings",
                               EventKernels()));
  ASSIGN_OR_RETURN(const auto devices,
                   run.Measure("devices, one of which rings", Devices()));
  ASSIGN_OR_RETURN(const auto idle_crowds,
                   run.Measure("idle, among many", IdleCrowds()));

  using Wish = Figure::Wish;
  BenchResult result;
  result.figures = {
      {"control_spinning", "control: the same ring twice, p50", "x",
       spinning.Ratio("ring_again", "ring", kP50)},
      {"null_event_over_ring_p50", "null event / bare ring, p50, spinning", "x",
       spinning.Ratio("event", "ring", kP50), Wish::kAtMost, 2.5},
      {"null_event_over_plain_ring_p50",
       "null event / textbook ring, p50, spinning", "x",
       spinning.Ratio("event", "plain_ring", kP50), Wish::kAtMost, 2.5},
      {"control_from_idle", "control: the same futex wake twice, p50", "x",
       from_idle.Ratio("futex_again", "futex", kP50)},
      {"null_event_over_futex_p50",
       "null event / futex wake, p50, from idle, after a spin", "x",
       from_idle.Ratio("event", "futex_spin", kP50), Wish::kAtMost, 1.5},
      {"null_event_no_spin_over_futex_p50", "the same, nobody spins", "x",
       from_idle.Ratio("event_no_spin", "futex", kP50), Wish::kAtMost, 1.5},
      {"control_pipelined", "control: one device twice, rate", "x",
       pipelined.Ratio("one_device_again", "one_device", kRate)},
      {"pipelined_one_device", "pipelined null events, one device", "M/s",
       Scaled(pipelined.Value("one_device", kRate), 1e-6), Wish::kAtLeast, 5},
      {"four_devices_over_one", "four devices on the same CPUs / one, rate",
       "x", pipelined.Ratio("four_devices", "one_device", kRate),
       Wish::kAtLeast, 0.9},
      {"idle_percent", "gpud and four idle devices", "% of a core",
       IdlePercent(idle), Wish::kAtMost, 1},
      {"control_kernels", "control: one event kernel twice, p50", "x",
       kernels.Ratio("kernels_1_again", "kernels_1", kP50)},
      {"kernels_1024_over_one_p50", "1,024 event kernels / one, p50", "x",
       kernels.Ratio("kernels_1024", "kernels_1", kP50), Wish::kAtMost, 1.2},
      {"one_over_kernels_1024_rate", "one event kernel / 1,024, rate", "x",
       kernels.Ratio("kernels_1", "kernels_1024", kRate), Wish::kAtMost, 1.2},
      {"control_devices", "control: one device twice, p50", "x",
       devices.Ratio("devices_1_again", "devices_1", kP50)},
      {"devices_64_over_one_p50", "64 devices / one, p50", "x",
       devices.Ratio("devices_64", "devices_1", kP50), Wish::kAtMost, 1.2},
      {"one_over_devices_64_rate", "one device / 64, rate", "x",
       devices.Ratio("devices_1", "devices_64", kRate), Wish::kAtMost, 1.2},
      {"idle_percent_kernels", "gpud with 1,024 idle event kernels",
       "% of a core", IdlePercentOfGpud(idle_crowds, 0), Wish::kAtMost, 1},
      {"idle_percent_devices", "gpud with 64 idle devices", "% of a core",
       IdlePercentOfGpud(idle_crowds, 1), Wish::kAtMost, 1},
  };
  result.parts = {spinning, from_idle, pipelined,  idle,
                  kernels,  devices,   idle_crowds};
  result.bases = {{spinning.name(), "ring"},
                  {from_idle.name(), "futex"},
                  {kernels.name(), "kernels_1"},
                  {devices.name(), "devices_1"}};
  return result;
}

}  // namespace
}  // namespace carillon::bench

int main(int argc, char** argv) {
  return carillon::bench::BenchMain(
      argc, argv,
      {.name = "event",
       .summary = "What an event costs: a null event through gpud and back, "
                  "spinning, from idle and pipelined.",
       .run = &carillon::bench::Run});
}
