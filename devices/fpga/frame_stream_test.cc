#include "devices/fpga/frame_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "base/temp_directory.h"
#include "devices/fpga/references.h"
#include "devices/sdk/fake_gpud.h"

namespace carillon::fpga {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWidth = 20;
constexpr uint32_t kHeight = 12;
constexpr uint32_t kRing = 4;

// Executes dct8x8 events in place of gpud.
class Gpu {
 public:
  // Decides an event's outcome, after its correct result was written.
  using Outcome = std::function<shm::EventState(shm::Sequence,
                                                std::span<float> coefficients)>;

  Gpu(const edge::FakeGpud* gpud, Outcome outcome)
      : gpud_(gpud), outcome_(std::move(outcome)), thread_([this] { Run(); }) {}
  ~Gpu() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Run() {
    const shm::GpuRing ring = gpud_->ring();
    const auto request = gpud_->seen().registration;
    shm::Sequence next(1);
    while (!stop_) {
      if (ring.LoadDoorbell() - static_cast<uint32_t>(next.value() - 1) == 0) {
        std::this_thread::yield();
        continue;
      }
      const uint64_t slot = ring.layout().SlotOf(next);
      const auto& frame = request.parameters(0);
      const auto& result = request.parameters(1);
      const std::byte* pixels = gpud_->buffer(frame.buffer_id())
                                    .subspan(slot * frame.slot_stride())
                                    .data();
      GreyImage image{.width = kWidth, .height = kHeight, .pixels = {}};
      image.pixels.resize(kWidth * kHeight);
      std::memcpy(image.pixels.data(), pixels, image.pixels.size());
      auto* coefficients =
          reinterpret_cast<float*>(gpud_->buffer(result.buffer_id())
                                       .subspan(slot * result.slot_stride())
                                       .data());
      const std::vector<double> exact = Dct8x8(image);
      std::copy(exact.begin(), exact.end(), coefficients);
      const shm::EventState state =
          outcome_(next, {coefficients, exact.size()});
      ring.Complete(next, state, state == shm::EventState::kDone ? 0 : 1001);
      gpud_->bell().Signal();
      ++next;
    }
  }

  const edge::FakeGpud* const gpud_;
  const Outcome outcome_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class FrameStreamTest : public ::testing::Test {
 protected:
  FrameStreamTest() {
    gpud_ = std::make_unique<edge::FakeGpud>(directory_);
    options_.ring = kRing;
    options_.check = true;
  }
  ~FrameStreamTest() override {
    device_.reset();
    gpud_.reset();
  }

  // Streams with a GPU that behaves as `outcome` says.
  absl::Status Run(Gpu::Outcome outcome) {
    source_ = *MakeFrameSource("cardiac", kWidth, kHeight);
    kernel_ = *MakeFrameKernel("dct8x8", kWidth, kHeight);
    edge::AttachOptions attach;
    attach.testbed_directory = directory_;
    attach.name = "fpga0";
    attach.kind = "fpga";
    device_ = *edge::Device::Attach(attach);
    auto stream = FrameStream::Make(device_.get(), source_.get(), kernel_.get(),
                                    options_);
    EXPECT_TRUE(stream.ok());
    const Gpu gpu(gpud_.get(), std::move(outcome));
    return (*stream)->Run({"", "fpga0", edge::StopRequest(&stop_, -1)});
  }
  uint64_t Counter(FrameStream::Counter counter) const {
    return gpud_->submission().telemetry().counters[counter];
  }
  shm::HistogramSnapshot Histogram(FrameStream::Histogram histogram) const {
    return shm::HistogramSnapshot(
        gpud_->submission().telemetry().histograms[histogram]);
  }
  static shm::EventState Right(shm::Sequence, std::span<float>) {
    return shm::EventState::kDone;
  }

  const TempDirectory files_;
  const std::string& directory_ = files_.path();
  std::unique_ptr<edge::FakeGpud> gpud_;
  std::unique_ptr<FrameSource> source_;
  std::unique_ptr<FrameKernel> kernel_;
  std::unique_ptr<edge::Device> device_;
  StreamOptions options_;
  std::atomic<bool> stop_{false};
};

TEST_F(FrameStreamTest, EveryFrameIsSentDoneAndCheckedOnce) {
  options_.frames = 3 * CardiacWave::kPeriod;
  const absl::Status status = Run(Right);
  EXPECT_TRUE(status.ok()) << std::string(status.message());
  EXPECT_EQ(Counter(FrameStream::kFramesSent), options_.frames);
  EXPECT_EQ(Counter(FrameStream::kFramesDone), options_.frames);
  EXPECT_EQ(Counter(FrameStream::kMismatches), 0u);
  EXPECT_EQ(Counter(FrameStream::kDropped), 0u);
  EXPECT_GE(Counter(FrameStream::kActivations), 2u * kWidth * kHeight);
  EXPECT_EQ(Counter(FrameStream::kActivationErrors), 0u);
  const shm::HistogramSnapshot latency = Histogram(FrameStream::kFrameLatency);
  EXPECT_EQ(latency.count(), options_.frames);
  // Without a rate no frame is due.
  EXPECT_EQ(Histogram(FrameStream::kTardiness).count(), 0u);
  EXPECT_EQ(Histogram(FrameStream::kJitter).count(), 0u);
  EXPECT_EQ(Counter(FrameStream::kLate), 0u);
}

TEST_F(FrameStreamTest, AResultThatComesBehindTheNextFrameIsLate) {
  options_.fps = 1000;
  const auto due = [&] {
    return Counter(FrameStream::kFramesSent) + Counter(FrameStream::kDropped);
  };
  const absl::Status status =
      Run([&](shm::Sequence sequence, std::span<float>) {
        if (sequence.value() == 5) {
          // Four frames on, the next one has been due for two periods; its own
          // may not be counted yet.
          const uint64_t then = due() + 4;
          while (due() < then) std::this_thread::yield();
        }
        if (sequence.value() == 20) stop_ = true;
        return sequence.value() == 7 ? shm::EventState::kFailed
                                     : shm::EventState::kDone;
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  const uint64_t results = Counter(FrameStream::kFramesDone) - 1;
  EXPECT_GE(Counter(FrameStream::kLate), 1u);
  const shm::HistogramSnapshot tardiness = Histogram(FrameStream::kTardiness);
  EXPECT_EQ(tardiness.count(), results);
  // Two periods at least, less what a bucket is wide.
  EXPECT_GE(tardiness.Percentile(1.0), 1'500'000u);
  EXPECT_EQ(Histogram(FrameStream::kJitter).count(), results - 1);
}

TEST_F(FrameStreamTest, AWrongCoefficientIsAMismatch) {
  options_.frames = 20;
  const absl::Status status =
      Run([](shm::Sequence sequence, std::span<float> coefficients) {
        if (sequence.value() == 7) coefficients[100] += 0.02f;
        if (sequence.value() == 9) coefficients[0] = std::nanf("");
        return shm::EventState::kDone;
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("of 20 frames 2 were wrong and 0 failed"));
  EXPECT_EQ(Counter(FrameStream::kMismatches), 2u);
}

TEST_F(FrameStreamTest, FailedEventsAreCountedAndTheStreamGoesOn) {
  options_.frames = 20;
  const absl::Status status = Run([](shm::Sequence sequence, std::span<float>) {
    return sequence.value() % 5 == 0 ? shm::EventState::kFailed
                                     : shm::EventState::kDone;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Counter(FrameStream::kEventsFailed), 4u);
  EXPECT_EQ(Counter(FrameStream::kFramesDone), 20u);
  EXPECT_EQ(Counter(FrameStream::kMismatches), 0u);
}

TEST_F(FrameStreamTest, ACameraDropsFramesThatFindTheRingFull) {
  options_.frames = 50;
  // Far more frames than a GPU can take that holds its first event back.
  options_.fps = 1e6;
  std::atomic<bool> held{true};
  std::thread release([&] {
    while (gpud_->submission().telemetry().counters[FrameStream::kDropped] <
           10) {
      std::this_thread::yield();
    }
    held = false;
  });
  const absl::Status status = Run([&](shm::Sequence, std::span<float>) {
    while (held) std::this_thread::yield();
    return shm::EventState::kDone;
  });
  release.join();
  EXPECT_TRUE(status.ok()) << std::string(status.message());
  EXPECT_GE(Counter(FrameStream::kDropped), 10u);
  EXPECT_EQ(Counter(FrameStream::kFramesSent) + Counter(FrameStream::kDropped),
            50u);
  EXPECT_EQ(Counter(FrameStream::kFramesDone),
            Counter(FrameStream::kFramesSent));
}

TEST_F(FrameStreamTest, StoredResultsAreTheFramesAgain) {
  options_.frames = 3;
  options_.store = directory_;
  ASSERT_TRUE(Run(Right).ok());
  for (uint64_t i = 0; i < 3; ++i) {
    const auto stored =
        ReadImage(directory_ + "/frame_00000" + std::to_string(i) + ".pgm");
    ASSERT_TRUE(stored.ok()) << std::string(stored.status().message());
    std::vector<uint8_t> frame(kWidth * kHeight);
    source_->Render(i, frame);
    EXPECT_EQ(stored->pixels, frame);
  }
}

TEST_F(FrameStreamTest, AStopRequestEndsAnEndlessStreamWithNothingInFlight) {
  const absl::Status status =
      Run([&](shm::Sequence sequence, std::span<float>) {
        if (sequence.value() == 100) stop_ = true;
        return shm::EventState::kDone;
      });
  EXPECT_TRUE(status.ok()) << std::string(status.message());
  EXPECT_GE(Counter(FrameStream::kFramesDone), 100u);
  EXPECT_EQ(Counter(FrameStream::kFramesDone),
            Counter(FrameStream::kFramesSent));
}

TEST_F(FrameStreamTest, TheEndOfTheTestbedEndsTheStream) {
  const absl::Status status =
      Run([&](shm::Sequence sequence, std::span<float>) {
        if (sequence.value() == 10) gpud_->Close(shm::CloseReason::kShutdown);
        return shm::EventState::kDone;
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("SHUTDOWN"));
}

}  // namespace
}  // namespace carillon::fpga
