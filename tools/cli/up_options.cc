#include "tools/cli/up_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "tools/testbed/topology/hosts.h"
#include "tools/testbed/topology/reader.h"

namespace carillon::cli {
namespace {

constexpr char kLocalFile[] = "carillon.yaml";
constexpr char kDemoText[] =
#include "tools/cli/demo_topology.inc"
    ;

}  // namespace

void AddUpOptions(Arguments& arguments, testbed::UpOptions& options) {
  arguments.Text(
      "-f,--file FILE", options.file,
      "Topology, - for stdin; ./carillon.yaml if it is there, else the "
      "demo's");
  arguments.Text("--name NAME", options.name,
                 "Of the testbed, instead of the topology's");
  arguments.Text("--host HOST", options.host,
                 "Which of the topology's hosts this machine is: starts that "
                 "host's part (docs/mesh.md)");
  arguments.Seconds("--timeout", options.timeout_s, 0.1, 3600,
                    "How long the next process may take to be ready");
  arguments.Flag("--faults", options.faults,
                 "Have a board of faults, as with `faults: true`");
  arguments.Seconds("--restart-proven", options.restart_proven_s, 0, 86'400,
                    "A process that was ready for so long is not given up for "
                    "having failed before");
}

std::vector<std::string> ToCommandLine(const testbed::UpOptions& options) {
  std::vector<std::string> line = {
      fmt::format("--timeout={}", options.timeout_s),
      fmt::format("--restart-proven={}", options.restart_proven_s)};
  if (!options.file.empty()) line.push_back("--file=" + options.file);
  if (!options.name.empty()) line.push_back("--name=" + options.name);
  if (!options.host.empty()) line.push_back("--host=" + options.host);
  if (options.faults) line.push_back("--faults");
  return line;
}

absl::Status SetName(const std::string& name, testbed::Topology& topology) {
  if (name.empty()) return absl::OkStatus();
  if (const std::string wrong = testbed::CheckName(name); !wrong.empty()) {
    return absl::InvalidArgumentError(fmt::format("--name: {}", wrong));
  }
  topology.name = name;
  return absl::OkStatus();
}

testbed::Topology DemoTopology() {
  return testbed::ReadTopology(kDemoText, "demo").topology;
}

absl::StatusOr<testbed::Topology> ChooseWholeTopology(
    const testbed::UpOptions& options, std::string* source) {
  *source = options.file;
  if (source->empty() && access(kLocalFile, F_OK) == 0) *source = kLocalFile;
  testbed::Topology topology = DemoTopology();
  if (!source->empty()) {
    ASSIGN_OR_RETURN(topology, testbed::LoadTopology(*source, "default"));
  }
  if (source->empty()) *source = "the demo's topology";
  RETURN_IF_ERROR(SetName(options.name, topology));
  topology.faults |= options.faults;
  return topology;
}

absl::StatusOr<testbed::Topology> ChooseTopology(
    const testbed::UpOptions& options, std::string* source) {
  ASSIGN_OR_RETURN(auto topology, ChooseWholeTopology(options, source));
  return testbed::PartOf(std::move(topology), options.host);
}

void AddMeshOption(Arguments& arguments, std::string& file) {
  arguments
      .Text("-f,--file FILE", file,
            "Topology: of all its hosts, as its mesh: etcd knows them "
            "(docs/mesh.md)")
      .Excludes("--name");
}

absl::Status CheckHasEtcd(const testbed::Topology& topology,
                          const std::string& file) {
  if (!topology.etcd.empty()) return absl::OkStatus();
  return WithHint(
      absl::InvalidArgumentError(fmt::format(
          "{} names no etcd, so each host knows itself only", file)),
      "give it mesh: {etcd: [https://HOST:PORT]}, or etcd: own (docs/mesh.md)");
}

absl::StatusOr<testbed::Topology> LoadMesh(const std::string& file) {
  ASSIGN_OR_RETURN(auto topology, testbed::LoadTopology(file, "default"));
  RETURN_IF_ERROR(CheckHasEtcd(topology, file));
  return topology;
}

}  // namespace carillon::cli
