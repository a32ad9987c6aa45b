#include "tools/testbed/hosts/host_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tools/testbed/hosts/host_views.h"

namespace carillon::testbed {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

HostRecord Example() {
  HostRecord record = OwnRecord();
  record.job = "12";
  record.links = {{"a", "10.0.0.6:4711"}};
  record.state.testbed = "lab";
  record.state.host = "b";
  record.state.phase = Phase::kUp;
  record.state.supervisor = OwnIdentity();
  record.state.processes.push_back({.name = "gpud", .kind = "gpud"});
  return record;
}

TEST(HostRecord, WhatIsWrittenIsRead) {
  const HostRecord record = Example();
  const auto read = ReadHostRecord(ToText(record), "it");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToText(*read), ToText(record));
  EXPECT_EQ(read->Place(), record.Place());
  EXPECT_THAT(read->Place(), HasSubstr(", job 12"));
  const auto last = ReadLastOfHost(ToText(LastOfHost{"n3", "no"}), "it");
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->place, "n3");
  EXPECT_EQ(last->error, "no");
}

// Each prefix of it, and other JSON: whoever may write to etcd may write that.
TEST(HostRecord, GarbageIsRefusedByName) {
  const std::string text = ToText(Example());
  for (size_t size = 0; size < text.size(); ++size) {
    const auto read = ReadHostRecord(text.substr(0, size), "etcd's key k");
    ASSERT_FALSE(read.ok()) << size;
    EXPECT_THAT(std::string(read.status().message()),
                StartsWith("etcd's key k is damaged"));
  }
  for (
      const char* const bad :
      {"{}", "[]", "7", "null", R"({"machine":7})",
       R"({"machine":"m","processes":"","job":"","links":[],"state":{}})",
       R"({"machine":"m","processes":"","job":"","links":{"a":7},"state":{}})"}) {
    EXPECT_FALSE(ReadHostRecord(bad, "it").ok()) << bad;
    EXPECT_FALSE(ReadLastOfHost(bad, "it").ok()) << bad;
  }
}

TEST(HostView, ItsStateSaysWhatIsKnown) {
  HostView view{.name = "a"};
  EXPECT_EQ(view.State(), "not up");
  view.last = LastOfHost{"n3", ""};
  EXPECT_EQ(view.State(), "gone");
  view.last->error = "why";
  EXPECT_EQ(view.State(), "failed");
  view.record = Example();
  EXPECT_EQ(view.State(), "up");
  view.damage = "what";
  EXPECT_EQ(view.State(), "damaged");
}

}  // namespace
}  // namespace carillon::testbed
