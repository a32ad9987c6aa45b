// `carillon cfgsim` on graphs and on kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/cli/run_line.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Even lanes execute 3 instructions between the branch and where all meet, and
// the guard's line is executed by all.
constexpr char kPtx[] = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry halves(.param .u32 mask)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  ld.param.u32 %r1, [mask];
  mov.u32 %r2, %tid.x;
  and.b32 %r3, %r2, %r1;
  setp.ne.s32 %p1, %r3, 0;
  @%p1 bra MEET;
  add.u32 %r4, %r2, 1;
  add.u32 %r5, %r4, 1;
  add.u32 %r6, %r5, 1;
MEET:
  ret;
}
)";

class CfgSim : public ::testing::Test {
 protected:
  CfgSim() { std::ofstream(ptx_) << kPtx; }
  CliResult Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "cfgsim");
    return RunLine(arguments);
  }
  CliResult Dot(const std::string& text, std::vector<std::string> more = {}) {
    std::ofstream(dot_) << text;
    more.push_back(dot_);
    return Run(more);
  }
  // "branches" and "efficiency" of each row.
  std::vector<std::pair<std::string, double>> Rows(const CliResult& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<std::pair<std::string, double>> rows;
    const Json document = outcome.json();
    for (const Json& row : document["rows"]) {
      rows.emplace_back(row["branches"], row["efficiency"]);
    }
    return rows;
  }

  testbed::TestFolder folder_;
  const std::string dot_ = ::testing::TempDir() + "/cfgsim_test.dot";
  const std::string ptx_ = ::testing::TempDir() + "/cfgsim_test.ptx";
};

TEST_F(CfgSim, TellsOfAGraph) {
  const std::string graph =
      "digraph g { a [insns=1]; b [insns=1]; c [insns=1]; a -> b [p=0]; "
      "a -> c; b -> c }";
  EXPECT_THAT(Rows(Dot(graph, {"-o", "json"})),
              ElementsAre(std::pair{"as the graph says", 1.0}));
  const Json document = Dot(graph, {"-o", "json", "--warps", "7"}).json();
  EXPECT_EQ(document["graph"], "g");
  EXPECT_EQ(document["meets"]["a"], "c");
  EXPECT_TRUE(document["meets"]["c"].is_null());
  EXPECT_EQ(document["rows"][0]["warps"], 7);
  EXPECT_EQ(document["rows"][0]["instructions_per_warp"], 2);
  EXPECT_EQ(document["rows"][0]["by_active_lanes"][7], 1);
  EXPECT_THAT(Dot(graph).out, HasSubstr("as the graph says  "));
}

TEST_F(CfgSim, TellsOfAKernelBesideWhatItMeasures) {
  // All lanes of a warp go one way: lanes that draw for themselves do not.
  const auto rows =
      Rows(Run({"-o", "json", "--from-ptx", ptx_, "--block", "64", "32"}));
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0].first, "all alike");
  EXPECT_EQ(rows[4], (std::pair<std::string, double>("measured, no walk", 1)));
  // A warp has 9 instructions, 3 of them with half of its lanes.
  EXPECT_NEAR(rows[2].second, (6 + 1.5) / 9, 0.002);
  EXPECT_NEAR(rows[2].second, rows[0].second, 0.002);
  // The same numbers where the lanes of a warp really divide.
  const auto divided =
      Rows(Run({"-o", "json", "--from-ptx", ptx_, "--block", "64", "1"}));
  EXPECT_NEAR(divided[2].second, (6 + 1.5) / 9, 0.002);
  EXPECT_DOUBLE_EQ(divided[4].second, (6 + 1.5) / 9);
  // And no branch at all: what was never taken is not drawn.
  const auto none =
      Rows(Run({"-o", "json", "--from-ptx", ptx_, "--block", "16", "--", "0"}));
  EXPECT_EQ(none[1].second, 0.5);
  EXPECT_EQ(none[2].second, 0.5);
  EXPECT_EQ(none[4].second, 0.5);
}

TEST_F(CfgSim, WithoutArgumentsAKernelsBranchesAreAllAlike) {
  const auto rows = Rows(Run({"-o", "json", "--from-ptx", ptx_}));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NEAR(rows[0].second, (6 + 1.5) / 9, 0.002);
}

TEST_F(CfgSim, SaysWhatIsWrong) {
  EXPECT_THAT(Run({}).err, HasSubstr("name one file in the DOT language"));
  EXPECT_THAT(Run({dot_ + "x"}).err, HasSubstr("cfgsim_test.dotx"));
  EXPECT_THAT(Dot("digraph { a [insns=1]; a -> b }").err,
              HasSubstr("cfgsim_test.dot: line 1: unknown node 'b'"));
  EXPECT_THAT(Run({"--from-ptx", ptx_, "--kernel", "x"}).err,
              HasSubstr("halves"));
  EXPECT_THAT(Run({"--from-ptx", ptx_, "1", "2"}).err, HasSubstr("1"));
}

}  // namespace
}  // namespace carillon::cli
