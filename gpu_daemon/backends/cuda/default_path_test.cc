// The default launch path, and what takes its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using ::testing::HasSubstr;

using CudaBackendTest = CudaBackendFixture;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }

class DefaultPathTest : public CudaBackendTest {
 protected:
  absl::StatusOr<StartedPath> Serve(TestDevice& device,
                                    TestDevice::Spec spec = {}) {
    spec.kernel = simt::FindKernel("null_event");
    spec.bindings = {Constant(0)};
    return backend_->paths().Serve("", [&](const StartedPath& path) {
      event_ = device.Register(spec);
      return path.path->Add(event_.kernel);
    });
  }
  // Of the last that was served.
  void ExpectServed(TestDevice& device, const StartedPath& served) {
    event_.ring->Commit();
    event_.ring->RingDoorbell();
    EXPECT_EQ(device.Wait(*event_.ring).state, EventState::kDone);
    path_ = served.path;
    EXPECT_EQ(TakeAway(event_), 0u);
  }
  TestDevice::Event event_;
};

TEST_F(DefaultPathTest, WhereEdgeCannotStartItsStreamsAreArmed) {
  Open();
  fake_.FailNext("cuStreamCreateWithPriority", CUDA_ERROR_NOT_SUPPORTED);
  const auto found = backend_->paths().Find("");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->name, "stream_wait");
  const auto described = backend_->paths().Describe();
  EXPECT_EQ(described[0].info.name, "edge");
  EXPECT_THAT(described[0].unavailable, HasSubstr("CUDA_ERROR_NOT_SUPPORTED"));
  std::vector<std::string_view> names;
  for (const auto& path : described) names.push_back(path.info.name);
  EXPECT_THAT(names,
              ::testing::ElementsAre("edge", "stream_wait", "graph", "baseline",
                                     "baseline_flag", "persistent",
                                     "pagoda_ring", "pagoda"));
}

TEST_F(DefaultPathTest, AGpuThatLaunchesNothingByItselfArmsStreamsForMore) {
  fake_.ChangeSettings([](FakeSettings& s) { s.device_graphs = false; });
  Open();
  const auto warp = Serve(*device_);
  ASSERT_TRUE(warp.ok()) << warp.status();
  EXPECT_EQ(warp->name, "edge");
  ExpectServed(*device_, *warp);
  const auto larger = Serve(*device_, {.block = {64, 1, 1}});
  ASSERT_TRUE(larger.ok()) << larger.status();
  EXPECT_EQ(larger->name, "stream_wait");
  ExpectServed(*device_, *larger);
}

TEST_F(DefaultPathTest, AKernelThatItRefusesIsServedByTheNextThatTakesIt) {
  Open();
  const auto plain = Serve(*device_);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->name, "edge");
  ExpectServed(*device_, *plain);
  const auto modifyable = Serve(*device_, {.modifyable = true});
  ASSERT_TRUE(modifyable.ok()) << modifyable.status();
  EXPECT_EQ(modifyable->name, "graph");
  ExpectServed(*device_, *modifyable);
}

TEST_F(DefaultPathTest, WhenItsLinesAreFullTheNextPathServes) {
  Open();
  std::vector<TestDevice::Event> events;
  for (uint32_t i = 0; i < kEdgeMaxLines; ++i) {
    const auto served = Serve(OtherDevice());
    ASSERT_TRUE(served.ok()) << served.status();
    ASSERT_EQ(served->name, "edge");
    events.push_back(std::move(event_));
  }
  const auto beyond = Serve(*device_);
  ASSERT_TRUE(beyond.ok()) << beyond.status();
  EXPECT_EQ(beyond->name, "stream_wait");
  ExpectServed(*device_, *beyond);
  Use("edge");
  for (const auto& event : events) TakeAway(event);
}

TEST_F(DefaultPathTest, WhatNoPathCouldMendIsRefusedByTheFirst) {
  Open();
  ASSERT_TRUE(backend_->paths().Find("").ok());
  const LiveObjects before = fake_.live_objects();
  fake_.FailNext("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Serve(*device_).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fake_.live_objects(), before);
  // More than any GPU has.
  const auto refused =
      Serve(*device_, {.grid = {2, 1, 1}, .shared_bytes = 300 << 10});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fake_.live_objects(), before);
  for (const auto& path : backend_->paths().Describe()) {
    EXPECT_EQ(path.counters.empty(), path.info.name != "edge")
        << path.info.name << " has started";
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda
