// Hosts and links of simulated time: `up` brings all of them up on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/temp_directory.h"
#include "base/testing/eventually.h"
#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

using ::testing::HasSubstr;

constexpr int kFrames = 6;

// Two cameras at the same rate, one beside the GPU and one on another host. Time
// begins with a third one, which has no end: the others are ready by then.
std::string Topology(const std::string& hosts, const std::string& links,
                     const std::string& at_a, const std::string& at_b) {
  const std::string camera =
      ", kind: fpga, size: 32x32, fps: 20000, frames: 6, check: true";
  return "name: lab\n" + hosts + links +
         "gpu: {backend: sim, timing: tiny, event_log: events.csv" + at_b +
         "}\ndevices:\n  - {name: far" + camera + at_a + "}\n  - {name: near" +
         camera + at_b + "}\n  - {name: keeper, kind: fpga, size: 8x8, fps: 1" +
         at_b + "}\n";
}

std::string OnHosts(const std::string& links) {
  return Topology("hosts: {a: , b: }\n", links, ", host: a", ", host: b");
}
std::string Link(const std::string& latency) {
  return "links: [{from: a, to: b, latency: " + latency + "}]\n";
}

// Without the keeper's lines, of which there are as many as there was time for.
std::string Events(const std::string& path) {
  std::ifstream file(path);
  std::string events;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("far,") || line.starts_with("near,")) {
      events += line + '\n';
    }
  }
  return events;
}

// How long the fastest event of each device waited for the GPU, in ns.
std::map<std::string, uint64_t> LeastWaits(const std::string& events) {
  std::map<std::string, uint64_t> least;
  std::istringstream text(events);
  for (std::string line; std::getline(text, line);) {
    const std::vector<std::string> columns = absl::StrSplit(line, ',');
    const uint64_t rung = std::stoull(columns[6]);
    const uint64_t dispatched = std::stoull(columns[7]);
    EXPECT_GE(dispatched, rung) << line;
    uint64_t& wait = least.try_emplace(columns[0], UINT64_MAX).first->second;
    wait = std::min(wait, dispatched - rung);
  }
  return least;
}

class SimulatedHostsTest : public ::testing::Test {
 protected:
  ~SimulatedHostsTest() override {
    if (up_) RunCli({"down", "--name", "lab"});
  }

  // The event log of one run to its end.
  std::string Run(const std::string& topology) {
    setenv("CARILLON_RUNTIME_DIR", (folder_.path() + "/run").c_str(), 1);
    const std::string log = folder_.path() + "/events.csv";
    std::filesystem::remove(log);
    std::ofstream(file()) << topology;
    const CliResult up = RunCli({"up", "-d", "-f", file()});
    EXPECT_EQ(up.code, 0) << up.err;
    if (up.code != 0) return "";
    up_ = true;
    EXPECT_TRUE(Eventually([&] {
      const std::string events = Events(log);
      return std::count(events.begin(), events.end(), '\n') == 2 * kFrames;
    })) << testbed::FileText(log);
    up_ = false;
    const CliResult down = RunCli({"down", "--name", "lab"});
    EXPECT_EQ(down.code, 0) << down.err;
    return Events(log);
  }
  std::string file() const { return folder_.path() + "/lab.yaml"; }

  const TempDirectory folder_ = *TempDirectory::Make();
  bool up_ = false;
};

TEST_F(SimulatedHostsTest, HostsWithoutLatencyAreOneMachineToTheByte) {
  const std::string one = Run(Topology("", "", "", ""));
  EXPECT_THAT(one, HasSubstr("far,"));
  EXPECT_EQ(Run(OnHosts("")), one);
  EXPECT_EQ(Run(OnHosts(Link("0"))), one);
}

TEST_F(SimulatedHostsTest, ALinkTakesItsLatencyTheSameInEachRun) {
  const std::string linked = Run(OnHosts(Link("3us")));
  EXPECT_EQ(Run(OnHosts(Link("3us"))), linked);
  auto least = LeastWaits(linked);
  EXPECT_GE(least["far"], 3000u);
  EXPECT_LT(least["near"], 3000u);
}

TEST_F(SimulatedHostsTest, OneHostAloneNeedsALinkAndSaysSo) {
  std::ofstream(file()) << OnHosts(Link("3us"));
  const CliResult up = RunCli({"up", "-d", "-f", file(), "--host", "a"});
  EXPECT_NE(up.code, 0);
  EXPECT_THAT(up.err, HasSubstr("host 'b' has the GPU, and no address"));
}

}  // namespace
}  // namespace carillon::cli
