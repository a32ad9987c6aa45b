#include "tools/testbed/supervisor/launch_plan.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "base/results/content_hash.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/topology/hosts.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;

constexpr char kGpud[] = "gpu_daemon/gpud";
constexpr char kLinkd[] = "devices/link/linkd";
constexpr char kDashboard[] = "tools/dashboard/dashboard";
constexpr char kPythonPackages[] = "tools/python/lib";

// The folder that Bazel builds into, as far as the environment or this program's
// own place tells.
fs::path ProgramFolder() {
  const char* const chosen = std::getenv("CARILLON_BIN_DIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code error;
  // <folder of programs>/tools/cli/carillon
  return fs::read_symlink("/proc/self/exe", error)
      .parent_path()
      .parent_path()
      .parent_path();
}

void AppendFlags(const std::vector<Setting>& settings,
                 std::vector<std::string>* argv) {
  for (const Setting& setting : settings) {
    for (const std::string& flag : setting.ToFlags()) argv->push_back(flag);
  }
}

absl::StatusOr<PlannedProcess> PlanProgram(const DeviceEntry& device,
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
    if (auto path = PythonPath(); !path.empty()) {
      planned.environment = {std::move(path)};
    }
    return planned;
  }
  ASSIGN_OR_RETURN(const auto program,
                   FindCarillonProgram(device.kind->program));
  planned.argv = {program, "--dir=" + paths.directory(),
                  "--name=" + device.name};
  AppendFlags(device.settings, &planned.argv);
  return planned;
}

// setpriv changes the user in a process that the supervisor has started already:
// before its exec, a child shares the supervisor's memory, and the other user
// could stop both.
absl::Status BecomeUser(const passwd& user, PlannedProcess* planned) {
  const auto setpriv = FindProgram("setpriv");
  if (!setpriv.ok()) {
    return WithHint(absl::NotFoundError(fmt::format(
                        "device {}: user {} needs the program setpriv, which "
                        "is not in PATH",
                        planned->name, user.pw_name)),
                    "apt-get install util-linux");
  }
  std::vector<std::string> argv = {
      *setpriv,
      fmt::format("--reuid={}", user.pw_uid),
      fmt::format("--regid={}", user.pw_gid),
      "--init-groups",
      "--inh-caps=-all",
      "--no-new-privs",
      // The change of user would clear it, and the device survive the supervisor.
      "--pdeathsig=keep",
      "--",
  };
  argv.insert(argv.end(), planned->argv.begin(), planned->argv.end());
  planned->argv = std::move(argv);
  planned->other_user = true;
  for (const auto& [variable, value] :
       {std::pair("USER", user.pw_name), std::pair("LOGNAME", user.pw_name),
        std::pair("HOME", user.pw_dir)}) {
    planned->environment.push_back(fmt::format("{}={}", variable, value));
  }
  return absl::OkStatus();
}

absl::StatusOr<PlannedProcess> PlanDevice(const Topology& topology,
                                          const DeviceEntry& device,
                                          const TestbedPaths& paths) {
  ASSIGN_OR_RETURN(auto planned, PlanProgram(device, paths));
  if (device.user.empty()) return planned;
  if (const std::string wrong = CheckUser(topology, device); !wrong.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("device {}: user: {}", device.name, wrong));
  }
  if (geteuid() != 0) {
    return WithHint(
        absl::PermissionDeniedError(fmt::format(
            "device {}: only root can start it as user {}, and this is uid {}",
            device.name, device.user, geteuid())),
        "sudo carillon up, or leave user out of the topology");
  }
  const char* const record = std::getenv(shm::FlightRecorder::kVariable);
  if (record != nullptr && *record != '\0') {
    return absl::FailedPreconditionError(fmt::format(
        "device {}: {} goes without a user of its own: unset it, or leave user "
        "out of the topology",
        device.name, shm::FlightRecorder::kVariable));
  }
  RETURN_IF_ERROR(BecomeUser(*getpwnam(device.user.c_str()), &planned));
  return planned;
}

// "1000,65534"
std::string UsersOf(const Topology& topology) {
  std::set<uid_t> uids;
  for (const DeviceEntry& device : topology.devices) {
    const passwd* const user = getpwnam(device.user.c_str());
    if (!device.user.empty() && user != nullptr) uids.insert(user->pw_uid);
  }
  return fmt::format("{}", fmt::join(uids, ","));
}

// "nic0=2:3": those that are not what every device has.
std::string SharesOf(const Topology& topology) {
  std::vector<std::string> shares;
  std::vector<DeviceEntry> devices = topology.devices;
  if (topology.part && topology.part->has_gpu) {
    const auto& others = topology.part->other_devices;
    devices.insert(devices.end(), others.begin(), others.end());
  }
  for (const DeviceEntry& device : devices) {
    if (device.weight == 1 && device.max_priority == gpud::kHighestPriority) {
      continue;
    }
    shares.push_back(fmt::format("{}={}:{}", device.name, device.weight,
                                 device.max_priority));
  }
  return fmt::format("{}", fmt::join(shares, ","));
}

// All devices of all hosts: host after host, and each host's in the file's order,
// which are the same on each host.
std::vector<DeviceEntry> AllDevices(const Topology& topology) {
  std::vector<DeviceEntry> devices = topology.devices;
  if (topology.part) {
    const auto& others = topology.part->other_devices;
    devices.insert(devices.end(), others.begin(), others.end());
  }
  const auto place = [&](const DeviceEntry& device) {
    return std::ranges::find(topology.hosts, device.host, &HostEntry::name);
  };
  std::ranges::stable_sort(devices, {}, place);
  return devices;
}

// "fpga0,host0". Programs that are not waited for may be no devices at all.
std::string OrderOf(const Topology& topology) {
  std::vector<std::string> order;
  for (const DeviceEntry& device : AllDevices(topology)) {
    if (device.wait_ready) order.push_back(device.name);
  }
  return fmt::format("{}", fmt::join(order, ","));
}

// What tells a simulation from others: of hosts whose topologies differ in it,
// none simulates what another one does. Where a path lies is a host's own.
std::string SimulationOf(const Topology& topology) {
  std::string text;
  const auto add = [&](const std::vector<Setting>& settings) {
    for (const Setting& setting : settings) {
      for (const std::string& flag : setting.ToFlags()) {
        const bool path = setting.option->type == OptionType::kPath;
        text += (path ? flag.substr(flag.rfind('/') + 1) : flag) + '\n';
      }
    }
  };
  add(topology.gpu);
  for (const LinkEntry& link : topology.links) {
    text += fmt::format("{} {} {}\n", link.from, link.to, link.latency);
  }
  for (const DeviceEntry& device : AllDevices(topology)) {
    text += fmt::format("{} {} {} {} {}\n", device.name, device.kind->name,
                        device.host, device.weight, device.max_priority);
    add(device.settings);
    for (const std::string& word : device.command) {
      text += word.substr(word.rfind('/') + 1) + '\n';
    }
  }
  return fmt::format("{:016x}", ContentHash(text));
}

// "fpga0=2us": those that have any.
std::string LatenciesOf(const Topology& topology) {
  std::vector<std::string> latencies;
  for (const DeviceEntry& device :
       topology.part ? topology.part->other_devices : topology.devices) {
    const Nanoseconds latency = LatencyOf(topology, device);
    if (latency == 0) continue;
    latencies.push_back(
        fmt::format("{}={}", device.name, FormatExactDuration(latency)));
  }
  return fmt::format("{}", fmt::join(latencies, ","));
}

// What of `gpu` holds for gpud on a host without the GPU.
bool IsOfEachHost(const Option& key) {
  constexpr std::string_view kKeys[] = {
      "ekt_entries", "devices_per_process", "max_priority", "max_spin_ns",
      "memory",      "lease_timeout",       "trace",        "record",
      "log_level"};
  return key.section == kModelSection || std::ranges::count(kKeys, key.key) > 0;
}

void AppendGpuFlags(const Topology& topology, PlannedProcess* gpud) {
  std::vector<std::string>* const argv = &gpud->argv;
  if (!topology.part || topology.part->has_gpu) {
    AppendFlags(topology.gpu, argv);
    return;
  }
  const HostPart::Link& link = topology.part->links[0];
  argv->insert(argv->end(), {fmt::format("--backend={}", gpud::kRemoteBackend),
                             "--link=" + link.address.ToString(),
                             "--link-host=" + topology.part->host,
                             "--link-peer=" + link.peer});
  if (IsSimulated(topology)) {
    argv->push_back("--link-simulation=" + SimulationOf(topology));
  }
  // linkd's --tls-key is --link-key of gpud, and --lease is --link-lease.
  for (const Setting& setting : topology.mesh) {
    for (const std::string& flag : setting.ToFlags()) {
      const size_t prefix = flag.starts_with("--tls-") ? 6 : 2;
      argv->push_back("--link-" + flag.substr(prefix));
    }
  }
  std::vector<Setting> settings = topology.gpu;
  std::erase_if(settings,
                [](const Setting& one) { return !IsOfEachHost(*one.option); });
  AppendFlags(settings, argv);
  gpud->when_restarted = {"--link-restarted"};
}

absl::Status PlanLinkds(const Topology& topology, const TestbedPaths& paths,
                        std::vector<PlannedProcess>* devices) {
  if (!topology.part || !topology.part->has_gpu) return absl::OkStatus();
  for (const HostPart::Link& link : topology.part->links) {
    ASSIGN_OR_RETURN(const auto linkd, FindCarillonProgram(kLinkd));
    PlannedProcess planned{.name = fmt::format("{}{}", kLinkdPrefix, link.peer),
                           .kind = "link",
                           .restart = RestartPolicy::kOnFailure};
    planned.argv = {linkd,
                    "--dir=" + paths.directory(),
                    "--name=" + planned.name,
                    "--testbed=" + topology.name,
                    "--listen=" + link.address.ToString(),
                    "--host=" + topology.part->host,
                    "--peer=" + link.peer};
    if (IsSimulated(topology)) {
      planned.argv.push_back("--simulation=" + SimulationOf(topology));
    }
    AppendFlags(topology.mesh, &planned.argv);
    devices->push_back(std::move(planned));
  }
  return absl::OkStatus();
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

std::string PythonPath() {
  std::error_code error;
  const fs::path packages =
      fs::absolute(ProgramFolder() / kPythonPackages, error);
  if (!fs::is_directory(packages, error)) return "";
  const char* const before = std::getenv("PYTHONPATH");
  const bool any = before != nullptr && *before != '\0';
  return fmt::format("PYTHONPATH={}{}{}", packages.string(), any ? ":" : "",
                     any ? before : "");
}

absl::StatusOr<LaunchPlan> PlanLaunch(const Topology& topology,
                                      const TestbedPaths& paths) {
  if (!topology.hosts.empty() && !topology.part && !IsSimulated(topology)) {
    return absl::InvalidArgumentError(
        "the topology has hosts: it comes up by carillon up --host NAME on "
        "each "
        "of them, and by nothing else");
  }
  ASSIGN_OR_RETURN(const auto gpud, FindCarillonProgram(kGpud));
  LaunchPlan plan{
      .testbed = topology.name,
      .gpud = {.name = "gpud", .kind = "gpud", .restart = topology.gpu_restart},
      .record = topology.record,
      .part = topology.part};
  plan.gpud.argv = {gpud, "--dir=" + paths.directory(),
                    "--testbed=" + topology.name};
  if (topology.faults) plan.gpud.argv.push_back("--faults");
  const bool has_gpu = !topology.part || topology.part->has_gpu;
  if (IsSimulated(topology) && has_gpu) {
    if (const std::string order = OrderOf(topology); !order.empty()) {
      plan.gpud.argv.push_back("--device-order=" + order);
    }
  }
  AppendGpuFlags(topology, &plan.gpud);
  RETURN_IF_ERROR(PlanLinkds(topology, paths, &plan.devices));
  for (const DeviceEntry& device : topology.devices) {
    ASSIGN_OR_RETURN(auto planned, PlanDevice(topology, device, paths));
    planned.may_end_unseen = IsSimulated(topology);
    plan.devices.push_back(std::move(planned));
  }
  if (topology.dashboard) {
    ASSIGN_OR_RETURN(const auto dashboard, FindCarillonProgram(kDashboard));
    plan.devices.push_back(
        {.name = std::string(kDashboardName),
         .kind = std::string(kDashboardName),
         .argv = {dashboard, "--dir=" + paths.directory(),
                  "--testbed=" + topology.name, "--supervised",
                  fmt::format("--port={}", topology.dashboard_port)},
         .restart = RestartPolicy::kOnFailure});
  }
  if (const std::string users = UsersOf(topology); !users.empty()) {
    plan.gpud.argv.push_back("--device-users=" + users);
  }
  if (const std::string shares = SharesOf(topology); !shares.empty()) {
    plan.gpud.argv.push_back("--device-shares=" + shares);
  }
  if (const std::string latencies = LatenciesOf(topology);
      !latencies.empty() && has_gpu) {
    plan.gpud.argv.push_back("--device-latencies=" + latencies);
  }
  return plan;
}

}  // namespace carillon::testbed
