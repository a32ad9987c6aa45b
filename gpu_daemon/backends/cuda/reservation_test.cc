// Policy reservation: events and background kernels on SMs of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"
#include "gpu_daemon/backends/cuda/policies_fixture.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;

// Policy reservation, on a GPU of 40 SMs, which gives whole eights of them. Each
// launch notes where it runs.
class CudaReservationTest : public CudaPoliciesTest {
 protected:
  static constexpr uint32_t kCodes = 8;
  static constexpr SmRange kAll{0, 40};
  static constexpr SmRange kEvents{0, 24};
  static constexpr SmRange kBackground{24, 16};

  void SetUp() override {
    fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 40; });
    fake_.DefineKernel(
        "carillon_call_fail_if", {sizeof(simt::EventFrame), sizeof(uint32_t)},
        [this](KernelCall& call) {
          const auto code = call.param<uint32_t>(1);
          {
            std::lock_guard lock(places_mutex_);
            places_[code].push_back(call.sms());
          }
          while (holds_ == static_cast<int>(code) && !call.stopped()) {
            std::this_thread::yield();
          }
          CompleteEvent(call.param<simt::EventFrame>(0));
          return CUDA_SUCCESS;
        });
  }
  void OpenReserved(uint32_t sms) {
    Gpu::Options options = GpuOptions();
    options.reserved_sms = sms;
    ASSERT_NO_FATAL_FAILURE(CudaBackendFixture::Open(options));
    Use(GetParam());
  }
  void Set(std::string_view policy) {
    const absl::Status status = backend_->SetPolicy(policy);
    ASSERT_TRUE(status.ok()) << status;
  }
  // Where the launches with this code have begun.
  std::vector<SmRange> places(uint32_t code) {
    std::lock_guard lock(places_mutex_);
    return places_[code];
  }
  // Code 0: an event; 1: a background kernel.
  void ExpectPlaces(const TestDevice::Event& event, const SmRange& events,
                    const SmRange& background) {
    {
      std::lock_guard lock(places_mutex_);
      places_ = {};
    }
    EXPECT_EQ(RingAndWait(*device_, event, 0).state, EventState::kDone);
    EXPECT_EQ(Submit(LaunchOf(*device_, 1, 3, {4, 1, 1})).get().state,
              EventState::kDone);
    EXPECT_EQ(places(0), std::vector{events});
    EXPECT_EQ(places(1), std::vector{background});
  }
  // Calls of the driver that make something.
  uint64_t Made() {
    auto calls = fake_.calls();
    return calls["cuStreamCreateWithPriority"] +
           calls["cuGreenCtxStreamCreate"] + calls["cuGreenCtxCreate"] +
           calls["cuGraphInstantiateWithParams"] + calls["cuMemAlloc"] +
           calls["cuMemHostAlloc"];
  }

  std::mutex places_mutex_;
  std::array<std::vector<SmRange>, kCodes> places_;
};

INSTANTIATE_TEST_SUITE_P(All, CudaReservationTest,
                         ::testing::Values("baseline", "baseline_flag",
                                           "graph"),
                         [](const auto& info) { return info.param; });

TEST_P(CudaReservationTest, EventsAndBackgroundKernelsHaveSmsOfTheirOwn) {
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  auto before = AddFailIf(*device_);
  ExpectPlaces(before, kAll, kAll);
  Set("reservation");
  ExpectPlaces(before, kEvents, kBackground);
  EXPECT_THAT(
      backend_->description(),
      testing::HasSubstr(", 24 SMs for events and 16 for background kernels"));
  auto after = AddFailIf(*device_);
  ExpectPlaces(after, kEvents, kBackground);
  EXPECT_LE(fake_.live_objects().streams, Context::kMaxStreams);
  Set("priority");
  ExpectPlaces(before, kAll, kAll);
  ExpectPlaces(after, kAll, kAll);
  EXPECT_THAT(backend_->description(),
              testing::Not(testing::HasSubstr("SMs for events")));
  EXPECT_EQ(TakeAway(before), 0u);
  EXPECT_EQ(TakeAway(after), 0u);
}

// Of background kernels, only once they have a stream.
TEST_P(CudaReservationTest, EachSideGoesByArrivalWhateverThePriority) {
  ASSERT_NO_FATAL_FAILURE(Open("reservation"));
  for (uint32_t priority : {0u, 7u}) {
    auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                                .bindings = {{.writable = true}},
                                .priority = priority});
    EXPECT_EQ(RingAndWait(*device_, event, 0).state, EventState::kDone);
    EXPECT_EQ(Submit(LaunchOf(*device_, 1, priority, {4, 1, 1})).get().state,
              EventState::kDone);
    EXPECT_EQ(TakeAway(event), 0u);
  }
  EXPECT_EQ(fake_.places().at("carillon_call_fail_if").priorities.size(), 1u);
}

TEST_P(CudaReservationTest, AChangeInMidRunMovesTheNextLaunchesOnly) {
  ASSERT_NO_FATAL_FAILURE(Open("reservation"));
  Set("priority");
  auto event = AddFailIf(*device_);
  // Their streams are there from now on.
  for (uint32_t priority : {3u, 4u}) {
    EXPECT_EQ(Submit(LaunchOf(*device_, 1, priority, {4, 1, 1})).get().state,
              EventState::kDone);
  }
  holds_ = 2;
  Commit(event, 2);
  event.ring->RingDoorbell();
  auto in_flight = Submit(LaunchOf(*device_, 2, 3, {4, 1, 1}));
  ASSERT_TRUE(Until([&] { return places(2).size() == 2; }));
  const uint64_t made = Made();
  Set("reservation");
  EXPECT_EQ(Made(), made) << "both layouts are there";
  // Behind those in flight, in other streams: they begin before these end.
  Commit(event, 3);
  event.ring->RingDoorbell();
  EXPECT_EQ(Submit(LaunchOf(*device_, 4, 4, {4, 1, 1})).get().state,
            EventState::kDone);
  ASSERT_TRUE(Until([&] { return places(3).size() == 1; }));
  holds_ = kNothing;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  }
  EXPECT_EQ(in_flight.get().state, EventState::kDone);
  EXPECT_EQ(places(2), (std::vector{kAll, kAll})) << "once each, where it was";
  EXPECT_EQ(places(3), std::vector{kEvents});
  EXPECT_EQ(places(4), std::vector{kBackground});
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaReservationTest, ReserveSmsIsHowManyEventsHave) {
  ASSERT_NO_FATAL_FAILURE(OpenReserved(5));
  auto event = AddFailIf(*device_);
  // Launch path edge's, and nobody else's.
  ExpectPlaces(event, {6, 34}, {6, 34});
  const uint64_t made = Made();
  Set("reservation");
  ExpectPlaces(event, {0, 6}, {6, 34});
  EXPECT_EQ(Made(), made);
  EXPECT_THAT(
      backend_->description(),
      testing::HasSubstr(", 6 SMs for events and 34 for background kernels"));
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaReservationTest, ThePartsAreThereAgainInANewContext) {
  ASSERT_NO_FATAL_FAILURE(Open("reservation"));
  auto event = AddFailIf(*device_);
  ExpectPlaces(event, kEvents, kBackground);
  fake_.FaultOn("carillon_call_fail_if", FakeGpu::Nth(1));
  RingAndWait(*device_, event, 5);
  EXPECT_THAT(backend_->description(), testing::HasSubstr("context lost"));
  ExpectPlaces(event, kEvents, kBackground);
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaReservationTest, ADriverWithoutGreenContextsRefusesItByName) {
  fake_.ChangeSettings([](FakeSettings& s) { s.green_contexts = false; });
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  const absl::Status refused = backend_->SetPolicy("reservation");
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("sharing policy 'reservation'"),
                             testing::HasSubstr("reserve 20 of 40 SMs"),
                             testing::HasSubstr("CUDA_ERROR_NOT_SUPPORTED")));
  EXPECT_EQ(backend_->policy(), "priority");
  auto event = AddFailIf(*device_);
  ExpectPlaces(event, kAll, kAll);
  EXPECT_EQ(TakeAway(event), 0u);
  Close();
  BackendOptions options;
  options.policy = "reservation";
  EXPECT_EQ(CudaBackend::CreateOn(fake_.driver(), options, GpuOptions())
                .status()
                .message(),
            refused.message());
}

// A path that cannot be prepared leaves the policy as it is.
TEST_P(CudaReservationTest, WhatCannotBePreparedIsRefusedAndMayBeTriedAgain) {
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  auto event = AddFailIf(*device_);
  ExpectPlaces(event, kAll, kAll);
  const LiveObjects before = fake_.live_objects();
  std::vector<std::string> calls = {"cuGreenCtxCreate",
                                    "cuGreenCtxStreamCreate"};
  if (GetParam() == "graph") calls.push_back("cuGraphInstantiateWithParams");
  for (const std::string& call : calls) {
    fake_.FailNext(call, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(backend_->SetPolicy("reservation").code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(backend_->policy(), "priority");
    EXPECT_EQ(fake_.live_objects(), before) << call;
    ExpectPlaces(event, kAll, kAll);
  }
  Set("reservation");
  ExpectPlaces(event, kEvents, kBackground);
  EXPECT_EQ(TakeAway(event), 0u);
}

// There are kMaxStreams: two of the Gpu's own, four for each priority of events,
// one of the background kernel's, and so not five more for the parts.
TEST_P(CudaReservationTest, ARefusalLeavesTheStreamsToThoseWhoComeLater) {
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  std::vector<TestDevice::Event> events;
  const auto add = [&] {
    events.push_back(
        Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                       .bindings = {{.writable = true}},
                       .priority = static_cast<uint32_t>(events.size())}));
  };
  for (int i = 0; i < 6; ++i) add();
  ExpectPlaces(events[0], kAll, kAll);
  const LiveObjects before = fake_.live_objects();
  EXPECT_EQ(before.streams, 27u);
  const absl::Status refused = backend_->SetPolicy("reservation");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(fake_.live_objects(), before);
  add();
  ExpectPlaces(events[6], kAll, kAll);
  // All of this is there again in a new context.
  fake_.FaultOn("carillon_call_fail_if", FakeGpu::Nth(1));
  RingAndWait(*device_, events[6], 5);
  EXPECT_THAT(backend_->description(), testing::HasSubstr("context lost"));
  ExpectPlaces(events[6], kAll, kAll);
  // With fewer in use, there are enough.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(TakeAway(events.back()), 0u);
    events.pop_back();
  }
  Set("reservation");
  for (const auto& event : events) {
    ExpectPlaces(event, kEvents, kBackground);
    EXPECT_EQ(TakeAway(event), 0u);
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda
