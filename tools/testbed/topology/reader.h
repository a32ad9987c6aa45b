// Reads a topology file strictly: every key must be known, and every value must
// have its type and lie in its range. All mistakes are reported at once, with
// their lines.
#ifndef CARILLON_TOOLS_TESTBED_TOPOLOGY_READER_H_
#define CARILLON_TOOLS_TESTBED_TOPOLOGY_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/strict_yaml.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

struct TopologyReading {
  // Complete only if there are no problems.
  Topology topology;
  std::vector<Problem> problems;
};

// `default_name` is the testbed's name if the file gives none.
TopologyReading ReadTopology(std::string_view text,
                             std::string_view default_name);

void ReadTopologyNode(const YAML::Node& root, std::string_view default_name,
                      TopologyReading* reading);
// Makes relative paths in the topology relative to the folder of `file`.
void AnchorPaths(const std::string& file, Topology& topology);

// Programs of exec devices that are relative to the file get its folder.
// Errors: NotFound; PermissionDenied; InvalidArgument with one line per
// problem.
absl::StatusOr<Topology> LoadTopology(const std::string& path,
                                      std::string_view default_name);
// ReadTopology() of a file, for callers that want the problems.
absl::StatusOr<TopologyReading> ReadTopologyFile(const std::string& path,
                                                 std::string_view default_name);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_TOPOLOGY_READER_H_
