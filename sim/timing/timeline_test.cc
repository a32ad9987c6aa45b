#include "sim/timing/timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "nlohmann/json.hpp"

namespace carillon::sim::timing {
namespace {

using Json = nlohmann::json;
using What = Observation::What;

class TimelineTest : public testing::Test {
 protected:
  TimelineTest() : timeline_(Mhz(500)) {}

  static Config Mhz(uint32_t mhz) {
    Config config;
    config.clock.core_mhz = mhz;
    return config;
  }
  void See(Cycle cycle, uint64_t grid, What what, uint32_t sm = 1,
           uint32_t slot = 2) {
    timeline_.observer()({cycle, grid, what, sm, slot});
  }
  // The trace's events with that phase and name.
  std::vector<Json> Written(const std::string& phase, const std::string& name) {
    std::ostringstream to;
    timeline_.Write(to);
    std::vector<Json> found;
    const Json trace = Json::parse(to.str());
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] == phase && event["name"] == name) found.push_back(event);
    }
    return found;
  }

  Timeline timeline_;
};

TEST_F(TimelineTest, AWarpIsASliceOfItsSlotsTrack) {
  timeline_.Name(7, "conv");
  See(100, 7, What::kWarpStart);
  See(600, 7, What::kWarpEnd);
  const auto slices = Written("X", "conv");
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0]["ts"], 0.2) << "microseconds at 500 MHz";
  EXPECT_EQ(slices[0]["dur"], 1.0);
  EXPECT_EQ(slices[0]["args"]["cycle"], 100);
  const auto names = Written("M", "thread_name");
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names[0]["pid"], slices[0]["pid"]);
  EXPECT_EQ(names[0]["tid"], slices[0]["tid"]);
  EXPECT_EQ(names[0]["args"]["name"], "warp 2");
  EXPECT_EQ(Written("M", "process_name").size(), 2u) << "the SM's, the events'";
}

TEST_F(TimelineTest, AnEventLiesUponItsVictim) {
  timeline_.Name(1, "conv");
  timeline_.Name(2, "ipv4");
  See(0, 1, What::kWarpStart);
  See(1000, 2, What::kEventArrive);
  See(1010, 2, What::kEventSelect);
  See(1060, 2, What::kEventFlush);
  See(1070, 2, What::kWarpStart);
  See(1070, 2, What::kEventLaunch);
  See(2000, 2, What::kWarpEnd);
  See(2000, 2, What::kEventComplete);
  See(2000, 1, What::kEventRestore);
  See(5000, 1, What::kWarpEnd);
  const Json victim = Written("X", "conv").at(0);
  EXPECT_EQ(victim["args"]["cycles"], 5000);
  const Json event = Written("X", "ipv4").at(0);
  EXPECT_EQ(event["args"]["cycle"], 1070);
  EXPECT_EQ(event["tid"], victim["tid"]);
  EXPECT_EQ(Written("X", "flush").at(0)["args"]["cycles"], 50);
  const auto phase = [&](const std::string& name, Cycle from, Cycle to) {
    EXPECT_EQ(Written("b", name).at(0)["args"]["cycle"], from) << name;
    EXPECT_EQ(Written("e", name).at(0)["args"]["cycle"], to) << name;
    EXPECT_EQ(Written("b", name).at(0)["id"], 2);
  };
  phase("ipv4", 1000, 2000);
  phase("wait", 1000, 1010);
  phase("flush", 1010, 1060);
  phase("run", 1070, 2000);
}

TEST_F(TimelineTest, WhatHasNotEndedEndsWithTheTrace) {
  See(10, 1, What::kWarpStart);
  See(20, 2, What::kEventArrive);
  See(300, 1, What::kWarpStart, 0, 0);
  EXPECT_EQ(Written("X", "grid 1").at(0)["args"]["cycles"], 0);
  EXPECT_EQ(Written("X", "grid 1").at(1)["args"]["cycles"], 290);
  EXPECT_EQ(Written("e", "wait").at(0)["args"]["cycle"], 300);
  EXPECT_TRUE(Written("b", "run").empty());
}

TEST_F(TimelineTest, NothingIsATraceToo) {
  EXPECT_TRUE(Written("X", "").empty());
}

}  // namespace
}  // namespace carillon::sim::timing
