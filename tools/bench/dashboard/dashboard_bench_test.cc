// The bench runs to its end, and measures each thing. Its figures are no verdict,
// since a test's machine is not quiet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/json.h"

namespace carillon::bench {
namespace {

using ::testing::UnorderedElementsAre;

std::string Output(const char* command) {
  FILE* const pipe = popen(command, "r");
  std::string text;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof(piece), pipe)) > 0;) {
    text.append(piece, n);
  }
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

TEST(DashboardBench, MeasuresEachThing) {
  const std::string text = Output("tools/bench/dashboard_bench --quick --json");
  const Json document = Json::parse(text, nullptr, false);
  ASSERT_TRUE(document.is_object()) << text;
  EXPECT_EQ(document["bench"], "dashboard");
  EXPECT_EQ(document["quick"], true);
  std::set<std::string> contenders;
  for (const auto& [part, measurements] : document["measurements"].items()) {
    for (const Json& one : measurements) {
      contenders.insert(part + " " + one["contender"].get<std::string>());
      if (part == "stream") continue;
      EXPECT_GT(one["cpu_ns_per_event"], 0) << one;
      // It is open when the first one has come.
      EXPECT_EQ(one["pictures"] > 0, one["contender"] == "open") << one;
    }
  }
  EXPECT_THAT(contenders,
              UnorderedElementsAre("events closed", "events open",
                                   "events closed_again", "stream none",
                                   "stream closed", "stream open",
                                   "stream none_again"));
  // Differences may be anything.
  const std::set<std::string> positive = {
      "event_cpu_ns", "gateway_peak", "first_data", "trace_export",
      "trace_route",  "trace_bytes",  "trace_peak"};
  std::set<std::string> found;
  for (const Json& figure : document["figures"]) {
    EXPECT_GT(figure["value"]["runs"], 0) << figure;
    if (!positive.contains(figure["name"])) continue;
    found.insert(figure["name"]);
    EXPECT_GT(figure["value"]["median"], 0) << figure;
  }
  EXPECT_EQ(found, positive);
}

}  // namespace
}  // namespace carillon::bench
