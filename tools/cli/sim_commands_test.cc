// `carillon sim ...` on a user's file.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "tools/cli/run_line.h"
#include "tools/testbed/perfetto/test_trace_reader.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kCoreMhz = 700;  // edge_table2's

constexpr char kPtx[] = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry twice(.param .u64 p, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra END;
  mul.wide.u32 %rd2, %r5, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r6, [%rd3];
  add.u32 %r6, %r6, %r6;
  st.global.u32 [%rd3], %r6;
END:
  ret;
}
.visible .entry other() { ret; }
)";

class SimCommands : public ::testing::Test {
 protected:
  SimCommands() : file_(testing::TempDir() + "/sim_commands_test.ptx") {
    Write(kPtx);
  }
  void Write(const std::string& text) { std::ofstream(file_) << text; }
  CliResult Sim(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "sim");
    return RunLine(arguments);
  }
  CliResult Twice(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {
        "run",           file_, "twice",  "--grid", "2",        "--block", "64",
        "u32[128]=iota", "100", "--show", "1",      "--values", "101"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Sim(arguments);
  }

  std::string file_;
  testbed::TestFolder folder_;
};

TEST_F(SimCommands, RunsAKernelAndShowsWhatItDid) {
  const CliResult outcome = Twice();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("twice"));
  EXPECT_THAT(outcome.out, HasSubstr("buffer 1: 0 2 4 6 "));
  EXPECT_THAT(outcome.out, HasSubstr(" 196 198 100 ..."));
}

TEST_F(SimCommands, CountsCyclesTheSameEveryTime) {
  const Json first = Twice({"--gpu", "tiny", "-o", "json"}).json();
  ASSERT_TRUE(first.is_object());
  EXPECT_EQ(first["gpu"], "tiny");
  EXPECT_EQ(first["blocks"], 2);
  EXPECT_EQ(first["warp_instructions"],
            Twice({"-o", "json"}).json()["warp_instructions"]);
  EXPECT_GT(first["cycles"].get<int>(), 100);
  const Json second = Twice({"--gpu", "tiny", "-o", "json"}).json();
  EXPECT_EQ(first["cycles"], second["cycles"]);
  EXPECT_EQ(first["statistics"], second["statistics"]);
  EXPECT_NE(first["cycles"],
            Twice({"--gpu", "gtx980", "-o", "json"}).json()["cycles"]);
}

TEST_F(SimCommands, SaysWhatIsWrongWithALine) {
  const auto error = [&](std::vector<std::string> arguments, int code) {
    const CliResult outcome = Sim(std::move(arguments));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_THAT(error({"run", "/none.ptx", "twice"}, 3),
              HasSubstr("/none.ptx: No such file or directory"));
  EXPECT_THAT(error({"run", "/dev/zero", "twice"}, 2),
              HasSubstr("/dev/zero is larger than 64 MiB"));
  EXPECT_THAT(error({"run", file_, "thrice", "1"}, 3), HasSubstr("thrice"));
  EXPECT_THAT(
      error({"run", file_, "twice", "u32[8]"}, 2),
      HasSubstr("twice has 2 parameters (.u64, .u32), and 1 are given"));
  EXPECT_THAT(error({"run", file_, "twice", "u32[8]", "x"}, 2),
              HasSubstr("argument 2: 'x': no number of type u32"));
  EXPECT_THAT(
      error({"run", file_, "twice", "--block", "2048", "u32[8]", "8"}, 2),
      HasSubstr("block 2048x1x1: dimensions are from 1 to 1024"));
  EXPECT_THAT(error({"run", file_, "twice", "--grid", "0", "u32[8]", "8"}, 2),
              HasSubstr("'0': one to three dimensions"));
  EXPECT_THAT(error({"run", file_, "twice", "--show", "2", "u32[8]", "8"}, 2),
              HasSubstr("--show '2': there are buffers 1 to 1"));
  EXPECT_THAT(error({"run", file_, "twice", "--gpu", "huge", "u32[8]", "8"}, 3),
              HasSubstr("edge_table2"));
}

TEST_F(SimCommands, AFaultNamesItsPlace) {
  const CliResult outcome =
      Sim({"run", file_, "twice", "--block", "64", "u32[32]", "64"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err,
              HasSubstr(fmt::format("twice: {}:19: ld.global.u32: ", file_)));
  EXPECT_THAT(outcome.err, HasSubstr("past the end of 'u32[32]'"));
  EXPECT_THAT(outcome.err, HasSubstr("warp 1"));
}

TEST_F(SimCommands, RefusesWhatItCannotRun) {
  Write(std::string(kPtx) +
        ".visible .entry wgmma() { wgmma.fence.sync.aligned; ret; }\n");
  const CliResult outcome = Sim({"run", file_, "wgmma"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr(fmt::format("{}:26:", file_)));
  EXPECT_THAT(outcome.err, HasSubstr("wgmma.fence"));
  // The file's others run.
  EXPECT_EQ(Sim({"run", file_, "other"}).code, 0);
  const CliResult ops = Sim({"ops", file_});
  EXPECT_THAT(ops.out, HasSubstr(fmt::format("  wgmma: {}:26:", file_)));
  EXPECT_EQ(Sim({"ops", file_, "-o", "json"}).json()["runs"], false);
  Write("not PTX");
  EXPECT_THAT(Sim({"ops", file_}).err, HasSubstr(file_ + ":1:1: "));
}

TEST_F(SimCommands, OpsCountsInstructions) {
  const CliResult outcome = Sim({"ops", file_});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("ld.global.u32"));
  EXPECT_THAT(outcome.out, HasSubstr("mad.lo.u32"));
  EXPECT_TRUE(Sim({"ops", file_, "-o", "json"}).json().is_object());
}

TEST_F(SimCommands, CfgIsADotGraph) {
  const CliResult outcome = Sim({"cfg", file_, "twice"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("digraph"));
  EXPECT_THAT(outcome.out, HasSubstr("->"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("other")));
}

TEST_F(SimCommands, OccupancyNamesWhatBinds) {
  const CliResult outcome =
      Sim({"occupancy", file_, "--block", "1024", "--gpu", "edge_table2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("twice"));
  EXPECT_THAT(outcome.out, HasSubstr("warps"));
}

TEST_F(SimCommands, TraceWritesATimeline) {
  const std::string out = testing::TempDir() + "/sim_commands_test.json";
  const Json document =
      Sim({"trace", "BP", "IPv4", "--out", out, "--period", "1000", "--set",
           "edge.larger_events=1", "-o", "json"})
          .json();
  ASSERT_TRUE(document.is_object());
  EXPECT_GT(document["events"].get<int>(), 1);
  EXPECT_GT(document["places"]["preempted"].get<int>(), 0);
  const Json trace = Json::parse(std::ifstream(out), nullptr, false);
  ASSERT_TRUE(trace.is_object());
  std::map<std::string, int> slices;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++slices[event["name"].get<std::string>()];
  }
  EXPECT_EQ(slices["IPv4"], document["events"].get<int>());
  EXPECT_EQ(slices["flush"], document["places"]["preempted"].get<int>());
  EXPECT_GT(slices["BP"], 100);
}

TEST_F(SimCommands, TraceOfPerfettosFormatHasWhatTheJsonHas) {
  const std::string json = testing::TempDir() + "/sim_commands_test.json";
  const std::string out = testing::TempDir() + "/sim_commands_test.pftrace";
  for (const std::string& file : {json, out}) {
    EXPECT_EQ(Sim({"trace", "BP", "IPv4", "--out", file, "--period", "1000",
                   "--concurrent", "4", "--set", "edge.larger_events=1"})
                  .code,
              0);
  }
  // By name, grid, cycle and cycles; warps and events.
  std::multiset<std::tuple<std::string, uint64_t, uint64_t, uint64_t>> expected;
  std::multiset<std::tuple<std::string, uint64_t, uint64_t, uint64_t>> found;
  std::map<std::pair<std::string, uint64_t>, uint64_t> begun;
  const Json chrome = Json::parse(std::ifstream(json), nullptr, false);
  for (const Json& event : chrome["traceEvents"]) {
    const std::string name = event["name"];
    if (event["ph"] == "X") {
      expected.emplace(name, event["args"]["grid"], event["args"]["cycle"],
                       event["args"]["cycles"]);
    } else if (event["ph"] == "b") {
      begun[{name, event["id"]}] = event["args"]["cycle"];
    } else if (event["ph"] == "e") {
      const uint64_t from = begun[{name, event["id"]}];
      const uint64_t cycles = event["args"]["cycle"].get<uint64_t>() - from;
      // Nothing to look at.
      if (cycles == 0 && name != "IPv4") continue;
      expected.emplace(name, event["id"], from, cycles);
    }
  }
  const Json trace = perfetto::ReadTrace(out);
  size_t lanes = 0;
  for (const Json& slice : trace["slices"]) {
    const Json& args = slice["args"];
    found.emplace(slice["name"], args["grid"], args["cycle"], args["cycles"]);
    const std::string path = perfetto::PathOf(trace, slice);
    EXPECT_THAT(path, AnyOf(StartsWith("Events/lane "),
                            MatchesRegex("GPU/SM [0-9]+/warp [0-9]+")));
    lanes += path == "Events/lane 2" && slice["depth"] == 0;
    const double at = slice["begin"].get<double>();
    // Its cycles are no whole nanoseconds.
    EXPECT_LE(at, 1000.0 * args["cycle"].get<double>() / kCoreMhz);
    EXPECT_GT(at + 1, 1000.0 * args["cycle"].get<double>() / kCoreMhz);
  }
  EXPECT_EQ(found, expected);
  EXPECT_GT(found.size(), 100u);
  EXPECT_GT(lanes, 0u);
}

TEST_F(SimCommands, TraceRefusesWhatThereIsNot) {
  const std::string out = testing::TempDir() + "/sim_commands_test.json";
  const auto error = [&](std::vector<std::string> line) {
    line.insert(line.begin(), "trace");
    const CliResult outcome = Sim(line);
    EXPECT_NE(outcome.code, 0);
    return outcome.err;
  };
  EXPECT_THAT(error({"BX", "IPv4", "--out", out}), HasSubstr("CONV1"));
  EXPECT_THAT(error({"BP", "IPv5", "--out", out}), HasSubstr("IPSec"));
  EXPECT_THAT(error({"BP", "IPv4", "--out", "/none/x"}),
              HasSubstr("/none/x: No such file or directory"));
  EXPECT_THAT(error({"BP", "IPv4", "--out", out, "--set", "victim"}),
              HasSubstr("say KEY=VALUE"));
  EXPECT_THAT(error({"BP", "IPv4", "--out", out, "--set", "edge.x=1"}),
              HasSubstr("edge.x: no configuration has such a key"));
}

}  // namespace
}  // namespace carillon::cli
