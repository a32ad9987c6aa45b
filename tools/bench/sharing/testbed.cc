#include "tools/bench/sharing/testbed.h"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/line_process.h"
#include "base/status.h"
#include "base/temp_directory.h"
#include "fmt/format.h"
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

// `run`: of the same gpud, as it may still know the devices of the one before.
absl::StatusOr<std::vector<Json>> Play(
    const std::string& testbed, bool simulated, uint64_t run,
    const std::vector<SharingDevicePlan>& plans) {
  std::vector<LineProcess> devices;
  for (const auto& [name, plan] : plans) {
    const std::string own = run == 0 ? name : fmt::format("{}-{}", name, run);
    ASSIGN_OR_RETURN(
        auto device,
        LineProcess::Start({.argv = SharingDeviceArguments(testbed, own)}));
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

struct SharingTestbed::Running {
  SharingGpud of;
  TempDirectory directory;
  LineProcess process;

  ~Running() { process.End(SIGTERM, kGrace); }
};

SharingTestbed::SharingTestbed() = default;
SharingTestbed::~SharingTestbed() = default;

absl::StatusOr<std::vector<Json>> SharingTestbed::Run(
    const SharingGpud& gpud, const std::vector<SharingDevicePlan>& plans) {
  if (running_ != nullptr && running_->of != gpud) running_.reset();
  if (running_ == nullptr) {
    ASSIGN_OR_RETURN(
        auto directory,
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
    running_.reset(new Running{gpud, std::move(directory), std::move(process)});
    const absl::Status ready = WaitForGpud(running_->process, testbed, log);
    if (!ready.ok()) {
      running_.reset();
      return ready;
    }
    runs_ = 0;
  }
  auto answers = Play(running_->directory.path() + "/testbed", gpud.simulated,
                      runs_++, plans);
  if (gpud.simulated || !answers.ok()) running_.reset();
  return answers;
}

}  // namespace carillon::bench
