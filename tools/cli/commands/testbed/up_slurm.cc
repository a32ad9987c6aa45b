#include "tools/cli/commands/testbed/up_slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/strict_yaml.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "tools/cli/slurm/slurm.h"
#include "tools/cli/up_options.h"
#include "tools/testbed/hosts/host_registration.h"
#include "tools/testbed/hosts/host_views.h"
#include "tools/testbed/supervisor/stop_signals.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookPeriod{100};

// The login's XDG_RUNTIME_DIR need not be there on a node.
constexpr char kStep[] =
    R"(sh -c '[ -d "$XDG_RUNTIME_DIR" ] || unset XDG_RUNTIME_DIR; exec "$@"' sh)";

class SlurmHosts {
 public:
  SlurmHosts(const testbed::Topology& topology, testbed::UpOptions options,
             mesh::Etcd& etcd, Console& console)
      : topology_(topology),
        options_(std::move(options)),
        logs_(fmt::format("{}/{}.slurm",
                          fs::path(options_.file).parent_path().string(),
                          topology.name)),
        keys_(topology.name),
        etcd_(etcd),
        console_(console) {
    for (const testbed::HostEntry& host : topology.hosts) {
      if (host.name == topology.gpu_host ||
          std::ranges::count(topology.devices, host.name,
                             &testbed::DeviceEntry::host) > 0) {
        hosts_.push_back(&host);
      }
    }
  }

  absl::Status Run(std::vector<std::string> sbatch_arguments) {
    RETURN_IF_ERROR(CheckThatNoneIsUp());
    std::error_code error;
    fs::create_directories(logs_, error);
    if (error) {
      return absl::PermissionDeniedError(
          fmt::format("cannot make {}: {}", Quote(logs_), error.message()));
    }
    std::vector<std::string> arguments = {
        fmt::format("--nodes={}", hosts_.size()), "--no-kill",
        "--job-name=carillon-" + topology_.name,
        fmt::format("--output={}/job.log", logs_)};
    if (const std::string nodes = FixedNodes(","); !nodes.empty()) {
      arguments.push_back("--nodelist=" + nodes);
    }
    std::ranges::move(sbatch_arguments, std::back_inserter(arguments));
    ASSIGN_OR_RETURN(
        job_, SubmitJob(logs_ + "/job.sh", Script(), std::move(arguments)));
    console_.Say(fmt::format("job {}; its hosts' logs are in {}", job_, logs_));
    absl::Status status;
    // One that a host has comes with it.
    if (!topology_.own_etcd) status = etcd_.Put(keys_.job, job_);
    if (status.ok()) status = Await();
    if (status.ok()) return status;
    if (const absl::Status cancelled = CancelJob(job_); !cancelled.ok()) {
      // `down -f` finds it by its key.
      console_.Say(
          fmt::format("job {} may go on: {}", job_, cancelled.message()));
      return status;
    }
    etcd_.Delete(keys_.job).IgnoreError();
    return status;
  }

 private:
  // What a failure before has left is forgotten.
  absl::Status CheckThatNoneIsUp() {
    const auto view = LookAtHosts(etcd_, topology_);
    if (topology_.own_etcd && absl::IsUnavailable(view.status())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(view.status());
    for (const testbed::HostView& host : view->hosts) {
      if (host.record) {
        return WithHint(
            absl::AlreadyExistsError(
                fmt::format("host '{}' of testbed '{}' is up already ({})",
                            host.name, topology_.name, host.record->Place())),
            fmt::format("carillon down -f {} ends all hosts", options_.file));
      }
    }
    RETURN_IF_ERROR(CheckThatNoneWaits(view->job));
    for (const testbed::HostView& host : view->hosts) {
      RETURN_IF_ERROR(etcd_.Delete(keys_.last(host.name)));
    }
    return absl::OkStatus();
  }

  // Whose hosts are still to come.
  absl::Status CheckThatNoneWaits(const std::string& job) const {
    if (job.empty()) return absl::OkStatus();
    std::vector<std::string> said;
    const std::vector<std::string> tasks = JobWatch(job).Tasks(said);
    // What Slurm cannot tell of, or knows no more, or ends, is not in the way.
    if (!said.empty() || tasks.empty() || tasks[0].starts_with("COMPLETING")) {
      return absl::OkStatus();
    }
    return WithHint(
        absl::AlreadyExistsError(fmt::format(
            "job {} is to bring testbed '{}' up already, says etcd, and is {}",
            job, topology_.name, tasks[0])),
        fmt::format("carillon down -f {} ends it", options_.file));
  }

  std::string FixedNodes(std::string_view separator) const {
    std::vector<std::string> nodes;
    for (const testbed::HostEntry* host : hosts_) {
      if (!host->node.empty()) nodes.push_back(host->node);
    }
    return fmt::format("{}", fmt::join(nodes, separator));
  }

  std::string LogOf(const std::string& host) const {
    return fmt::format("{}/{}.log", logs_, host);
  }

  // A step a host. $1, $2, ... are the nodes that no host has asked for.
  std::string Script() const {
    std::string script = "#!/bin/sh\n";
    std::string others = "scontrol show hostnames \"$SLURM_JOB_NODELIST\"";
    for (const testbed::HostEntry* host : hosts_) {
      if (host->node.empty()) continue;
      others += fmt::format(" | grep -vxF -e {}", ShellWord(host->node));
    }
    script += fmt::format("set -- $({})\npids=\ncode=0\n", others);
    for (const testbed::HostEntry* host : hosts_) {
      testbed::UpOptions options = options_;
      options.host = host->name;
      std::string command = ShellWord(OwnProgram()) + " up";
      for (const std::string& word : ToCommandLine(options)) {
        command += " " + ShellWord(word);
      }
      script += fmt::format(
          "srun -N1 -n1 --overlap --kill-on-bad-exit=0 --job-name={0} -w {1} "
          "--output={2} {3} {4} &\npids=\"$pids $!\"\n{5}",
          ShellWord(host->name),
          host->node.empty() ? "\"$1\"" : ShellWord(host->node),
          ShellWord(LogOf(host->name)), kStep, command,
          host->node.empty() ? "shift\n" : "");
    }
    return script +
           "for pid in $pids; do wait \"$pid\" || code=1; done\nexit $code\n";
  }

  absl::Status Await() {
    JobWatch watch(job_);
    std::set<std::string> up;
    std::optional<Clock::time_point> began;  // when the job was seen to run
    bool away = topology_.own_etcd;          // etcd
    bool noted = !topology_.own_etcd;        // the job, there
    for (;;) {
      std::vector<std::string> said;
      // Asked first: what comes up between the two questions is no failure.
      const std::vector<std::string> tasks = watch.Tasks(said);
      for (const std::string& line : said) console_.Say(line);
      const auto view = LookAtHosts(etcd_, topology_);
      const bool no_answer = absl::IsUnavailable(view.status()) ||
                             absl::IsDeadlineExceeded(view.status());
      if (!no_answer) RETURN_IF_ERROR(view.status());
      if (no_answer && !away) {
        console_.Say(
            fmt::format("{}; the job goes on", view.status().message()));
      }
      away = no_answer;
      if (!away && !noted) {
        noted = etcd_.Put(keys_.job, job_).ok();
      }
      for (size_t i = 0; !away && i < view->hosts.size(); ++i) {
        const testbed::HostView& host = view->hosts[i];
        if (host.record && !began) began = Clock::now();
        if (host.State() == "up" && up.insert(host.name).second) {
          console_.Say(
              fmt::format("  {:<16} up  {}", host.name, host.record->Place()));
        }
        RETURN_IF_ERROR(Judge(host, up));
      }
      if (!away && up.size() == hosts_.size()) return Report(*view, *began);
      if (tasks.empty()) {
        return absl::AbortedError(fmt::format(
            "job {} has ended, and {} of {} hosts were up; its logs are in {}",
            job_, up.size(), hosts_.size(), logs_));
      }
      console_.SayInPlace(fmt::format("job {} {}: {} of {} hosts are up", job_,
                                      tasks[0], up.size(), hosts_.size()));
      if (stop_.Take() > 0) return absl::CancelledError("interrupted");
      std::this_thread::sleep_for(kLookPeriod);
    }
  }

  absl::Status Judge(const testbed::HostView& host,
                     const std::set<std::string>& up) const {
    const std::string state = host.State();
    if (state == "failed") {
      return absl::AbortedError(
          fmt::format("host '{}' failed ({}): {}\nits log: {}", host.name,
                      host.last->place, host.last->error, LogOf(host.name)));
    }
    if (state == "damaged") return absl::FailedPreconditionError(host.damage);
    if (state == "gone" || (state == "not up" && up.contains(host.name))) {
      return absl::AbortedError(
          fmt::format("host '{}' has gone{}; its log: {}", host.name,
                      host.last ? fmt::format(" ({})", host.last->place) : "",
                      LogOf(host.name)));
    }
    return absl::OkStatus();
  }

  absl::Status Report(const testbed::HostsView& view, Clock::time_point began) {
    const Clock::duration took = Clock::now() - began;
    Json hosts = Json::array();
    for (const testbed::HostView& host : view.hosts) {
      if (!host.record) continue;
      hosts.push_back({{"name", host.name}, {"where", host.record->Place()}});
    }
    if (console_.json()) {
      console_.PrintDocument(
          {{"testbed", topology_.name},
           {"job", job_},
           {"logs", logs_},
           {"ready_s", std::chrono::duration<double>(took).count()},
           {"hosts", std::move(hosts)}});
    }
    console_.Say(fmt::format("all up {} after the first host's start",
                             FormatSeconds(took)));
    console_.Say(fmt::format(
        "look in with: carillon ps -f {0}; end it with: carillon down -f {0}",
        options_.file));
    return absl::OkStatus();
  }

  const testbed::Topology& topology_;
  const testbed::UpOptions options_;
  const std::string logs_;
  const testbed::HostKeys keys_;
  mesh::Etcd& etcd_;
  Console& console_;
  std::vector<const testbed::HostEntry*> hosts_;  // that have something to do
  std::string job_;
  testbed::StopSignals stop_;
};

}  // namespace

absl::Status UpBySlurm(const testbed::UpOptions& options,
                       const std::vector<std::string>& sbatch_arguments,
                       Console& console) {
  if (options.file.empty() || options.file == kStdin) {
    return absl::InvalidArgumentError(
        "--slurm needs -f FILE: each host reads it, at that path");
  }
  if (!options.host.empty()) {
    return absl::InvalidArgumentError(
        "--host is one host, and --slurm starts all: leave one of them out");
  }
  testbed::UpOptions each = options;
  each.file = fs::absolute(options.file).lexically_normal().string();
  std::string source;
  ASSIGN_OR_RETURN(const auto topology, ChooseWholeTopology(each, &source));
  if (topology.hosts.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--slurm: {} has no hosts: {{NAME: }}", options.file));
  }
  RETURN_IF_ERROR(CheckHasEtcd(topology, options.file));
  for (const testbed::HostEntry& host : topology.hosts) {
    if (topology.own_etcd && host.name == topology.gpu_host &&
        host.node.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("--slurm with etcd: own: give host '{}' node: NODE, the "
                      "one that has its address",
                      host.name));
    }
  }
  ASSIGN_OR_RETURN(const auto etcd, testbed::OpenEtcd(topology));
  return SlurmHosts(topology, each, *etcd, console).Run(sbatch_arguments);
}

}  // namespace carillon::cli
