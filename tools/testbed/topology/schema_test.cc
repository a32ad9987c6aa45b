#include "tools/testbed/topology/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"
#include "tools/testbed/topology/reader.h"

namespace carillon::testbed {
namespace {

constexpr char kWriteThemAnew[] =
    "write it anew: bazel run //tools/testbed/topology:write_docs";

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
      << kWriteThemAnew;
}

TEST(TopologySchema, KnowsEveryKeyOfEveryKind) {
  const auto schema = TopologySchema();
  for (const Option& key : GpuKeys()) {
    EXPECT_TRUE(schema["properties"]["gpu"]["properties"].contains(key.key));
  }
  const auto& kinds = schema["properties"]["devices"]["items"]["oneOf"];
  ASSERT_EQ(kinds.size(), DeviceKinds().size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    for (const Option& key : DeviceKinds()[i].keys) {
      EXPECT_TRUE(kinds[i]["properties"].contains(key.key)) << key.key;
    }
  }
}

TEST(TopologySchema, HasTheRestartPolicyOfEveryProcess) {
  const auto schema = TopologySchema();
  const auto policies = Json({"never", "on_failure"});
  EXPECT_EQ(schema["properties"]["gpu"]["properties"]["restart"]["enum"],
            policies);
  for (const auto& kind : schema["properties"]["devices"]["items"]["oneOf"]) {
    EXPECT_EQ(kind["properties"]["restart"]["enum"], policies);
  }
}

TEST(TopologySchema, RefusesTheNamesThatTheReaderRefuses) {
  const auto schema = TopologySchema();
  std::vector<Json> names = {schema["properties"]["name"]};
  for (const auto& kind : schema["properties"]["devices"]["items"]["oneOf"]) {
    names.push_back(kind["properties"]["name"]);
  }
  for (const auto& name : names) {
    ASSERT_EQ(name["not"]["enum"].size(), kReservedNames.size());
    for (const std::string reserved : name["not"]["enum"]) {
      EXPECT_NE(CheckName(reserved), "") << reserved;
    }
  }
}

TEST(TopologySchema, LimitsAKeyByAnother) {
  const auto schema = TopologySchema();
  const auto& kinds = schema["properties"]["devices"]["items"]["oneOf"];
  const auto host =
      std::find_if(kinds.begin(), kinds.end(), [](const auto& kind) {
        return kind["properties"]["kind"]["const"] == "cpu_host";
      });
  ASSERT_NE(host, kinds.end());
  ASSERT_EQ((*host)["allOf"].size(), 19u);  // one for each kernel with a limit
  const auto& limit = (*host)["allOf"][0];
  EXPECT_EQ(limit["if"]["properties"]["kernel"]["const"], "matmul");
  // Without the key it is matmul as well.
  EXPECT_FALSE(limit["if"].contains("required"));
  EXPECT_EQ(limit["then"]["properties"]["size"]["maximum"], 4096);
  const auto& other = (*host)["allOf"][1];
  EXPECT_TRUE(other["if"].contains("required"));
}

TEST(TopologyDocumentation, HasTheTablesOfKeys) {
  const std::string page = FileText("docs/cli.md");
  const auto written = WithTopologyKeys(page);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(page, *written) << kWriteThemAnew;
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
}  // namespace carillon::testbed
