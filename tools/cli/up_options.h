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

// `source` receives the file's name. Errors: those of LoadTopology().
absl::StatusOr<testbed::Topology> ChooseTopology(
    const testbed::UpOptions& options, std::string* source);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UP_OPTIONS_H_
