// The options by which `up`, `supervise` and `demo` bring up a testbed.
#ifndef CARILLON_TOOLS_CLI_UP_OPTIONS_H_
#define CARILLON_TOOLS_CLI_UP_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/cli/arguments.h"
#include "tools/testbed/testbed_run.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::cli {

void AddUpOptions(Arguments& arguments, testbed::UpOptions& options);
std::vector<std::string> ToCommandLine(const testbed::UpOptions& options);

// Uses --name, unless it is empty, instead of the topology's own. Errors:
// InvalidArgument.
absl::Status SetName(const std::string& name, testbed::Topology& topology);

// tools/cli/topologies/demo.yaml.
testbed::Topology DemoTopology();

// With all hosts. `source` receives the file's name. Errors: those of
// LoadTopology().
absl::StatusOr<testbed::Topology> ChooseWholeTopology(
    const testbed::UpOptions& options, std::string* source);
// The part of options.host. Errors: also those of PartOf().
absl::StatusOr<testbed::Topology> ChooseTopology(
    const testbed::UpOptions& options, std::string* source);

// -f of a command that asks all hosts.
void AddMeshOption(Arguments& arguments, std::string& file);
// Errors: InvalidArgument.
absl::Status CheckHasEtcd(const testbed::Topology& topology,
                          const std::string& file);
// Errors: those of LoadTopology() and CheckHasEtcd().
absl::StatusOr<testbed::Topology> LoadMesh(const std::string& file);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UP_OPTIONS_H_
