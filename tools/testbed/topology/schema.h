// The topology's JSON schema (draft 2020-12), for editors: published as
// tools/cli/topology.schema.json.
#ifndef CARILLON_TOOLS_TESTBED_TOPOLOGY_SCHEMA_H_
#define CARILLON_TOOLS_TESTBED_TOPOLOGY_SCHEMA_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace carillon::testbed {

Json TopologySchema();

// The tables of keys as docs/cli.md shows them (Markdown).
std::string TopologyKeysAsMarkdown();
// `page` (docs/cli.md) with those tables in the place that is marked for them.
// FailedPrecondition: there is none.
absl::StatusOr<std::string> WithTopologyKeys(std::string_view page);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_TOPOLOGY_SCHEMA_H_
