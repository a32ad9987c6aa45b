#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/status.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/demo/memcaslap.h"
#include "tools/cli/demo/report.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/cli/up_options.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/supervisor/marks.h"
#include "tools/testbed/testbed_run.h"

namespace carillon::cli {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kTick{250};
// The background kernel runs alone first, for comparison.
constexpr milliseconds kAlone{2000};
// The last replies may take so long after the client has ended.
constexpr milliseconds kSettle{5000};
// The policy for the second half of the load, where the back-end can do it.
constexpr char kSecondPolicy[] = "exclusive";
// memcaslap fills its keys first, and may be late on a busy machine.
constexpr milliseconds kClientSlack{60'000};

struct Options {
  testbed::UpOptions up;
  uint32_t seconds = 10;
  uint32_t concurrency = 8;
  std::string backend = "auto";
};

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs the demo's testbed: brings it up, loads it, reads the figures, takes it
// down.
class Demo {
 public:
  Demo(const Options& options, Console& console)
      : options_(options), console_(console) {}

  absl::Status Run() {
    RETURN_IF_ERROR(BringUp());
    absl::Status status = MeasureAlone();
    if (status.ok()) status = Load();
    if (status.ok()) status = Settle();
    if (status.ok()) status = Look();
    // A dead process explains why nobody answered.
    if (absl::IsUnavailable(status)) {
      if (absl::Status seen = Watch(milliseconds(0)); !seen.ok()) status = seen;
    }
    run_->supervisor().EndDevices();
    if (status.ok()) status = ReadLedger();
    const absl::Status down = run_->supervisor().TakeDown();
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(down);
    figures_.casualties = run_->supervisor().casualties();
    std::vector<std::string> complaints;
    status = Judge(figures_, &complaints);
    PrintReport(figures_, complaints, console_);
    return status;
  }

 private:
  absl::Status BringUp() {
    testbed::Topology topology = DemoTopology();
    topology.name = fmt::format("demo-{}", getpid());
    RETURN_IF_ERROR(SetName(options_.up.name, topology));
    if (const auto client = FindProgram(kMemcaslap); !client.ok()) {
      return WithHint(client.status(), "apt-get install libmemcached-tools");
    }
    ASSIGN_OR_RETURN(port_, FindFreePort());
    testbed::SetGpuText(topology, "backend", options_.backend);
    for (testbed::DeviceEntry& device : topology.devices) {
      testbed::SetNumber(device, "udp_port", port_);
      testbed::SetNumber(device, "tcp_port", port_);
    }
    ASSIGN_OR_RETURN(
        run_, testbed::TestbedRun::Make(
                  topology, "the demo's topology", options_.up,
                  [this](const std::string& line) { console_.Say(line); }));
    RETURN_IF_ERROR(run_->supervisor().BringUp());
    client_ =
        std::make_unique<testbed::AdminClient>(run_->supervisor().paths());
    return absl::OkStatus();
  }

  // Waits while it watches the testbed. Errors: Cancelled when the user asks to
  // end; DataLoss when a process has died, since the demo promises that none
  // does.
  absl::Status Watch(milliseconds timeout) {
    testbed::Supervisor& supervisor = run_->supervisor();
    if (!supervisor.Watch(timeout)) return absl::CancelledError("interrupted");
    if (!supervisor.casualties().empty()) {
      return absl::DataLossError(
          fmt::format("a process of the testbed has ended: {}",
                      JoinWords(supervisor.casualties())));
    }
    return absl::OkStatus();
  }

  absl::Status ReadDevices() {
    ASSIGN_OR_RETURN(auto devices, client_->ListDevices());
    for (v1::Device& device : *devices.mutable_devices()) {
      if (device.kind() == "nic") figures_.nic.Swap(&device);
      if (device.kind() == "fpga") figures_.fpga.Swap(&device);
      if (device.kind() == "cpu_host") figures_.host.Swap(&device);
    }
    return absl::OkStatus();
  }

  absl::Status MeasureAlone() {
    console_.Say(fmt::format("frames and background work alone for {} s",
                             kAlone.count() / 1000));
    const auto end = Clock::now() + kAlone;
    while (Clock::now() < end) {
      RETURN_IF_ERROR(Watch(kTick));
    }
    RETURN_IF_ERROR(ReadDevices());
    figures_.kernel_time_alone = HistogramOf(figures_.host, "kernel_time");
    return client_->ResetStatistics();
  }

  absl::Status Load() {
    // No file on a disk: nothing is left however this ends.
    const UniqueFd configuration(memfd_create("memcaslap.conf", MFD_CLOEXEC));
    const std::string text = MemcaslapConfiguration();
    if (write(configuration.get(), text.data(), text.size()) !=
        static_cast<ssize_t>(text.size())) {
      return absl::ResourceExhaustedError(fmt::format(
          "cannot keep memcaslap's configuration: {}", strerror(errno)));
    }
    const std::vector<std::string> command = MemcaslapCommand(
        {.port = port_,
         .seconds = options_.seconds,
         .concurrency = options_.concurrency,
         .configuration_file = fmt::format("/dev/fd/{}", configuration.get())});
    const TestbedPaths& paths = run_->supervisor().paths();
    const std::string log = paths.log_directory() + "/memcaslap.log";
    console_.Say(fmt::format("{}", fmt::join(command, " ")));
    ASSIGN_OR_RETURN(
        auto load,
        testbed::ChildProcess::Spawn(
            {.argv = command,
             .environment = {fmt::format(
                 "{}={}", testbed::kSupervisorVariable,
                 testbed::SupervisorMark(paths, testbed::OwnIdentity()))},
             .inherited = {configuration.get()},
             .log_path = log}));
    start_ = Clock::now();
    const auto half = start_ + milliseconds(500) * options_.seconds;
    const auto end = start_ + std::chrono::seconds(options_.seconds);
    const auto deadline = end + kClientSlack;
    ASSIGN_OR_RETURN(const auto status, client_->GetStatus());
    const bool has_second_policy = std::any_of(
        status.policies().begin(), status.policies().end(),
        [](const auto& policy) { return policy.name() == kSecondPolicy; });
    RETURN_IF_ERROR(BeginPolicy(status.policy()));
    // memcaslap stays for a second or so when its load has ended.
    bool counted = false;
    while (!load.Reap()) {
      RETURN_IF_ERROR(Watch(kTick));
      if (Clock::now() > deadline) {
        return absl::DeadlineExceededError(
            fmt::format("memcaslap did not end; its last lines:\n{}",
                        testbed::LastLines(log, 10)));
      }
      RETURN_IF_ERROR(ShowProgress());
      if (has_second_policy && figures_.policies.empty() &&
          Clock::now() >= half) {
        RETURN_IF_ERROR(EndPolicy());
        console_.Say(
            fmt::format("the policy is {} from now on", kSecondPolicy));
        RETURN_IF_ERROR(client_->SetPolicy(kSecondPolicy).status());
        RETURN_IF_ERROR(BeginPolicy(kSecondPolicy));
      }
      if (!counted && Clock::now() >= end) {
        RETURN_IF_ERROR(EndPolicy());
        counted = true;
      }
    }
    if (!load.Reap()->ok()) {
      return absl::AbortedError(
          fmt::format("memcaslap has ended ({}); its last lines:\n{}",
                      load.Reap()->ToString(), testbed::LastLines(log, 10)));
    }
    ASSIGN_OR_RETURN(figures_.client, ParseMemcaslap(FileText(log)));
    return counted ? absl::OkStatus() : EndPolicy();
  }

  // What all devices have had so far.
  absl::StatusOr<PolicyFigures> ReadPolicy() {
    RETURN_IF_ERROR(ReadDevices());
    return PolicyFigures{
        .seconds = std::chrono::duration<double>(Clock::now() - start_).count(),
        .requests = CounterOf(figures_.nic, "udp_requests"),
        .frames = CounterOf(figures_.fpga, "frames_done"),
        .event_latency = HistogramOf(figures_.nic, "event_latency"),
        .kernel_time = HistogramOf(figures_.host, "kernel_time")};
  }

  absl::Status BeginPolicy(const std::string& policy) {
    ASSIGN_OR_RETURN(policy_begin_, ReadPolicy());
    policy_begin_.policy = policy;
    return absl::OkStatus();
  }

  absl::Status EndPolicy() {
    ASSIGN_OR_RETURN(PolicyFigures end, ReadPolicy());
    const PolicyFigures& begin = policy_begin_;
    figures_.policies.push_back(
        {.policy = begin.policy,
         .seconds = end.seconds - begin.seconds,
         .requests = end.requests - begin.requests,
         .frames = end.frames - begin.frames,
         .event_latency = Difference(end.event_latency, begin.event_latency),
         .kernel_time = Difference(end.kernel_time, begin.kernel_time)});
    return absl::OkStatus();
  }

  absl::Status ShowProgress() {
    const auto now = Clock::now();
    const auto period = console_.err_is_terminal() ? kTick : milliseconds(1000);
    if (now - shown_ < period) return absl::OkStatus();
    RETURN_IF_ERROR(ReadDevices());
    const uint64_t requests = CounterOf(figures_.nic, "udp_requests");
    const double seconds =
        std::chrono::duration<double>(now - std::max(shown_, start_)).count();
    // The line fits into 80 characters.
    const std::string line = fmt::format(
        "{:5.1f} s {:>9} requests/s {:>11} in all {:>7} frames {:>6} "
        "background",
        std::chrono::duration<double>(now - start_).count(),
        FormatCount(static_cast<uint64_t>((requests - shown_requests_) /
                                          std::max(seconds, 0.001))),
        FormatCount(requests),
        FormatCount(CounterOf(figures_.fpga, "frames_done")),
        FormatCount(CounterOf(figures_.host, "launches")));
    if (console_.err_is_terminal()) {
      console_.SayInPlace(line);
    } else {
      console_.Say(line);
    }
    shown_ = now;
    shown_requests_ = requests;
    return absl::OkStatus();
  }

  // Waits until the NIC has nothing in flight: the client may have given up on
  // its last requests.
  absl::Status Settle() {
    const auto deadline = Clock::now() + kSettle;
    for (;;) {
      ASSIGN_OR_RETURN(const auto ekt, client_->ListEkt());
      uint64_t in_flight = 0;
      for (const v1::EktEntry& entry : ekt.entries()) {
        if (entry.device() == figures_.nic.name()) {
          in_flight += testbed::InFlight(entry.counts());
        }
      }
      if (in_flight == 0) return absl::OkStatus();
      if (Clock::now() > deadline) {
        return absl::DataLossError(
            fmt::format("{} events of {} did not end within {} s", in_flight,
                        figures_.nic.name(), kSettle.count() / 1000));
      }
      RETURN_IF_ERROR(Watch(milliseconds(10)));
    }
  }

  absl::Status Look() {
    RETURN_IF_ERROR(ReadDevices());
    ASSIGN_OR_RETURN(const auto ekt, client_->ListEkt());
    for (const v1::EktEntry& entry : ekt.entries()) {
      if (entry.device() != figures_.nic.name()) continue;
      MergeHistograms(entry.stages(), &figures_.stages);
    }
    figures_.stages.push_back(
        {"finished_to_completion_seen",
         HistogramOf(figures_.nic, "completion_latency")});
    figures_.stages.push_back({"rung_to_completion_seen",
                               HistogramOf(figures_.nic, "event_latency")});
    figures_.request_latency = HistogramOf(figures_.nic, "request_latency");
    // What it ran alone was under the first policy, too.
    figures_.kernel_time_loaded = figures_.policies.front().kernel_time;
    return absl::OkStatus();
  }

  // Read it after the devices have ended, so that no more events are rung.
  absl::Status ReadLedger() {
    ASSIGN_OR_RETURN(const auto status, client_->GetStatus());
    figures_.ledger = status.events();
    return absl::OkStatus();
  }

  const Options& options_;
  Console& console_;
  uint16_t port_ = 0;
  std::unique_ptr<testbed::TestbedRun> run_;
  std::unique_ptr<testbed::AdminClient> client_;
  DemoFigures figures_;
  PolicyFigures policy_begin_;
  Clock::time_point start_;
  Clock::time_point shown_;
  uint64_t shown_requests_ = 0;
};

}  // namespace

Run MakeDemo(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Number("--seconds", options->seconds, 1, 86400,
                   "How long the clients ask");
  arguments.Number("--clients", options->concurrency, 1, 1000,
                   "How many ask at once, each with one request");
  arguments.Choice(
      "--backend auto|cpu|cuda|sim", options->backend,
      {"auto", "cpu", "cuda", "sim"},
      "Who runs the kernels; auto: cuda where there is a GPU, else cpu");
  arguments.Text("--name NAME", options->up.name,
                 "Of the testbed; demo-PID without it");
  return [options, &console] { return Demo(*options, console).Run(); };
}

}  // namespace carillon::cli
