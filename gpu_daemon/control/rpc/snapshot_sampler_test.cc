// Who reads snapshots slowly skips some, misses nothing and delays nobody.
#include "gpu_daemon/control/rpc/snapshot_sampler.h"

#include <gmock/gmock.h>
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
using ::testing::ElementsAre;

// Samples a ring that launches an event each time, 50 ms later by their own
// clock, whenever they are taken. Its peaks are the test's.
class SnapshotSamplerTest : public ::testing::Test {
 protected:
  ~SnapshotSamplerTest() override { Permit(kMany); }
  static constexpr ptrdiff_t kMany = 1'000'000;

  // Of samples, which are taken as soon as they are due.
  void Permit(ptrdiff_t samples) { permits_.release(samples); }
  Sample Take(const SnapshotSampler::Wanted& wanted, const Sample& last) {
    last_had_picture_ = last.picture != nullptr;
    const uint64_t number = ++begun_;
    permits_.acquire();
    const auto picture = std::make_shared<PictureSample>();
    picture->common.set_monotonic_ns(number * 50 * kMs);
    picture->common.mutable_totals()->mutable_events()->set_rung(number);
    const auto event = std::make_shared<v1::SnapshotEventKernel>();
    event->mutable_ring()->set_generation(generation_);
    const auto figures = std::make_shared<v1::RingFigures>();
    figures->set_launched(number);
    picture->rings.push_back({.event_kernel = event, .figures = figures});
    Sample sample;
    sample.picture = picture;
    if (wanted.first) ++first_;
    if (const uint32_t peak = peak_.exchange(0); peak != 0) {
      sample.peaks[generation_] = peak;
    }
    if (wanted.histograms) {
      ++histograms_;
      auto histograms = std::make_shared<HistogramSample>();
      histograms->taken_ns = picture->common.monotonic_ns();
      const auto stages = std::make_shared<Histograms>();
      v1::Histogram* const stage = stages->Add();
      stage->set_name("stage");
      stage->add_bucket(1);
      stage->add_count(number);
      histograms->of_ring[generation_] = stages;
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
  std::atomic<uint32_t> histograms_{0};
  std::atomic<uint32_t> peak_{0};
  std::atomic<uint32_t> generation_{kGeneration};
  std::atomic<bool> last_had_picture_{false};
  std::counting_semaphore<> permits_{0};
  SnapshotSampler sampler_{
      [this](const SnapshotSampler::Wanted& wanted, const Sample& last) {
        return Take(wanted, last);
      }};
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
            "interval_ms 49: must be from 50 to 3600000, or 0 for 100");
  request.set_interval_ms(3'600'001);
  refused = SnapshotSampler::IntervalsOf(request).status();
  EXPECT_EQ(DetailOf(refused).subject(), "interval_ms");
  request.set_interval_ms(3'600'000);
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

TEST_F(SnapshotSamplerTest, AReaderGetsItsIntervalsWhoeverElseReads) {
  const auto patient = sampler_.Subscribe({200 * kMs, 1000 * kMs});
  ASSERT_TRUE(Eventually([&] { return begun_ == 1; }));
  const auto uneven = sampler_.Subscribe({75 * kMs, 500 * kMs});
  const auto fast = sampler_.Subscribe(kFast);
  std::vector<uint64_t> patients;
  std::vector<uint64_t> unevens;
  Permit(1);
  for (int sample = 1; sample <= 9; ++sample) {
    v1::Snapshot message;
    Permit(1);
    Next(*fast);  // from the second sample on
    const auto take = [&](SnapshotSampler::Reader& reader, auto& times) {
      if (reader.Next(std::chrono::milliseconds(0), &message) !=
          Outcome::kSnapshot) {
        return;
      }
      times.push_back(message.monotonic_ns() / kMs);
      EXPECT_EQ(message.number(), times.size());
    };
    take(*patient, patients);
    take(*uneven, unevens);
  }
  // A late look at the first sample has found the second one.
  EXPECT_THAT(patients, ElementsAre(100, 250, 450));
  EXPECT_THAT(unevens, ElementsAre(100, 150, 250, 300, 400, 450));
}

TEST_F(SnapshotSamplerTest, ReadersThatComeAndGoDoNotHurryHistograms) {
  Permit(kMany);
  const Nanoseconds begin = NowNs();
  const auto stays = sampler_.Subscribe({3'600'000 * kMs, 3'600'000 * kMs});
  Next(*stays);
  for (int i = 0; i < 20; ++i) {
    const v1::Snapshot whole = Next(*sampler_.Subscribe(kFast));
    ASSERT_EQ(whole.ring_figures_size(), 1);
    EXPECT_EQ(whole.ring_figures(0).stages_size(), 1) << "of an earlier sample";
  }
  // Half a second, less what is on time.
  EXPECT_LE(histograms_, 1 + (NowNs() - begin) / (475 * kMs));
}

TEST_F(SnapshotSamplerTest, ARingThatHasGoneLeavesNoPeakBehind) {
  const auto stopped = sampler_.Subscribe(kFast);
  peak_ = 9;
  Permit(1);
  ASSERT_TRUE(Eventually([&] { return sampler_.samples() == 1; }));
  generation_ = kGeneration + 1;
  Permit(1);
  ASSERT_TRUE(Eventually([&] { return sampler_.samples() == 2; }));
  // At the same index, and by a number that may come again.
  generation_ = kGeneration;
  Permit(1);
  ASSERT_TRUE(Eventually([&] { return sampler_.samples() == 3; }));
  EXPECT_EQ(Next(*stopped).ring_figures(0).peak(), 0u);
}

TEST_F(SnapshotSamplerTest, WhileNobodyReadsNothingIsSampled) {
  Permit(kMany);
  EXPECT_EQ(sampler_.samples(), 0u);
  auto reader = sampler_.Subscribe(kFast);
  Next(*reader);
  Next(*reader);
  EXPECT_EQ(first_, 1u);
  reader = nullptr;
  // One may have been taken as it went.
  const uint64_t most = sampler_.samples() + 1;
  {
    SnapshotSampler other(
        [this](const SnapshotSampler::Wanted& wanted, const Sample& last) {
          return Take(wanted, last);
        });
    const auto long_enough = other.Subscribe(kFast);
    for (int i = 0; i < 6; ++i) Next(*long_enough);
  }
  EXPECT_LE(sampler_.samples(), most);
  // The next one is told that nobody has read before.
  const uint32_t before = first_;
  reader = sampler_.Subscribe(kFast);
  EXPECT_TRUE(Next(*reader).whole());
  EXPECT_EQ(first_, before + 1);
  Next(*reader);
  EXPECT_TRUE(last_had_picture_) << "whose messages it may share";
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
