// The topology's JSON schema (draft 2020-12), for editors: published as
// tools/cli/topology.schema.json.
#ifndef CARILLON_TOOLS_CLI_TOPOLOGY_SCHEMA_H_
#define CARILLON_TOOLS_CLI_TOPOLOGY_SCHEMA_H_

#include <nlohmann/json.hpp>
#include <string>

namespace carillon::cli {

nlohmann::ordered_json TopologySchema();

// The tables of keys as docs/cli.md shows them (Markdown).
std::string TopologyKeysAsMarkdown();

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TOPOLOGY_SCHEMA_H_
