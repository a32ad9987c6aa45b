#include "tools/bench/sharing/testbed.h"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/line_process.h"
#include "base/status.h"
#include "base/temp_directory.h"
#include "tools/bench/launch/interrupt.h"
#include "tools/bench/launch/testbed.h"
#include "tools/bench/sharing/device_role.h"

namespace carillon::bench {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr seconds kReadyTime{30};
// Simulated milliseconds may take minutes of a busy machine.
constexpr minutes kRunTime{20};
constexpr seconds kGrace{6};
// From when all are ready until they begin: in wall time they must have read
// the line that says so.
constexpr Nanoseconds kSimulatedStart = 1'000'000;
constexpr Nanoseconds kStartIn = 20'000'000;

absl::StatusOr<std::vector<Json>> Play(
    const std::string& testbed, bool simulated,
    const std::vector<SharingDevicePlan>& plans) {
  std::vector<LineProcess> devices;
  for (const auto& [name, plan] : plans) {
    ASSIGN_OR_RETURN(
        auto device,
        LineProcess::Start({.argv = SharingDeviceArguments(testbed, name)}));
    devices.push_back(std::move(device));
    RETURN_IF_ERROR(devices.back().WriteLine(plan.dump()));
    ASSIGN_OR_RETURN(auto ready, AwaitAnswer(devices.back(), kReadyTime));
    if (ready.contains("refused")) return std::vector<Json>{std::move(ready)};
  }
  const Json start = {
      {"start_ns", simulated ? kSimulatedStart : NowNs() + kStartIn}};
  for (LineProcess& device : devices) {
    RETURN_IF_ERROR(device.WriteLine(start.dump()));
  }
  std::vector<Json> answers;
  for (LineProcess& device : devices) {
    ASSIGN_OR_RETURN(auto answer, AwaitAnswer(device, kRunTime));
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace

absl::StatusOr<std::vector<Json>> RunDevices(
    const SharingGpud& gpud, const std::vector<SharingDevicePlan>& plans) {
  ASSIGN_OR_RETURN(
      const auto directory,
      TempDirectory::Make(std::filesystem::temp_directory_path().string()));
  const std::string testbed = directory.path() + "/testbed";
  const std::string log = directory.path() + "/gpud.log";
  std::vector<std::string> arguments = {gpud.program, "--dir",       testbed,
                                        "--trace",    "--log-level", "warn"};
  if (gpud.simulated) {
    arguments.insert(arguments.end(),
                     {"--first-devices", std::to_string(plans.size())});
  }
  arguments.insert(arguments.end(), gpud.flags.begin(), gpud.flags.end());
  ASSIGN_OR_RETURN(auto process,
                   LineProcess::Start({.argv = arguments, .log_path = log}));
  auto answers = [&]() -> absl::StatusOr<std::vector<Json>> {
    RETURN_IF_ERROR(WaitForGpud(process, testbed, log));
    return Play(testbed, gpud.simulated, plans);
  }();
  process.End(SIGTERM, kGrace);
  return answers;
}

}  // namespace carillon::bench
