#include "tools/testbed/client/snapshot_rates.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

namespace carillon::testbed {
namespace {

constexpr uint64_t kMs = 1'000'000;

// A picture of one ring, of device "nic0", at index 3.
class RatesTest : public testing::Test {
 protected:
  RatesTest() {
    message_.set_whole(true);
    message_.set_number(1);
    v1::SnapshotEventKernel* const event = message_.add_event_kernels();
    event->mutable_entry()->set_ekt_index(3);
    event->mutable_entry()->add_stages()->set_name("rung_to_finished");
    event->mutable_ring()->set_device("nic0");
    event->mutable_ring()->set_generation(7);
    message_.add_ring_figures()->set_ekt_index(3);
  }

  v1::RingFigures& figures() { return *message_.mutable_ring_figures(0); }
  void Done(uint64_t events) {
    figures().mutable_counts()->set_done(events);
    message_.mutable_totals()->mutable_events()->set_done(events);
  }
  void Latencies(const std::map<uint32_t, uint64_t>& buckets, uint64_t sum) {
    figures().clear_stages();
    v1::Histogram* const stage = figures().add_stages();
    stage->set_name("rung_to_finished");
    stage->set_sum_ns(sum);
    for (const auto& [bucket, count] : buckets) {
      stage->add_bucket(bucket);
      stage->add_count(count);
    }
  }
  void LookAt(uint64_t monotonic_ns) {
    message_.set_monotonic_ns(monotonic_ns);
    ASSERT_TRUE(picture_.Apply(message_).ok());
    rates_.Look(picture_);
  }

  v1::Snapshot message_;
  SnapshotPicture picture_;
  SnapshotRates rates_;
};

TEST_F(RatesTest, AreWhatEndedBetweenTwoLooks) {
  Done(1000);
  LookAt(500 * kMs);
  EXPECT_FALSE(rates_.all()) << "a first look knows no rate";
  EXPECT_FALSE(rates_.OfRing(3));
  EXPECT_FALSE(rates_.OfDevice("nic0"));
  Done(1040);
  figures().mutable_counts()->set_failed(8);
  figures().mutable_counts()->set_aborted(2);
  figures().mutable_counts()->set_rung(9999);
  LookAt(750 * kMs);
  EXPECT_DOUBLE_EQ(rates_.all().value(), 160);
  EXPECT_DOUBLE_EQ(rates_.OfRing(3).value(), 200);
  EXPECT_DOUBLE_EQ(rates_.OfDevice("nic0").value(), 200);
  EXPECT_FALSE(rates_.OfRing(4));
  EXPECT_FALSE(rates_.OfDevice("nic1"));
  LookAt(750 * kMs);
  EXPECT_DOUBLE_EQ(rates_.OfRing(3).value(), 200) << "the same moment";
  LookAt(1000 * kMs);
  EXPECT_DOUBLE_EQ(rates_.OfRing(3).value(), 0);
}

TEST_F(RatesTest, ARingThatTookAnothersPlaceBeginsAnew) {
  Done(1000);
  LookAt(500 * kMs);
  Done(1200);
  message_.mutable_event_kernels(0)->mutable_ring()->set_generation(8);
  LookAt(1000 * kMs);
  EXPECT_FALSE(rates_.OfRing(3));
  Done(1210);
  LookAt(1500 * kMs);
  EXPECT_DOUBLE_EQ(rates_.OfRing(3).value(), 20);
  message_.clear_event_kernels();
  message_.clear_ring_figures();
  LookAt(2000 * kMs);
  EXPECT_FALSE(rates_.OfRing(3));
}

TEST_F(RatesTest, LatenciesAreThoseOfTheLastWindow) {
  Latencies({{10, 5}, {20, 1}}, 100);
  LookAt(500 * kMs);
  Latencies({{10, 7}, {20, 1}, {30, 4}}, 700);
  LookAt(1000 * kMs);
  EXPECT_EQ(rates_.Latencies(3).bucket_size(), 0) << "not a second yet";
  LookAt(1460 * kMs);
  v1::Histogram recent = rates_.Latencies(3);
  ASSERT_EQ(recent.bucket_size(), 2);
  EXPECT_EQ(recent.bucket(0), 10u);
  EXPECT_EQ(recent.count(0), 2u);
  EXPECT_EQ(recent.bucket(1), 30u);
  EXPECT_EQ(recent.count(1), 4u);
  EXPECT_EQ(recent.sum_ns(), 600u);
  // Forgotten meanwhile, as by `carillon trace reset`.
  Latencies({{30, 4}}, 400);
  LookAt(2500 * kMs);
  recent = rates_.Latencies(3);
  ASSERT_EQ(recent.bucket_size(), 1);
  EXPECT_EQ(recent.count(0), 4u);
  EXPECT_EQ(recent.sum_ns(), 400u);
  // The same, but as many events came again as there were.
  Latencies({{30, 4}, {31, 1}}, 390);
  LookAt(3500 * kMs);
  EXPECT_EQ(rates_.Latencies(3).sum_ns(), 390u);
  LookAt(4500 * kMs);
  EXPECT_EQ(rates_.Latencies(3).bucket_size(), 0) << "none ended";
}

}  // namespace
}  // namespace carillon::testbed
