#include "tools/cli/ui/proto_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "proto/admin.pb.h"
#include "proto/events.pb.h"

namespace carillon::cli {
namespace {

TEST(ProtoJson, ShowsEveryFieldWithNumbersAsNumbers) {
  v1::Ring ring;
  ring.set_device("nic0");
  ring.set_launched(UINT64_MAX);
  const Json json = ToJson(ring);
  EXPECT_EQ(json["device"], "nic0");
  EXPECT_EQ(json["launched"], UINT64_MAX);
  EXPECT_TRUE(json["launched"].is_number());
  EXPECT_EQ(json["consumed"], 0);
  EXPECT_EQ(json["kernel"], "");
}

TEST(ProtoJson, ShowsWhatIsSetOfAOneof) {
  v1::TelemetryEvent event;
  event.set_number(7);
  event.mutable_device_ready()->set_device("nic0");
  const Json json = ToJson(event);
  EXPECT_EQ(json["number"], 7);
  EXPECT_EQ(json["device_ready"]["device"], "nic0");
  EXPECT_FALSE(json.contains("peer_died"));
}

TEST(ProtoJson, ShowsListsEnumsAndHistograms) {
  v1::Kernel kernel;
  kernel.add_parameters()->set_kind(v1::READ_BUFFER);
  EXPECT_EQ(ToJson(kernel)["parameters"][0]["kind"], "READ_BUFFER");
  v1::EktEntry entry;
  v1::Histogram* const stage = entry.add_stages();
  stage->set_name("rung_to_seen");
  stage->add_bucket(shm::HistogramBucket(1000));
  stage->add_count(5);
  const Json json = ToJson(entry);
  EXPECT_EQ(json["stages"][0]["name"], "rung_to_seen");
  EXPECT_EQ(json["stages"][0]["count"], 5);
  EXPECT_EQ(json["stages"][0]["p50_ns"],
            shm::HistogramBucketFloor(shm::HistogramBucket(1000)));
}

// gpud is not hostile, but its answer may be cut short.
TEST(ProtoJson, SurvivesAHistogramOfUnequalHalves) {
  v1::Histogram histogram;
  histogram.add_bucket(1);
  histogram.add_bucket(4'000'000'000);
  histogram.add_count(2);
  EXPECT_EQ(ToSnapshot(histogram).count(), 2u);
}

TEST(MergeHistograms, AddsByNameAndKeepsTheOrder) {
  v1::EktEntry first;
  v1::EktEntry second;
  const auto add = [](v1::EktEntry& entry, const char* name, uint64_t count) {
    v1::Histogram* const stage = entry.add_stages();
    stage->set_name(name);
    stage->add_bucket(3);
    stage->add_count(count);
  };
  add(first, "rung_to_seen", 2);
  add(first, "seen_to_dispatched", 4);
  add(second, "seen_to_dispatched", 1);
  add(second, "another", 7);
  std::vector<NamedHistogram> merged;
  MergeHistograms(first.stages(), &merged);
  MergeHistograms(second.stages(), &merged);
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].first, "rung_to_seen");
  EXPECT_EQ(merged[0].second.count(), 2u);
  EXPECT_EQ(merged[1].first, "seen_to_dispatched");
  EXPECT_EQ(merged[1].second.count(), 5u);
  EXPECT_EQ(merged[2].first, "another");
  EXPECT_EQ(merged[2].second.count(), 7u);
}

}  // namespace
}  // namespace carillon::cli
