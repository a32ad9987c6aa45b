// A CPU host that keeps the GPU busy with ordinary kernels, as a program beside
// the event kernels would, and reports how much they slow it down.
#include <poll.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "devices/cpu_host/scheduled_echo.h"
#include "devices/cpu_host/slowdown.h"
#include "devices/cpu_host/workload.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"

namespace carillon::cpu_host {
namespace {

struct Options {
  std::string kernel = "matmul";
  WorkloadOptions workload;
  uint32_t gap_us = 0;
  uint64_t launches = 0;
  uint32_t schedule_every_ms = 0;
};

enum Counter : uint32_t {
  kLaunches,
  kBlocks,
  kSlowdownPermille,
  kVerifyFailures,
  kLastDurationUs,
  kRuns,
  kScheduledEvents,
  kScheduledFailures,
};
const std::vector<std::string> kCounterNames = {
    "launches",         "blocks", "slowdown_permille", "verify_failures",
    "last_duration_us", "runs",   "scheduled_events",  "scheduled_failures"};
enum Histogram : uint32_t { kKernelTime, kScheduledLatency };
const std::vector<std::string> kHistogramNames = {"kernel_time",
                                                  "scheduled_latency"};

// Sleeps, but wakes up when a stop is requested.
void Sleep(edge::Device& device, std::chrono::microseconds time,
           const edge::StopRequest& stop) {
  if (device.in_simulated_time()) {
    device.WaitForCompletion([&] { return stop.requested(); }, time);
    return;
  }
  pollfd waiter{.fd = stop.fd(), .events = POLLIN, .revents = 0};
  const timespec timeout{.tv_sec = time.count() / 1'000'000,
                         .tv_nsec = time.count() % 1'000'000 * 1000};
  ppoll(&waiter, 1, &timeout, nullptr);
}

absl::Status RunAll(edge::Device& device, Workload& workload,
                    const Options& options, const edge::StopRequest& stop) {
  Slowdown slowdown;
  uint64_t launches = 0;
  uint64_t blocks = 0;
  uint64_t failures = 0;
  uint64_t runs = 0;
  while (!stop.requested() &&
         (options.launches == 0 || launches < options.launches)) {
    ASSIGN_OR_RETURN(const auto figures, workload.Run(device));
    if (const std::string wrong = workload.Verify(); !wrong.empty()) {
      if (++failures <= 5) spdlog::error("run {}: {}", runs, wrong);
    }
    slowdown.Add(figures.kernel_ns);
    device.histogram(kKernelTime).Add(figures.kernel_ns);
    device.SetCounter(kLaunches, launches += figures.launches);
    device.SetCounter(kBlocks, blocks += figures.blocks);
    device.SetCounter(kRuns, ++runs);
    device.SetCounter(kVerifyFailures, failures);
    device.SetCounter(kLastDurationUs, figures.kernel_ns / 1000);
    device.SetCounter(kSlowdownPermille, slowdown.permille());
    if (options.gap_us > 0)
      Sleep(device, std::chrono::microseconds(options.gap_us), stop);
  }
  spdlog::info(
      "{} runs, {} launches, {} thread blocks, {} wrong results, slowdown "
      "{:.2f}",
      runs, launches, blocks, failures,
      static_cast<double>(slowdown.permille()) / 1000);
  if (failures == 0) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{} of {} runs had a wrong result", failures, runs));
}

absl::Status Run(const edge::DeviceContext& context, const Options& options) {
  ASSIGN_OR_RETURN(auto workload,
                   MakeWorkload(options.kernel, options.workload));
  edge::AttachOptions attach;
  attach.testbed_directory = context.directory;
  attach.name = context.name;
  attach.kind = "cpu_host";
  attach.submission_bytes =
      workload->submission_bytes() + ScheduledEcho::kApertureBytes;
  attach.completion_bytes =
      workload->completion_bytes() + ScheduledEcho::kApertureBytes;
  attach.counter_names = kCounterNames;
  attach.histogram_names = kHistogramNames;
  // A second thread makes the events beside the launches.
  attach.takes_simulated_time = options.schedule_every_ms == 0;
  ASSIGN_OR_RETURN(auto device, edge::Device::Attach(attach));
  RETURN_IF_ERROR(workload->Prepare(*device));

  std::unique_ptr<ScheduledEcho> echo;
  if (options.schedule_every_ms > 0) {
    ASSIGN_OR_RETURN(
        auto made,
        ScheduledEcho::Make(
            device.get(), std::chrono::milliseconds(options.schedule_every_ms),
            {.events = kScheduledEvents,
             .failures = kScheduledFailures,
             .histogram = kScheduledLatency}));
    echo = std::move(made);
  }
  const std::string note = fmt::format(
      "background {}{}", options.kernel,
      echo == nullptr
          ? ""
          : fmt::format(", an event every {} ms", options.schedule_every_ms));
  RETURN_IF_ERROR(device->ReportReady(note));
  spdlog::info("launching {}", note);
  return RunAll(*device, *workload, options, context.stop);
}

}  // namespace
}  // namespace carillon::cpu_host

int main(int argc, char** argv) {
  using carillon::cpu_host::Options;
  CLI::App app(
      "Launches background kernels and reports how much they are slowed down.");
  Options options;
  app.add_option("--kernel", options.kernel, "Background kernel")
      ->check(CLI::IsMember(carillon::cpu_host::WorkloadNames()))
      ->capture_default_str();
  app.add_option("--size", options.workload.size,
                 "matmul: rows (256; at most 4096); bfs: vertices (65536); "
                 "busy: steps a thread (2000); 0: the first in brackets")
      ->capture_default_str();
  app.add_option("--seed", options.workload.seed, "Of matrices and graph")
      ->capture_default_str();
  app.add_option("--priority", options.workload.priority, "0 (lowest) to 7")
      ->check(CLI::Range(0, 7))
      ->capture_default_str();
  app.add_option("--gap-us", options.gap_us, "Pause between runs, microseconds")
      ->capture_default_str();
  app.add_option("--launches", options.launches,
                 "End after so many launches (a search that has begun is "
                 "finished); 0: go on until "
                 "stopped")
      ->capture_default_str();
  app.add_option("--schedule-event-every-ms", options.schedule_every_ms,
                 "Also start an echo event through the control plane this "
                 "often; 0: never")
      ->capture_default_str();
  return carillon::edge::DeviceMain(
      app, argc, argv, "host0",
      [&](const carillon::edge::DeviceContext& context) {
        return carillon::cpu_host::Run(context, options);
      });
}
