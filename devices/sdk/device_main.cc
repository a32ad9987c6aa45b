#include "devices/sdk/device_main.h"

#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log/log_line.h"
#include "base/option_flags.h"
#include "base/status.h"
#include "base/testbed_paths.h"
#include "devices/sdk/device_options.h"
#include "fmt/format.h"

namespace carillon::edge {
namespace {

// A signal handler may only touch these.
std::atomic<bool> stop_requested{false};
std::atomic<int> stop_fd{-1};

void OnStopSignal(int) {
  const int saved = errno;
  stop_requested.store(true, std::memory_order_release);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written =
      write(stop_fd.load(std::memory_order_acquire), &one, sizeof(one));
  errno = saved;
}

void HandleSignals() {
  struct sigaction action {};
  action.sa_handler = OnStopSignal;
  // Not restarting: a wait in the main thread should end.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kCancelled:  // a stop, which it was asked for
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kUnavailable:
      return kExitTestbedLost;
    default:
      return kExitFailed;
  }
}

}  // namespace

absl::Status GoOnAfter(const absl::Status& halted, Device& device,
                       const DeviceContext& context,
                       const std::function<absl::Status()>& prepare) {
  // So that a stop is not kept waiting.
  constexpr std::chrono::milliseconds kLook{50};
  // One that makes way has somebody who starts the next.
  constexpr std::chrono::milliseconds kRestartWithin{60'000};
  const auto within = device.gpud_restarts()
                          ? std::max(context.resume_within, kRestartWithin)
                          : context.resume_within;
  if (!device.may_resume() || device.in_simulated_time() ||
      within.count() == 0) {
    return halted;
  }
  spdlog::warn("{}; waiting for another gpud", halted.message());
  const auto deadline = std::chrono::steady_clock::now() + within;
  while (!context.stop.requested()) {
    const absl::Status resumed = device.Resume(kLook, prepare);
    if (resumed.ok()) {
      spdlog::info("another gpud has taken over");
      return resumed;
    }
    if (!absl::IsUnavailable(resumed)) return resumed;
    if (std::chrono::steady_clock::now() >= deadline) return halted;
  }
  return absl::CancelledError("stopped while it waited for another gpud");
}

int DeviceMain(CLI::App& app, int argc, char** argv,
               std::string_view default_name,
               const std::function<absl::Status(const DeviceContext&)>& run) {
  DeviceOptions options{.name = std::string(default_name)};
  AddFlags(app, OptionTable(options));
  if (const auto code = ReadFlags(app, argc, argv)) return *code;

  if (options.directory.empty()) {
    fmt::print(stderr,
               "no testbed was named: give --dir or set {} (carillon up starts "
               "a testbed)\n",
               kTestbedDirectoryVariable);
    return kExitUsage;
  }

  auto logger = spdlog::stderr_color_mt(options.name);
  logger->set_pattern(kLogPattern);
  logger->set_level(spdlog::level::from_str(options.log_level));
  spdlog::set_default_logger(logger);

  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    spdlog::error("eventfd: {}; raise the descriptor limit",
                  std::strerror(errno));
    return kExitFailed;
  }
  stop_fd.store(fd, std::memory_order_release);
  HandleSignals();
  const StopRequest stop(&stop_requested, fd);
  const absl::Status status =
      run(DeviceContext{options.directory, options.name, stop,
                        std::chrono::milliseconds(static_cast<int64_t>(
                            options.resume_within_s * 1e3))});
  if (absl::IsCancelled(status)) {
    spdlog::info("{}", status.message());
  } else if (!status.ok()) {
    spdlog::error("{}", status.message());
  }
  // Left open: the handler may still run.
  return ExitCodeOf(status);
}

int DeviceMain(const std::string& description, std::span<const Option> options,
               int argc, char** argv, std::string_view default_name,
               const std::function<absl::Status(const DeviceContext&)>& run) {
  CLI::App app(description);
  AddFlags(app, options);
  return DeviceMain(app, argc, argv, default_name, run);
}

}  // namespace carillon::edge
