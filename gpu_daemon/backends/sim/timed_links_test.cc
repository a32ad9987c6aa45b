// Devices at the end of a link, in simulated time: it takes its latency each
// way, and nothing else changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/sim/timed_backend.h"
#include "gpu_daemon/backends/sim/timed_test.h"
#include "gpu_daemon/backends/sim/turn_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::kNoTime;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

class TimedLinksTest : public TimedTest {
 protected:
  void Start(uint32_t devices, const std::string& latencies,
             const std::string& timing = "tiny") {
    Stop();
    auto backend = TimedBackend::Create({.timing = timing,
                                         .first_devices = devices,
                                         .device_latencies = latencies,
                                         .event_log = log_});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }
  // What one event of one device has seen that rang `at`, and rings again as
  // soon as that has ended.
  struct Seen {
    shm::EventLife life[2];
    Nanoseconds at[2];
  };
  Seen RingTwice(const std::string& timing, const std::string& latencies,
                 Nanoseconds at) {
    Start(1, latencies, timing);
    const auto device = Attach("far");
    auto event = Register(*device);
    if (at != 0) {
      device->time.Answer(at);
      EXPECT_TRUE(device->WaitForTurn());
    }
    Seen seen{};
    for (int i = 0; i < 2; ++i) {
      device->RingDoorbell(event, 0);
      device->time.Answer(kNoTime);
      EXPECT_TRUE(device->WaitForTurn());
      seen.at[i] = device->time.now();
      seen.life[i] = event.ring->life();
      EXPECT_EQ(device->Take(event).state, EventState::kDone);
    }
    return seen;
  }
};

TEST_F(TimedLinksTest, ARingIsThereAndItsEndIsSeenALatencyLater) {
  constexpr Nanoseconds kLatency = 2001;
  // A cycle of the second one is no whole nanoseconds.
  for (const char* const timing : {"tiny", "edge_table2"}) {
    SCOPED_TRACE(timing);
    const Seen near = RingTwice(timing, "", kLatency);
    const Seen far = RingTwice(timing, "far=2001ns", 0);
    EXPECT_EQ(far.life[0].rung_ns, 0u);
    EXPECT_EQ(far.life[0].queued_ns, kLatency);
    EXPECT_EQ(far.life[0].dispatched_ns, near.life[0].dispatched_ns);
    EXPECT_EQ(far.life[0].finished_ns, near.life[0].finished_ns);
    EXPECT_EQ(far.at[0], near.at[0] + kLatency);
    // What follows from it comes a whole round trip later.
    EXPECT_EQ(far.life[1].rung_ns, far.at[0]);
    EXPECT_EQ(far.life[1].queued_ns, far.at[0] + kLatency);
    EXPECT_GE(far.life[1].dispatched_ns, far.life[1].queued_ns);
    EXPECT_GE(far.at[1], far.life[1].finished_ns + kLatency);
  }
  EXPECT_THAT(Log(), HasSubstr("\nfar,0,1,fail_if,done,0,0,"));
}

TEST_F(TimedLinksTest, ALinkDelaysNobodyElse) {
  Start(2, "far=1ms");
  const auto far = Attach("far");
  const auto near = Attach("near");
  auto far_event = Register(*far);
  auto near_event = Register(*near);
  far->RingDoorbell(far_event, 0);
  far->time.Answer(kNoTime);
  Nanoseconds last = 0;
  for (int i = 0; i < 10; ++i) {
    near->RingDoorbell(near_event, 0);
    near->time.Answer(kNoTime);
    ASSERT_TRUE(near->WaitForTurn());
    EXPECT_EQ(near->Take(near_event).state, EventState::kDone);
    last = near->time.now();
  }
  EXPECT_LT(last, 1'000'000u);
  EXPECT_FALSE(far->WaitForTurn(milliseconds(50))) << "the near one has a turn";
  near->time.Answer(kNoTime);
  ASSERT_TRUE(far->WaitForTurn());
  EXPECT_EQ(far_event.ring->life().queued_ns, 1'000'000u);
  EXPECT_GT(far->time.now(), 2'000'000u);
  EXPECT_LT(far->time.now(), 2'000'000u + last);
}

TEST_F(TimedLinksTest, ABackgroundKernelGoesByLinkToo) {
  Start(1, "far=2us");
  const auto far = Attach("far");
  std::promise<LaunchResult> ended;
  backend_->Submit(Background(far->memory, &ended));
  const LaunchResult result = ended.get_future().get();
  EXPECT_EQ(result.state, EventState::kDone);
  EXPECT_EQ(result.queued_ns, 2000u);
  EXPECT_GE(result.dispatched_ns, 2000u);
  ASSERT_TRUE(far->WaitForTurn());
  EXPECT_GE(far->time.now(), result.finished_ns + 2000);
  EXPECT_THAT(Log(), HasSubstr("\nfar,,1,busy,done,0,0,"));
}

TEST_F(TimedLinksTest, WhatIsOnItsWayBackEndsOnceWhenItsDeviceGoes) {
  Start(2, "far=1ms");
  const auto far = Attach("far");
  const auto near = Attach("near");
  auto event = Register(*far);
  far->RingDoorbell(event, 0);
  far->time.Answer(kNoTime);
  near->time.Answer(1'500'000);
  ASSERT_TRUE(near->WaitForTurn());
  EXPECT_FALSE(event.ring->Poll()) << "it has ended, and is not seen";
  EXPECT_FALSE(backend_->idle());
  backend_->Cancel(LaunchFilter::Of(*far->memory), EventStatus::kDeviceGone);
  EXPECT_TRUE(backend_->idle());
  EXPECT_EQ(far->Take(event).state, EventState::kDone);
  backend_->paths().RemoveDevice(far->memory.get());
  near->time.Answer(3'000'000);
  ASSERT_TRUE(near->WaitForTurn()) << "time goes on";
  EXPECT_EQ(near->time.now(), 3'000'000u);
}

TEST_F(TimedLinksTest, ReleasesOfABarrierAreNotCarried) {
  Start(1, "far=2us");
  const auto far = Attach("far");
  const absl::Status refused = backend_->ReleaseBarrier(*far->memory);
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("device 'far' is at the end of a link"));
}

TEST_F(TimedLinksTest, WhatIsNoLatencyIsNamed) {
  const auto refusal = [](const std::string& timing,
                          const std::string& latencies) {
    return std::string(
        TimedBackend::Create({.timing = timing, .device_latencies = latencies})
            .status()
            .message());
  };
  EXPECT_EQ(refusal("tiny", "a"),
            "--device-latencies: 'a' is not NAME=TIME, like fpga0=2us");
  EXPECT_THAT(refusal("tiny", "a=1us,b=2"),
              HasSubstr("--device-latencies: b: '2' is not a duration"));
  EXPECT_EQ(refusal("", "a=1us"),
            "--device-latencies: it goes with --timing (timing): in wall time, "
            "a link takes what it takes");
}

}  // namespace
}  // namespace carillon::gpud
