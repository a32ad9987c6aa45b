#include "tools/cli/commands/run_testbed.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include "tools/cli/testbed/admin_client.h"
#include "tools/cli/topology/reader.h"
#include "tools/cli/ui/text.h"

namespace carillon::cli {
namespace {

constexpr char kLocalFile[] = "carillon.yaml";
constexpr char kDemoText[] =
#include "tools/cli/demo_topology.inc"
    ;

std::chrono::milliseconds InMilliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

}  // namespace

void AddUpOptions(Arguments& arguments, UpOptions& options) {
  arguments
      .Text("-f,--file", options.file,
            "Topology; ./carillon.yaml if it is there, else the demo's")
      .Placeholder("FILE");
  arguments
      .Text("--name", options.name, "Of the testbed, instead of the topology's")
      .Placeholder("NAME");
  arguments.Seconds("--timeout", options.timeout_s, 0.1, 3600,
                    "How long the next process may take to be ready");
  arguments.Flag("--faults", options.faults,
                 "Have a board of faults, as with `faults: true`");
  arguments.Seconds("--restart-proven", options.restart_proven_s, 0, 86'400,
                    "A process that was ready for so long is not given up for "
                    "having failed before");
}

std::vector<std::string> ToCommandLine(const UpOptions& options) {
  std::vector<std::string> line = {
      fmt::format("--timeout={}", options.timeout_s),
      fmt::format("--restart-proven={}", options.restart_proven_s)};
  if (!options.file.empty()) line.push_back("--file=" + options.file);
  if (!options.name.empty()) line.push_back("--name=" + options.name);
  if (options.faults) line.push_back("--faults");
  return line;
}

absl::Status SetName(const std::string& name, Topology& topology) {
  if (name.empty()) return absl::OkStatus();
  if (const std::string wrong = CheckName(name); !wrong.empty()) {
    return absl::InvalidArgumentError(fmt::format("--name: {}", wrong));
  }
  topology.name = name;
  return absl::OkStatus();
}

Topology DemoTopology() { return ReadTopology(kDemoText, "demo").topology; }

absl::StatusOr<Topology> ChooseTopology(const UpOptions& options,
                                        std::string* source) {
  *source = options.file;
  if (source->empty() && access(kLocalFile, F_OK) == 0) *source = kLocalFile;
  absl::StatusOr<Topology> topology =
      source->empty() ? DemoTopology() : LoadTopology(*source, "default");
  if (!topology.ok()) return topology.status();
  if (source->empty()) *source = "the demo's topology";
  if (absl::Status status = SetName(options.name, *topology); !status.ok()) {
    return status;
  }
  topology->faults |= options.faults;
  return topology;
}

absl::StatusOr<std::unique_ptr<TestbedRun>> TestbedRun::Make(
    const Topology& topology, const std::string& source,
    const UpOptions& options, Say say) {
  const TestbedPaths paths = PathsOf(topology.name);
  auto plan = PlanLaunch(topology, paths);
  if (!plan.ok()) return plan.status();
  // Who reads the narration may go away; that must not end the testbed.
  signal(SIGPIPE, SIG_IGN);
  // Before gRPC starts its threads: they inherit the mask.
  std::unique_ptr<TestbedRun> run(new TestbedRun());
  auto directory = LockedDirectory::Create(paths);
  if (!directory.ok()) return directory.status();
  run->probe_ = std::make_unique<GrpcReadinessProbe>(paths);
  run->supervisor_ = std::make_unique<Supervisor>(
      *std::move(plan), *std::move(directory), run->probe_.get(),
      &run->requests_,
      Supervisor::Options{
          .ready_budget = InMilliseconds(options.timeout_s),
          .backoff = {.proven = InMilliseconds(options.restart_proven_s)},
          .topology_file = source,
          .say = std::move(say)});
  return run;
}

Json UpDocument(const Supervisor& supervisor) {
  Json document = ToJson(supervisor.state());
  document["directory"] = supervisor.paths().directory();
  return document;
}

absl::Status EndRun(Supervisor& supervisor) {
  const absl::Status status = supervisor.TakeDown();
  if (!status.ok() || supervisor.casualties().empty()) return status;
  return absl::FailedPreconditionError(fmt::format(
      "not everything went well: {}", JoinWords(supervisor.casualties())));
}

}  // namespace carillon::cli
