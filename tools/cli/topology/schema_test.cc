#include "tools/cli/topology/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/cli/topology/reader.h"

namespace carillon::cli {
namespace {

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TopologySchema, IsWhatIsPublished) {
  EXPECT_EQ(FileText("tools/cli/topology.schema.json"),
            TopologySchema().dump(2) + "\n")
      << "write it anew: carillon validate --schema "
         "> tools/cli/topology.schema.json";
}

TEST(TopologySchema, KnowsEveryKeyOfEveryKind) {
  const auto schema = TopologySchema();
  for (const Key& key : GpuKeys()) {
    EXPECT_TRUE(schema["properties"]["gpu"]["properties"].contains(key.name));
  }
  const auto& kinds = schema["properties"]["devices"]["items"]["oneOf"];
  ASSERT_EQ(kinds.size(), DeviceKinds().size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    for (const Key& key : DeviceKinds()[i].keys) {
      EXPECT_TRUE(kinds[i]["properties"].contains(key.name)) << key.name;
    }
  }
}

TEST(TopologyDocumentation, HasTheTablesOfKeys) {
  EXPECT_NE(FileText("docs/cli.md").find(TopologyKeysAsMarkdown()),
            std::string::npos)
      << "write them anew: carillon validate --keys";
}

TEST(ExampleTopologies, HaveNoProblems) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("tools/cli/topologies")) {
    const auto topology = LoadTopology(entry.path(), "x");
    EXPECT_TRUE(topology.ok()) << topology.status();
    ++files;
  }
  EXPECT_GE(files, 1);
}

}  // namespace
}  // namespace carillon::cli
