#include "tools/testbed/supervisor/launch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/subprocess.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;

constexpr char kGpud[] = "gpu_daemon/gpud";

void AppendFlags(const std::vector<Setting>& settings,
                 std::vector<std::string>* argv) {
  for (const Setting& setting : settings) {
    for (const std::string& flag : setting.ToFlags()) argv->push_back(flag);
  }
}

absl::StatusOr<PlannedProcess> PlanDevice(const DeviceEntry& device,
                                          const TestbedPaths& paths) {
  PlannedProcess planned{.name = device.name,
                         .kind = std::string(device.kind->name),
                         .wait_ready = device.wait_ready,
                         .restart = device.restart};
  if (device.kind->name == kExecKind) {
    const auto program = FindProgram(device.command[0]);
    if (!program.ok()) {
      return absl::Status(program.status().code(),
                          fmt::format("device {}: {}", device.name,
                                      program.status().message()));
    }
    planned.argv = device.command;
    planned.argv[0] = *program;
    return planned;
  }
  ASSIGN_OR_RETURN(const auto program,
                   FindCarillonProgram(device.kind->program));
  planned.argv = {program, "--dir=" + paths.directory(),
                  "--name=" + device.name};
  AppendFlags(device.settings, &planned.argv);
  return planned;
}

}  // namespace

absl::StatusOr<std::string> FindCarillonProgram(std::string_view program) {
  const std::string file(program.substr(program.rfind('/') + 1));
  std::vector<std::string> candidates;
  const char* const chosen = std::getenv("CARILLON_BIN_DIR");
  if (chosen != nullptr && *chosen != '\0') {
    candidates = {fmt::format("{}/{}", chosen, file),
                  fmt::format("{}/{}", chosen, program)};
  } else {
    std::error_code error;
    const fs::path own = fs::read_symlink("/proc/self/exe", error);
    // <folder of programs>/tools/cli/carillon
    const fs::path folder = own.parent_path().parent_path().parent_path();
    candidates = {folder / program, own.parent_path() / file};
  }
  for (const std::string& candidate : candidates) {
    if (FindProgram(candidate).ok()) return candidate;
  }
  return WithHint(
      absl::NotFoundError(fmt::format("there is no {} in {} and none in {}",
                                      file, candidates[0], candidates[1])),
      "build it (./carillon does), or set CARILLON_BIN_DIR to the folder that "
      "holds it");
}

absl::StatusOr<LaunchPlan> PlanLaunch(const Topology& topology,
                                      const TestbedPaths& paths) {
  ASSIGN_OR_RETURN(const auto gpud, FindCarillonProgram(kGpud));
  LaunchPlan plan{
      .testbed = topology.name,
      .gpud = {.name = "gpud", .kind = "gpud", .restart = topology.gpu_restart},
      .record = topology.record};
  plan.gpud.argv = {gpud, "--dir=" + paths.directory(),
                    "--testbed=" + topology.name};
  if (topology.faults) plan.gpud.argv.push_back("--faults");
  plan.one_by_one = std::ranges::any_of(topology.gpu, [](const Setting& one) {
    return one.option->key == kTimingKey;
  });
  // Programs that are not waited for may be no devices at all.
  const auto waited_for =
      std::ranges::count(topology.devices, true, &DeviceEntry::wait_ready);
  if (plan.one_by_one && waited_for != 0) {
    plan.gpud.argv.push_back(fmt::format("--first-devices={}", waited_for));
  }
  AppendFlags(topology.gpu, &plan.gpud.argv);
  for (const DeviceEntry& device : topology.devices) {
    ASSIGN_OR_RETURN(auto planned, PlanDevice(device, paths));
    plan.devices.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace carillon::testbed
