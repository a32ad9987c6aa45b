// A CPU host that keeps the GPU busy with ordinary kernels, as a program beside
// the event kernels would, and reports how much they slow it down.
#include <poll.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "devices/cpu_host/cpu_host_options.h"
#include "devices/cpu_host/frame_taker.h"
#include "devices/cpu_host/scheduled_echo.h"
#include "devices/cpu_host/slowdown.h"
#include "devices/cpu_host/workload.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"

namespace carillon::cpu_host {
namespace {

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

// Goes on with another gpud after `halted`, if it was gpud's death.
absl::Status GoOnAfter(const absl::Status& halted, edge::Device& device,
                       ScheduledEcho* echo,
                       const edge::DeviceContext& context) {
  // A call may fail before the death is seen.
  constexpr std::chrono::milliseconds kDeathIsSeen{1'000};
  if (absl::IsUnavailable(halted)) (void)device.WaitForEnd(kDeathIsSeen);
  if (echo != nullptr) echo->Pause();
  RETURN_IF_ERROR(edge::GoOnAfter(halted, device, context));
  if (echo != nullptr) echo->GoOn();
  return absl::OkStatus();
}

absl::Status RunAll(edge::Device& device, Workload& workload,
                    const CpuHostOptions& options, ScheduledEcho* echo,
                    const edge::DeviceContext& context) {
  const edge::StopRequest& stop = context.stop;
  Slowdown slowdown;
  uint64_t launches = 0;
  uint64_t blocks = 0;
  uint64_t failures = 0;
  uint64_t runs = 0;
  while (!stop.requested() &&
         (options.launches == 0 || launches < options.launches)) {
    const auto ran = workload.Run(device);
    if (!ran.ok()) {
      const absl::Status goes_on =
          GoOnAfter(ran.status(), device, echo, context);
      if (absl::IsCancelled(goes_on)) break;  // what it has is judged below
      RETURN_IF_ERROR(goes_on);
      continue;  // the piece of work begins anew
    }
    const RunFigures& figures = *ran;
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

absl::Status Run(const edge::DeviceContext& context,
                 const CpuHostOptions& options) {
  RETURN_IF_ERROR(Check(options));
  if (!options.take_from.empty()) return TakeFrames(context, options);
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
        echo,
        ScheduledEcho::Make(
            device.get(), std::chrono::milliseconds(options.schedule_every_ms),
            {.events = kScheduledEvents,
             .failures = kScheduledFailures,
             .histogram = kScheduledLatency}));
  }
  const std::string note = fmt::format(
      "background {}{}", options.kernel,
      echo == nullptr
          ? ""
          : fmt::format(", an event every {} ms", options.schedule_every_ms));
  RETURN_IF_ERROR(device->ReportReady(note));
  spdlog::info("launching {}", note);
  return RunAll(*device, *workload, options, echo.get(), context);
}

}  // namespace
}  // namespace carillon::cpu_host

int main(int argc, char** argv) {
  carillon::cpu_host::CpuHostOptions options;
  return carillon::edge::DeviceMain(
      "Launches background kernels and reports how much they are slowed down.",
      OptionTable(options), argc, argv, "host0",
      [&](const carillon::edge::DeviceContext& context) {
        return carillon::cpu_host::Run(context, options);
      });
}
