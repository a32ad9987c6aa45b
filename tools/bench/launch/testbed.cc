#include "tools/bench/launch/testbed.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "base/testbed_paths.h"
#include "fmt/format.h"
#include "tools/bench/launch/device_role.h"
#include "tools/bench/launch/interrupt.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A device, a path's thread, a worker, and one for all others.
constexpr size_t kMinToSeparate = 4;
constexpr seconds kStartTime{30};
constexpr seconds kAnswerTime{30};
constexpr seconds kGpudGrace{6};

std::string LastLine(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

absl::Status WithLog(const absl::Status& status, const std::string& log) {
  const std::string logged = LastLine(log);
  if (status.ok() || logged.empty()) return status;
  return absl::Status(status.code(), fmt::format("{}; gpud's last message: {}",
                                                 status.message(), logged));
}

}  // namespace

absl::Status WaitForGpud(const LineProcess& gpud, const std::string& testbed,
                         const std::string& log) {
  const std::string socket = TestbedPaths(testbed).control_socket();
  const auto deadline = std::chrono::steady_clock::now() + kStartTime;
  while (access(socket.c_str(), F_OK) != 0) {
    if (gpud.ended()) {
      return WithLog(absl::FailedPreconditionError("gpud does not come up"),
                     log);
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return WithLog(absl::FailedPreconditionError(fmt::format(
                         "gpud is not up after {} s", kStartTime.count())),
                     log);
    }
    RETURN_IF_ERROR(Sleep(milliseconds(10)));
  }
  return absl::OkStatus();
}

CpuShares ShareCpus() {
  const std::vector<int> cpus = UsableCpus();
  if (cpus.size() < 2) return {};
  if (cpus.size() < kMinToSeparate) return {.device = {cpus[0]}};
  return {.device = {cpus[0]}, .gpud = {cpus.begin() + 1, cpus.end()}};
}

absl::StatusOr<LaunchDeviceProcess> LaunchDeviceProcess::Start(
    const std::string& testbed, const std::string& name,
    const std::vector<int>& cpus, bool always_spin, bool realtime) {
  ASSIGN_OR_RETURN(
      auto child,
      LineProcess::Start(
          {.argv = LaunchDeviceArguments(
               {.testbed = testbed, .name = name, .always_spin = always_spin}),
           .cpus = cpus,
           .realtime = realtime}));
  LaunchDeviceProcess device(std::move(child));
  ASSIGN_OR_RETURN(device.about_, AwaitAnswer(device.child_, kAnswerTime));
  return device;
}

absl::Status LaunchDeviceProcess::Send(const Json& command) {
  patience_ = milliseconds(command.value("ms", int64_t{0})) + kAnswerTime;
  return child_.WriteLine(command.dump());
}

absl::StatusOr<Json> LaunchDeviceProcess::Receive() {
  return AwaitAnswer(child_, patience_);
}

absl::StatusOr<Json> LaunchDeviceProcess::Call(const Json& command) {
  RETURN_IF_ERROR(Send(command));
  return Receive();
}

absl::StatusOr<std::unique_ptr<LaunchTestbed>> LaunchTestbed::Start(
    const LaunchTestbedOptions& options) {
  ASSIGN_OR_RETURN(
      auto directory,
      TempDirectory::Make(std::filesystem::temp_directory_path().string()));
  const std::string log = directory.path() + "/gpud.log";
  std::vector<std::string> argv = {options.gpud,
                                   "--dir",
                                   directory.path() + "/testbed",
                                   "--backend",
                                   options.backend,
                                   "--reserve-sms",
                                   std::to_string(options.reserved_sms),
                                   "--memory",
                                   std::to_string(options.memory_bytes),
                                   "--log-level",
                                   "warn"};
  argv.insert(argv.end(), options.gpud_arguments.begin(),
              options.gpud_arguments.end());
  ASSIGN_OR_RETURN(auto gpud, LineProcess::Start({.argv = std::move(argv),
                                                  .cpus = ShareCpus().gpud,
                                                  .realtime = options.realtime,
                                                  .log_path = log}));
  std::unique_ptr<LaunchTestbed> testbed(
      new LaunchTestbed(options, std::move(directory), std::move(gpud)));
  RETURN_IF_ERROR(WaitForGpud(testbed->gpud_, testbed->testbed(), log));
  auto device = LaunchDeviceProcess::Start(
      testbed->testbed(), "launcher", testbed->cpus_.device,
      testbed->cpus_.separate(), options.realtime);
  if (absl::IsCancelled(device.status())) return device.status();
  if (!device.ok()) {
    return absl::FailedPreconditionError(
        testbed->WithLog(device.status()).message());
  }
  testbed->device_.emplace(*std::move(device));
  return testbed;
}

LaunchTestbed::~LaunchTestbed() {
  device_.reset();
  gpud_.End(SIGTERM, kGpudGrace);
}

absl::StatusOr<LaunchDeviceProcess> LaunchTestbed::AddDevice(
    const std::string& name) const {
  return LaunchDeviceProcess::Start(testbed(), name, cpus_.gpud,
                                    /*always_spin=*/false, options_.realtime);
}

absl::Status LaunchTestbed::WithLog(const absl::Status& status) const {
  return bench::WithLog(status, directory_.path() + "/gpud.log");
}

}  // namespace carillon::bench
