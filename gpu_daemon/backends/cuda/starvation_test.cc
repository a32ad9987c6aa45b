// Who waits for ever under a policy of the CUDA back-end is who the table of
// policies names there, on a driver made of CPU threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/options/policy_names.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;

// One that waits beside a flood: whether each is of events, and of one device.
struct Pair {
  bool event;
  bool flood_events;
  bool one_device;
};

// What the table's words say of them.
bool IsNamed(std::string_view starves, const Pair& of) {
  const bool background = !of.event && !of.flood_events;
  const std::map<std::string_view, bool> named = {
      {"", false},
      {"lower priorities", true},
      {"background kernels of lower priorities", background},
      {"background kernels of lower priorities than others of their device",
       background && of.one_device}};
  const auto found = named.find(starves);
  EXPECT_NE(found, named.end()) << "who is that: " << starves;
  return found != named.end() && found->second;
}

class CudaStarvationTest : public CudaBackendFixture,
                           public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr uint32_t kHigh = kPriorities - 1;
  // So many of a flood are always there: more than twice as many as the back-end
  // has streams for background kernels.
  static constexpr uint32_t kFlood = 20;

  void TearDown() override { Close(); }

  TestDevice::Event AddOf(MappedDevice& device, uint32_t priority) {
    return Add(device, {.kernel = simt::FindKernel("fail_if"),
                        .bindings = {{.writable = true}},
                        .entries = 32,
                        .priority = priority});
  }
  void Submit(const MappedDevice& device, uint32_t priority,
              std::function<void(const LaunchResult&)> on_end) {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = simt::FindKernel("fail_if"),
                   .grid = {1, 1, 1},
                   .block = {32, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(sizeof(uint32_t));
    std::memset(launch->args.get(), 0, sizeof(uint32_t));
    launch->memory = device.memory;
    launch->priority = priority;
    launch->from_host = true;
    launch->on_end = std::move(on_end);
    backend_->Submit(std::move(launch));
  }
  // A background kernel brings the next one when it ends.
  void SubmitFlood(const MappedDevice& device) {
    ++in_flood_;
    Submit(device, kHigh, [this, &device](const LaunchResult& result) {
      EXPECT_EQ(result.state, EventState::kDone);
      ++flood_ended_;
      if (flooding_) SubmitFlood(device);
      --in_flood_;
    });
  }
  // Of events: the test's thread brings them.
  void Ring(MappedDevice& device, const TestDevice::Event& event) {
    while (event.ring->Poll()) {
      event.ring->Consume();
      ++flood_ended_;
    }
    while (flooding_ && event.ring->free_slots() > 32 - kFlood) {
      Commit(event, 0);
    }
    event.ring->RingDoorbell();
  }

  // Whether a launch of the lowest priority ends before `at_most` more of the
  // highest have.
  bool EndsBesideAFlood(const Pair& of, uint64_t at_most) {
    MappedDevice& other = of.one_device ? *device_ : *others_.front();
    flooding_ = true;
    flood_ended_ = 0;
    TestDevice::Event flood;
    TestDevice::Event event;
    if (of.flood_events) {
      flood = AddOf(other, kHigh);
    } else {
      for (uint32_t i = 0; i < kFlood; ++i) SubmitFlood(other);
    }
    const auto keep_on = [&] {
      if (flood.ring != nullptr) Ring(other, flood);
    };
    if (of.event) event = AddOf(*device_, 0);
    // All streams are the flood's.
    EXPECT_TRUE(Until([&] {
      keep_on();
      return flood_ended_ >= 3 * kFlood;
    }));
    std::atomic<bool> background_ended{false};
    if (of.event) {
      Commit(event, 0);
      event.ring->RingDoorbell();
    } else {
      Submit(*device_, 0, [&](const LaunchResult& result) {
        EXPECT_EQ(result.state, EventState::kDone);
        background_ended = true;
      });
    }
    const auto has_ended = [&] {
      return of.event ? event.ring->Poll().has_value()
                      : background_ended.load();
    };
    const uint64_t last =
        at_most == kForEver ? kForEver : flood_ended_ + at_most;
    EXPECT_TRUE(Until([&] {
      keep_on();
      return has_ended() || flood_ended_ >= last;
    }));
    const bool ended = has_ended();
    flooding_ = false;
    EXPECT_TRUE(Until([&] {
      keep_on();
      return has_ended() && in_flood_ == 0 &&
             (flood.ring == nullptr || flood.ring->free_slots() == 32);
    })) << "it waits without a flood";
    if (of.event) {
      event.ring->Consume();
      EXPECT_EQ(TakeAway(event), 0u);
    }
    if (of.flood_events) {
      EXPECT_EQ(TakeAway(flood), 0u);
    }
    return ended;
  }

  static constexpr uint64_t kForEver = UINT64_MAX;
  std::atomic<bool> flooding_{false};
  std::atomic<uint64_t> flood_ended_{0};
  std::atomic<uint32_t> in_flood_{0};
};

std::vector<std::string> PoliciesOfCuda() {
  std::vector<std::string> names;
  for (const PolicyInfo* policy : PoliciesOf(Sharer::kCuda)) {
    names.emplace_back(policy->name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, CudaStarvationTest,
                         ::testing::ValuesIn(PoliciesOfCuda()),
                         [](const auto& info) { return info.param; });

TEST_P(CudaStarvationTest, NobodyWaitsForEverWhomThePolicyDoesNotName) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 40; });
  for (const PolicyInfo* policy : PoliciesOf(Sharer::kCuda)) {
    if (policy->name != GetParam()) continue;
    for (int bits = 0; bits < 8; ++bits) {
      const Pair of = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
      const bool named = IsNamed(policy->starves, of);
      // Events of the highest priority leave gaps, here: nobody need starve.
      if (named && (of.event || of.flood_events)) continue;
      SCOPED_TRACE(of.event);
      SCOPED_TRACE(of.flood_events);
      SCOPED_TRACE(of.one_device);
      // Streams of background kernels stay: each beside a new back-end.
      ASSERT_NO_FATAL_FAILURE(OpenPath("baseline_flag"));
      OtherDevice();
      ASSERT_TRUE(backend_->SetPolicy(policy->name).ok());
      EXPECT_EQ(EndsBesideAFlood(of, named ? 500 : kForEver), !named);
      Close();
    }
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda
