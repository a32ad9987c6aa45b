#include "tools/testbed/hosts/host_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tools/testbed/hosts/host_registration.h"
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

Topology Lab(std::vector<std::string> hosts, const std::string& gpu_host) {
  Topology topology{.name = "lab"};
  for (std::string& host : hosts) {
    topology.hosts.push_back({.name = std::move(host)});
  }
  topology.gpu_host = gpu_host;
  topology.etcd = {"http://127.0.0.1:2379"};
  return topology;
}

mesh::Etcd::Entry EntryOf(const Topology& topology, int64_t created) {
  HostRecord record = Example();
  for (const HostEntry& host : topology.hosts) {
    record.state.hosts.push_back(
        {.name = host.name, .has_gpu = host.name == topology.gpu_host});
  }
  return {.value = ToText(record), .created = created, .lease = 7};
}

TEST(CheckSameTestbed, OtherHostsOrAnotherGpusHostAreAnotherTestbed) {
  const Topology lab = Lab({"a", "b"}, "b");
  const std::map<std::string, mesh::Etcd::Entry> found = {
      {"/carillon/v1/lab/hosts/b", EntryOf(lab, 3)}};
  EXPECT_EQ(CheckSameTestbed({}, lab), absl::OkStatus());
  EXPECT_EQ(CheckSameTestbed(found, lab), absl::OkStatus());
  // The order of hosts is of no account.
  EXPECT_EQ(CheckSameTestbed(found, Lab({"b", "a"}, "b")), absl::OkStatus());
  for (const Topology& other : {Lab({"x", "y"}, "y"), Lab({"a", "b", "c"}, "b"),
                                Lab({"b"}, "b"), Lab({"a", "b"}, "a")}) {
    EXPECT_EQ(CheckSameTestbed(found, other).code(),
              absl::StatusCode::kFailedPrecondition);
  }
  const absl::Status status = CheckSameTestbed(found, Lab({"x", "y"}, "y"));
  EXPECT_EQ(status.message(),
            "another testbed 'lab' is up in etcd http://127.0.0.1:2379: its "
            "hosts are a, b (with the GPU), and not x, y (with the GPU)");
  EXPECT_THAT(HintOf(status), HasSubstr("a name of its own"));
}

// Two of one name that came at once: the later one is refused, and it alone.
TEST(CheckSameTestbed, TheOldestSaysWhichTestbedItIs) {
  const Topology old = Lab({"a", "z"}, "z");
  const Topology late = Lab({"b", "y"}, "y");
  for (const char* const host : {"a", "z"}) {
    const std::map<std::string, mesh::Etcd::Entry> found = {
        {HostKeys("lab").host(host), EntryOf(old, 3)},
        {"/carillon/v1/lab/hosts/b", EntryOf(late, 4)}};
    EXPECT_EQ(CheckSameTestbed(found, old), absl::OkStatus()) << host;
    EXPECT_FALSE(CheckSameTestbed(found, late).ok()) << host;
  }
}

TEST(CheckSameTestbed, WhatIsNoSupervisorsSaysNothing) {
  const Topology lab = Lab({"a", "b"}, "b");
  mesh::Etcd::Entry left = EntryOf(Lab({"x"}, "x"), 1);
  mesh::Etcd::Entry garbage = left;
  garbage.value = "{";
  left.lease = 0;
  const std::map<std::string, mesh::Etcd::Entry> found = {
      {"/carillon/v1/lab/hosts/b", EntryOf(lab, 3)},
      {"/carillon/v1/lab/hosts/damaged", garbage},
      {"/carillon/v1/lab/hosts/left", left},
      {"/carillon/v1/lab/last/x", EntryOf(Lab({"x"}, "x"), 2)}};
  EXPECT_EQ(CheckSameTestbed(found, lab), absl::OkStatus());
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
