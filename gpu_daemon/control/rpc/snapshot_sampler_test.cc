// Who reads snapshots slowly skips some, misses nothing and delays nobody.
#include "gpu_daemon/control/rpc/snapshot_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/testing/eventually.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

using Outcome = SnapshotSampler::Reader::Outcome;
using std::chrono::seconds;

constexpr Nanoseconds kMs = 1'000'000;
constexpr SnapshotSampler::Intervals kFast = {50 * kMs, 500 * kMs};
constexpr uint32_t kGeneration = 7;

// Samples a ring that launches an event each time, 50 ms later by their own
// clock, whenever they are taken. Its peaks are the test's.
class SnapshotSamplerTest : public ::testing::Test {
 protected:
  ~SnapshotSamplerTest() override { Permit(kMany); }
  static constexpr ptrdiff_t kMany = 1'000'000;

  // Of samples, which are taken as soon as they are due.
  void Permit(ptrdiff_t samples) { permits_.release(samples); }
  Sample Take(const SnapshotSampler::Wanted& wanted) {
    const uint64_t number = ++begun_;
    permits_.acquire();
    const auto picture = std::make_shared<v1::Snapshot>();
    picture->set_monotonic_ns(number * 50 * kMs);
    picture->mutable_totals()->mutable_events()->set_rung(number);
    picture->add_event_kernels()->mutable_ring()->set_generation(kGeneration);
    picture->add_ring_figures()->set_launched(number);
    Sample sample;
    sample.picture = picture;
    if (wanted.first) ++first_;
    if (const uint32_t peak = peak_.exchange(0); peak != 0) {
      sample.peaks[kGeneration] = peak;
    }
    if (wanted.histograms) {
      auto histograms = std::make_shared<HistogramSample>();
      histograms->taken_ns = picture->monotonic_ns();
      v1::Histogram* const stage = histograms->of_ring[kGeneration].Add();
      stage->set_name("stage");
      stage->add_bucket(1);
      stage->add_count(number);
      sample.histograms = histograms;
    }
    return sample;
  }
  static v1::Snapshot Next(SnapshotSampler::Reader& reader) {
    v1::Snapshot message;
    EXPECT_EQ(reader.Next(seconds(60), &message), Outcome::kSnapshot);
    return message;
  }

  // Writer: the sampler's thread; readers: the test's.
  std::atomic<uint64_t> begun_{0};
  std::atomic<uint32_t> first_{0};
  std::atomic<uint32_t> peak_{0};
  std::counting_semaphore<> permits_{0};
  SnapshotSampler sampler_{
      [this](const SnapshotSampler::Wanted& wanted) { return Take(wanted); }};
};

TEST_F(SnapshotSamplerTest, IntervalsHaveDefaultsAndBounds) {
  v1::StreamSnapshotsRequest request;
  const auto defaults = SnapshotSampler::IntervalsOf(request);
  ASSERT_TRUE(defaults.ok());
  EXPECT_EQ(defaults->pictures_ns, 100 * kMs);
  EXPECT_EQ(defaults->histograms_ns, 1000 * kMs);
  request.set_interval_ms(50);
  request.set_histograms_ms(500);
  EXPECT_TRUE(SnapshotSampler::IntervalsOf(request).ok());
  request.set_interval_ms(49);
  auto refused = SnapshotSampler::IntervalsOf(request).status();
  EXPECT_EQ(DetailOf(refused).reason(), reason::kBadInterval);
  EXPECT_EQ(refused.message(),
            "interval_ms 49: must be at least 50, or 0 for 100");
  request.set_interval_ms(~0u);
  request.set_histograms_ms(499);
  refused = SnapshotSampler::IntervalsOf(request).status();
  EXPECT_EQ(DetailOf(refused).subject(), "histograms_ms");
}

TEST_F(SnapshotSamplerTest, AReaderStartsWithTheWholeAndGoesOnWithChanges) {
  const auto reader = sampler_.Subscribe(kFast);
  Permit(1);
  const v1::Snapshot first = Next(*reader);
  EXPECT_TRUE(first.whole());
  EXPECT_EQ(first.number(), 1u);
  EXPECT_EQ(first.event_kernels_size(), 1);
  ASSERT_EQ(first.ring_figures_size(), 1);
  EXPECT_EQ(first.ring_figures(0).stages_size(), 1);
  Permit(1);
  const v1::Snapshot second = Next(*reader);
  EXPECT_FALSE(second.whole());
  EXPECT_EQ(second.number(), 2u);
  EXPECT_EQ(second.event_kernels_size(), 0);
  ASSERT_EQ(second.ring_figures_size(), 1);
  EXPECT_EQ(second.ring_figures(0).stages_size(), 0) << "after half a second";
}

TEST_F(SnapshotSamplerTest, AStoppedReaderDelaysNobodySkipsAndMissesNoPeak) {
  const auto stopped = sampler_.Subscribe(kFast);
  ASSERT_TRUE(Eventually([&] { return begun_ == 1; }));
  // Its first sample is the next one: the first was begun before it came.
  const auto other = sampler_.Subscribe(kFast);
  Permit(1);
  const uint64_t before = Next(*stopped).totals().events().rung();
  Permit(1);
  EXPECT_EQ(Next(*other).totals().events().rung(), 2u);
  peak_ = 9;
  std::vector<uint32_t> peaks;
  v1::Snapshot last;
  for (uint64_t number = 2; number <= 8; ++number) {
    Permit(1);
    last = Next(*other);
    EXPECT_EQ(last.number(), number);
    peaks.push_back(last.ring_figures(0).peak());
  }
  EXPECT_EQ(std::count(peaks.begin(), peaks.end(), 9u), 1);
  EXPECT_EQ(std::count(peaks.begin(), peaks.end(), 0u), 6);
  // What it finds is the newest sample, and no queue.
  const v1::Snapshot late = Next(*stopped);
  EXPECT_EQ(late.totals().events().rung(), last.totals().events().rung());
  EXPECT_EQ(late.number(), 1 + late.totals().events().rung() - before);
  EXPECT_EQ(late.ring_figures(0).peak(), 9u);
  Permit(1);
  const v1::Snapshot next = Next(*stopped);
  EXPECT_GT(next.totals().events().rung(), late.totals().events().rung());
  EXPECT_EQ(next.ring_figures(0).peak(), 0u);
}

TEST_F(SnapshotSamplerTest, APatientReaderGetsEachOfItsIntervals) {
  Permit(kMany);
  const auto fast = sampler_.Subscribe(kFast);
  const auto patient = sampler_.Subscribe({200 * kMs, 1000 * kMs});
  uint64_t last = 0;
  for (uint64_t number = 1; number <= 3; ++number) {
    const v1::Snapshot message = Next(*patient);
    if (number > 1) {
      EXPECT_GE(message.monotonic_ns(), last + 200 * kMs);
      EXPECT_GE(message.number(), number);
    }
    last = message.monotonic_ns();
  }
  EXPECT_EQ(Next(*fast).number(), 1u);
}

TEST_F(SnapshotSamplerTest, WhileNobodyReadsNothingIsSampled) {
  Permit(kMany);
  EXPECT_EQ(sampler_.samples(), 0u);
  auto reader = sampler_.Subscribe(kFast);
  Next(*reader);
  Next(*reader);
  EXPECT_EQ(first_, 1u);
  reader = nullptr;
  // The next one is told that nobody has read before.
  reader = sampler_.Subscribe(kFast);
  EXPECT_TRUE(Next(*reader).whole());
  EXPECT_EQ(first_, 2u);
}

TEST_F(SnapshotSamplerTest, AMessageThatIsBeingWrittenIsKnownToWait) {
  Permit(kMany);
  const auto reader = sampler_.Subscribe(kFast);
  const Nanoseconds before = NowNs();
  int written = 0;
  StreamSnapshots(
      *reader,
      [&](const v1::Snapshot&) {
        EXPECT_GE(reader->writing_since_ns(), before);
        return ++written < 2;
      },
      [&] {
        EXPECT_EQ(reader->writing_since_ns(), 0u);
        return false;
      });
  EXPECT_EQ(written, 2);
  EXPECT_EQ(reader->writing_since_ns(), 0u);
}

TEST_F(SnapshotSamplerTest, ItsEndEndsTheStreamsThatWait) {
  Permit(kMany);
  const auto reader = sampler_.Subscribe({3'600'000 * kMs, 3'600'000 * kMs});
  Next(*reader);
  std::thread closer([&] { sampler_.Close(); });
  v1::Snapshot message;
  EXPECT_EQ(reader->Next(seconds(60), &message), Outcome::kClosed);
  closer.join();
  EXPECT_EQ(sampler_.Subscribe(kFast)->Next(seconds(60), &message),
            Outcome::kClosed);
}

}  // namespace
}  // namespace carillon::gpud
