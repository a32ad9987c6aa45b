#include "gpu_daemon/backends/cuda/fake/fake_settings.h"

#include <gtest/gtest.h>

#include <string>

namespace carillon::gpud::cuda {
namespace {

TEST(FakeSettings, EveryPartIsRead) {
  const absl::StatusOr<FakeSettings> settings = ParseFakeSettings(
      "devices=2,version=12.6,memory=4096,exec_memory=64,sms=16,green=0,"
      "memops=0,queues=16,device_graphs=0,host_pointers=0,budget=9,refused_"
      "tails=5,"
      "retire_us=30,gap_us=40,free_waits=0,"
      "faults_stay=0,check_buffers=0,fault=echo:3,fault=fail_if:=77,hang="
      "carillon_busy:1");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->devices, 2);
  EXPECT_EQ(settings->driver_version, 12060);
  EXPECT_EQ(settings->memory_bytes, 4096u);
  EXPECT_EQ(settings->graph_exec_bytes, 64u);
  EXPECT_EQ(settings->sms, 16u);
  EXPECT_FALSE(settings->green_contexts);
  EXPECT_FALSE(settings->stream_memory_operations);
  EXPECT_FALSE(settings->device_graphs);
  EXPECT_FALSE(settings->host_pointers);
  EXPECT_EQ(settings->launch_budget, 9u);
  EXPECT_EQ(settings->refused_tails, 5u);
  EXPECT_EQ(settings->retire_delay, std::chrono::microseconds(30));
  EXPECT_EQ(settings->relaunch_gap, std::chrono::microseconds(40));
  EXPECT_FALSE(settings->free_waits_for_idle);
  EXPECT_FALSE(settings->check_buffers);
  EXPECT_FALSE(settings->faults_stay);
  EXPECT_EQ(settings->hardware_queues, 16u);
  ASSERT_EQ(settings->faults.size(), 2u);
  EXPECT_EQ(settings->faults[0].kernel, "echo");
  EXPECT_EQ(settings->faults[0].nth, 3u);
  EXPECT_EQ(settings->faults[1].nth, 0u);
  EXPECT_EQ(settings->faults[1].first_word, 77u);
  ASSERT_EQ(settings->hangs.size(), 1u);
  EXPECT_EQ(settings->hangs[0].kernel, "carillon_busy");
}

TEST(FakeSettings, WhatCannotBeReadIsNamed) {
  for (const std::string part :
       {"colour=red", "devices", "devices=x", "version=12", "green=2",
        "fault=echo", "fault=echo:0", "fault=:1", "budget=99999999999"}) {
    const absl::StatusOr<FakeSettings> settings =
        ParseFakeSettings("sms=8," + part);
    ASSERT_FALSE(settings.ok()) << part;
    EXPECT_NE(settings.status().message().find("\"" + part + "\""),
              std::string::npos)
        << settings.status();
  }
  EXPECT_TRUE(ParseFakeSettings("").ok());
}

}  // namespace
}  // namespace carillon::gpud::cuda
