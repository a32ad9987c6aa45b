// Writes the schema and the tables of keys into the checkout:
//   bazel run //tools/testbed/topology:write_docs
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tools/testbed/topology/schema.h"

int main() {
  using namespace carillon::testbed;
  const char* const checkout = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (checkout == nullptr) {
    fmt::print(stderr, "run me with `bazel run`\n");
    return 1;
  }
  const std::string docs = fmt::format("{}/docs/cli.md", checkout);
  std::ostringstream page;
  page << std::ifstream(docs).rdbuf();
  const auto written = WithTopologyKeys(page.str());
  if (!written.ok()) {
    fmt::print(stderr, "{}: {}\n", docs,
               std::string(written.status().message()));
    return 1;
  }
  std::ofstream(docs) << *written;
  std::ofstream(fmt::format("{}/tools/cli/topology.schema.json", checkout))
      << TopologySchema().dump(2) << "\n";
  return 0;
}
