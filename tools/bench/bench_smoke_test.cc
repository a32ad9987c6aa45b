// The benchmarks as programs: each still runs to its end and finds something.
// What it finds is no verdict: a test's machine is no quiet one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/ui/console.h"

namespace carillon::bench {
namespace {

using cli::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What a command prints, and its exit status as pclose() gives it.
std::pair<std::string, int> Output(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof(piece), pipe)) > 0;) {
    text.append(piece, n);
  }
  return {text, pclose(pipe)};
}

Json RunQuick(const std::string& name) {
  const auto [text, status] =
      Output("tools/bench/" + name + "_bench --quick --json");
  EXPECT_EQ(status, 0);
  Json document = Json::parse(text, nullptr, false);
  EXPECT_TRUE(document.is_object()) << text;
  // The test goes on to fail where something is missing.
  if (!document.is_object()) document = Json::object();
  EXPECT_EQ(document["bench"], name);
  EXPECT_EQ(document["quick"], true);
  EXPECT_EQ(document["method"]["rounds"], 1);
  EXPECT_TRUE(document["machine"].is_object());
  return document;
}

std::vector<std::string> PartNames(Json& document) {
  std::vector<std::string> names;
  for (Json& part : document["parts"]) names.push_back(part["name"]);
  return names;
}

// Everything that a part summarizes is a positive number, and there is as much
// of it as each contender promises.
void ExpectMeasured(Json& part, size_t numbers) {
  EXPECT_EQ(part["measurements"].size(), 2 * part["contenders"].size());
  for (auto& [contender, summary] : part["summary"].items()) {
    EXPECT_EQ(summary.size(), numbers) << contender;
    for (auto& [key, range] : summary.items()) {
      EXPECT_GT(range["median"], 0) << contender << ": " << key;
    }
  }
}

void ExpectFigures(Json& document, size_t count) {
  EXPECT_EQ(document["figures"].size(), count);
  for (Json& figure : document["figures"]) {
    EXPECT_GT(figure["value"]["runs"], 0) << figure;
    // An idle process may use nothing.
    if (figure["name"] == "idle_percent" || figure["name"] == "wrong_replies") {
      EXPECT_GE(figure["value"]["median"], 0) << figure;
    } else {
      EXPECT_GT(figure["value"]["median"], 0) << figure;
    }
  }
}

TEST(BenchSmoke, EventBenchMeasuresEveryPart) {
  Json document = RunQuick("event");
  ASSERT_THAT(
      PartNames(document),
      ElementsAre("null event, both sides spinning", "null event, from idle",
                  "pipelined null events", "idle"));
  ExpectMeasured(document["parts"][0], 3);  // percentiles of a round trip
  ExpectMeasured(document["parts"][1], 3);
  ExpectMeasured(document["parts"][2], 1);  // the rate
  ExpectMeasured(document["parts"][3], 0);  // CPU time alone
  ExpectFigures(document, 10);
}

TEST(BenchSmoke, IpcBenchMeasuresEveryTransport) {
  Json document = RunQuick("ipc");
  ASSERT_THAT(PartNames(document), ElementsAre("64-byte request and reply"));
  EXPECT_EQ(document["parts"][0]["contenders"].size(), 9u);
  ExpectMeasured(document["parts"][0], 4);
  ExpectFigures(document, 10);
}

TEST(BenchSmoke, MemcachedBenchComparesEveryWindow) {
  if (Output("command -v memcached").second != 0) {
    GTEST_SKIP() << "memcached is not installed";
  }
  Json document = RunQuick("memcached");
  EXPECT_THAT(PartNames(document), IsEmpty());
  ASSERT_EQ(document["runs"].size(), 9u);  // three contenders, three windows
  for (Json& run : document["runs"]) {
    for (const char* side : {"a", "b"}) {
      EXPECT_GT(run[side]["requests_per_s"]["median"], 0) << run;
      EXPECT_EQ(run[side]["bad"], 0) << run;
    }
  }
  ExpectFigures(document, 17);
}

}  // namespace
}  // namespace carillon::bench
