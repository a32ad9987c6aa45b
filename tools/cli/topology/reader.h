// Reads a topology file, strictly: every key is known, every value has its type
// and lies in its range, and all that is wrong is told at once, with its line.
#ifndef CARILLON_TOOLS_CLI_TOPOLOGY_READER_H_
#define CARILLON_TOOLS_CLI_TOPOLOGY_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/cli/topology/topology.h"

namespace carillon::cli {

inline constexpr size_t kMaxTopologyBytes = 1 << 20;
inline constexpr int kMaxTopologyDepth = 16;

struct Problem {
  // From 1; 0: the file as a whole.
  int line = 0;
  int column = 0;
  std::string text;

  // "FILE:7:5: text", "FILE: text".
  std::string ToString(std::string_view file) const;
};

struct TopologyReading {
  // Complete only when there are no problems.
  Topology topology;
  std::vector<Problem> problems;
};

// `default_name`: the testbed's name when the file gives none.
TopologyReading ReadTopology(std::string_view text,
                             std::string_view default_name);

// Programs of exec devices that are relative to the file get its folder.
// Errors: NotFound; PermissionDenied; InvalidArgument with one line a problem.
absl::StatusOr<Topology> LoadTopology(const std::string& path,
                                      std::string_view default_name);
// ReadTopology() of the file, for those who want the problems.
absl::StatusOr<TopologyReading> ReadTopologyFile(const std::string& path,
                                                 std::string_view default_name);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TOPOLOGY_READER_H_
