#include "sim/timing/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string TinyText() {
  std::ifstream file("sim/timing/presets/tiny.yaml");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty());
  return text.str();
}

// The preset `tiny` with one piece of its text replaced.
absl::StatusOr<Config> With(const std::string& from, const std::string& to) {
  std::string text = TinyText();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return ParseConfig(text, "f.yaml");
}

std::string Message(const absl::StatusOr<Config>& config) {
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

TEST(Config, EveryPresetLoads) {
  EXPECT_THAT(PresetNames(), ElementsAre("edge_table2", "gtx980", "tiny"));
  for (const std::string_view name : PresetNames()) {
    const auto config = LoadConfig(name);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->name, name);
  }
}

TEST(Config, EdgesTableTwoIsWhatThePaperSays) {
  const Config config = *LoadConfig("edge_table2");
  EXPECT_EQ(config.sm.count, 16u);
  EXPECT_EQ(config.sm.warps, 64u);
  EXPECT_EQ(config.sm.blocks, 16u);
  EXPECT_EQ(config.sm.registers, 65536u);
  EXPECT_EQ(config.sm.shared_bytes, 48u << 10);
  EXPECT_EQ(config.l1.bytes, 64u << 10);
  EXPECT_EQ(config.l1.ways, 4u);
  EXPECT_EQ(config.l2.bytes, 1u << 20);
  EXPECT_EQ(config.l2.ways, 16u);
  EXPECT_EQ(config.scheduler.policy, SchedulerPolicy::kGto);
  EXPECT_EQ(config.scheduler.count, 2u);
  EXPECT_EQ(config.dispatch.device_cycles, 300u);
  EXPECT_EQ(config.costs[3][4].latency, 330u);
}

TEST(Config, AFileIsReadByItsPath) {
  const std::string path = testing::TempDir() + "/mine.yaml";
  std::ofstream(path) << TinyText();
  const auto config = LoadConfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->name, path);
  EXPECT_EQ(config->sm.warps, 8u);
  EXPECT_EQ(LoadConfig("/nowhere/x.yaml").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(LoadConfig("/dev/zero").status().message(),
              HasSubstr("larger than 64 MiB"));
}

TEST(Config, AnUnknownPresetNamesTheKnownOnes) {
  const auto config = LoadConfig("gtx48");
  EXPECT_EQ(config.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(config.status().message(),
              HasSubstr("'gtx48' is no preset (edge_table2, gtx980, tiny)"));
}

TEST(Config, MistakesAreNamedWithFileLineKeyAndLimits) {
  EXPECT_EQ(Message(With("  warps: 8\n", "  warps: 65\n")),
            "f.yaml:6: sm.warps: '65': must be a whole number from 1 to 64");
  EXPECT_EQ(Message(With("  warps: 8\n", "  warps: -1\n")),
            "f.yaml:6: sm.warps: '-1': must be a whole number from 1 to 64");
  EXPECT_EQ(Message(With("  warps: 8\n", "  warps: 99999999999\n")),
            "f.yaml:6: sm.warps: '99999999999': must be a whole number from 1 "
            "to 64");
  EXPECT_EQ(Message(With("  warps: 8\n", "  warps: many\n")),
            "f.yaml:6: sm.warps: 'many': must be a whole number from 1 to 64");
  EXPECT_EQ(Message(With("  warps: 8\n", "  warps: [8]\n")),
            "f.yaml:6: sm.warps: must be a number or a name");
  EXPECT_EQ(Message(With("  warps: 8\n", "  warsp: 8\n")),
            "f.yaml: sm.warps: is missing");
  EXPECT_EQ(Message(With("  warps: 8\n", "  warps: 8\n  wraps: 8\n")),
            "f.yaml:7: sm.wraps: is no known key");
  EXPECT_EQ(Message(With("policy: gto", "policy: oldest")),
            "f.yaml:12: scheduler.policy: 'oldest': must be one of lrr, gto");
  EXPECT_THAT(Message(ParseConfig("a: [", "f.yaml")), HasSubstr("f.yaml:1: "));
  EXPECT_EQ(Message(ParseConfig("8", "f.yaml")),
            "f.yaml: is no map of keys to values");
  EXPECT_EQ(Message(ParseConfig("a: &a\n  b: *a\n", "f.yaml")),
            "f.yaml:2: a.b.b.b: must be a number or a name");
}

TEST(Config, ValuesThatContradictEachOtherAreRefused) {
  EXPECT_THAT(Message(With("  bytes: 2048\n", "  bytes: 2049\n")),
              HasSubstr("l1: 2049 bytes in lines of 128 and 2 ways"));
  EXPECT_THAT(Message(With("  slices: 2\n", "  slices: 3\n")),
              HasSubstr("l2.bytes: 8192: must be a multiple of l2.slices, 3"));
  EXPECT_THAT(
      Message(With("  channels: 1\n", "  channels: 3\n")),
      HasSubstr("l2.slices: 2: must be a multiple of dram.channels, 3"));
  EXPECT_THAT(Message(With("l2_mhz: 1000", "l2_mhz: 65000")),
              HasSubstr("clock.l2_mhz: 65000: at most 64 times clock.core_mhz, "
                        "1000"));
  EXPECT_THAT(Message(With("row_bytes: 1024", "row_bytes: 1000")),
              HasSubstr("dram.row_bytes 1000: must be powers of two"));
  EXPECT_THAT(Message(With("operation_bytes: 8", "operation_bytes: 24")),
              HasSubstr("must divide icache.line_bytes, 128"));
  EXPECT_THAT(Message(With("  warps: 8\n", "  warps: 8\n  warps: 8\n")),
              HasSubstr("f.yaml:7: sm.warps: is there twice"));
  EXPECT_THAT(Message(With("replay_loads: 0", "replay_loads: 1")),
              HasSubstr("edge.replay_loads: 1: needs edge.flush_i_buffer: 1"));
  EXPECT_THAT(Message(With("reserve_sms: 0", "reserve_sms: 1")),
              HasSubstr("must leave one of sm.count, 1, to others"));
  EXPECT_THAT(Message(With("reserve_blocks: 0", "reserve_blocks: 4")),
              HasSubstr("must leave one of sm.blocks, 4, and of sm.warps, 8"));
  EXPECT_THAT(Message(With("in_place: 0", "in_place: 1")),
              HasSubstr("in_place: 1: needs preemption.technique: pep"));
  EXPECT_THAT(Message(With("flush: 0", "flush: 1")),
              HasSubstr("flush: 1: needs preemption.technique: chimera"));
  EXPECT_THAT(Message(With("quantum_ns: 0", "quantum_ns: 500")),
              HasSubstr("quantum_ns: 500: needs a preemption.technique"));
  EXPECT_THAT(Message(With("victim: oldest", "victim: eldest")),
              HasSubstr("edge.victim: 'eldest': must be one of oldest, newest, "
                        "best, dedicated, reserved"));
}

TEST(Config, ClocksOfMemoryAreConvertedToTheSMs) {
  Config config;
  config.clock.core_mhz = 700;
  EXPECT_EQ(TicksOfClock(config, 700, 3), 3 * kTicksPerCycle);
  EXPECT_EQ(TicksOfClock(config, 1400, 3), 3 * kTicksPerCycle / 2);
  // 1024 * 700 / 1848 = 387.9
  EXPECT_EQ(TicksOfClock(config, 1848, 1), 388u);
  EXPECT_EQ(CycleAt(0), 0u);
  EXPECT_EQ(CycleAt(1), 1u);
  EXPECT_EQ(CycleAt(kTicksPerCycle), 1u);
}

// The document has a row for each key: "| `l1.mshrs` | 64 | 128 | 4 | ...".
TEST(Config, TheCalibrationDocumentHasEveryParameterOfEveryPreset) {
  std::ifstream file("docs/sim_calibration.md");
  std::ostringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  ASSERT_FALSE(text.empty());
  std::vector<std::vector<std::pair<std::string, std::string>>> values;
  for (const std::string_view name : PresetNames()) {
    values.push_back(Values(*LoadConfig(name)));
  }
  for (size_t i = 0; i < values[0].size(); ++i) {
    std::string row = "\n| `" + values[0][i].first + "` |";
    for (const auto& preset : values) row += " " + preset[i].second + " |";
    EXPECT_NE(text.find(row), std::string::npos) << "no row begins with" << row;
  }
}

}  // namespace
}  // namespace carillon::sim::timing
