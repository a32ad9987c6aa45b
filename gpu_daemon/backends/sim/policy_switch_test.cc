// Sharing policies that change at random under load, on the back-ends that have
// gpud's KMU: every event that was rung ends once, in order, as its kernel said,
// and so does every background kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/registry.h"
#include "gpu_daemon/event/test_device.h"
#include "gpu_daemon/options/policy_names.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using ::testing::HasSubstr;

class PolicySwitchTest : public ::testing::TestWithParam<std::string> {
 protected:
  PolicySwitchTest()
      : backend_(*MakeBackend(
            GetParam(),
            {.gpu = {.sms = 2, .blocks_per_sm = 2}, .workers = 2})) {}
  ~PolicySwitchTest() override {
    backend_->Stop();
    backend_->Join();
  }

  void Launch(const TestDevice& device, uint32_t blocks, uint32_t priority,
              std::atomic<uint32_t>* done) {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = simt::FindKernel("busy"),
                   .grid = {blocks, 1, 1},
                   .block = {32, 1, 1}};
    launch->cost = CostOf(32, 12, 0);
    launch->priority = priority;
    launch->args = std::make_unique<std::byte[]>(launch->kmd.kernel->args_size);
    const uint32_t iterations = 20;
    std::memcpy(launch->args.get(), &iterations, sizeof(iterations));
    launch->memory = device.memory;
    launch->on_end = [done](const LaunchResult& result) {
      if (result.state == EventState::kDone) done->fetch_add(1);
    };
    backend_->Submit(std::move(launch));
  }

  TestDevice devices_[2] = {TestDevice("a"), TestDevice("b")};
  std::unique_ptr<Backend> backend_;
};

INSTANTIATE_TEST_SUITE_P(All, PolicySwitchTest, ::testing::Values("cpu", "sim"),
                         [](const auto& info) { return info.param; });

TEST_P(PolicySwitchTest, NoEventIsLostOrDoubledWhileThePolicyChanges) {
  constexpr uint32_t kRounds = 120;
  constexpr uint32_t kEntries = 8;
  struct Ring {
    TestDevice* device;
    TestDevice::Event event;
    uint32_t rung = 0;
    uint32_t taken = 0;
  };
  const auto code_of = [](uint32_t number) {
    return number % 5 == 0 ? 1 + number % 7 : 0;
  };
  std::vector<Ring> rings;
  LaunchPath* const path = backend_->paths().Find("edge")->path;
  for (TestDevice& device : devices_) {
    for (const uint32_t blocks : {1, 3, 9}) {
      rings.push_back(
          {&device, device.Register({.kernel = simt::FindKernel("fail_if"),
                                     .bindings = {{.writable = true}},
                                     .grid = {blocks, 1, 1},
                                     .block = {32, 1, 1},
                                     .entries = kEntries,
                                     .priority = blocks % 8})});
      ASSERT_TRUE(path->Add(rings.back().event.kernel).ok());
    }
  }
  std::atomic<uint32_t> background_done{0};
  uint32_t background = 0;
  std::mt19937 random(7);
  const auto policies = backend_->policies();
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (Ring& ring : rings) {
      while (ring.event.ring->free_slots() > 0) {
        const uint32_t code = code_of(++ring.rung);
        std::memcpy(ring.event.ring->parameters(), &code, sizeof(code));
        ring.event.ring->Commit();
      }
      ring.event.ring->RingDoorbell();
    }
    Launch(devices_[round % 2], 1 + random() % 12, random() % 8,
           &background_done);
    ++background;
    const auto* policy = policies[random() % policies.size()];
    ASSERT_TRUE(backend_->SetPolicy(policy->name).ok());
    ASSERT_EQ(backend_->policy(), policy->name);
    for (Ring& ring : rings) {
      const uint32_t wanted = 1 + random() % kEntries;
      for (uint32_t i = 0; i < wanted; ++i) {
        const auto completion = ring.device->Wait(*ring.event.ring);
        const uint32_t code = code_of(++ring.taken);
        ASSERT_EQ(completion.state,
                  code == 0 ? EventState::kDone : EventState::kFailed)
            << "round " << round << ", under " << policy->name;
      }
    }
  }
  for (Ring& ring : rings) {
    while (ring.taken < ring.rung) {
      ++ring.taken;
      ASSERT_NE(ring.device->Wait(*ring.event.ring).state, EventState::kNone);
    }
    EXPECT_FALSE(ring.event.ring->Poll()) << "one more than were rung";
    const auto counts = ring.event.kernel->counts();
    EXPECT_EQ(counts.rung, ring.rung);
    EXPECT_EQ(counts.done + counts.failed, ring.rung);
    EXPECT_EQ(counts.aborted, 0u);
  }
  while (!backend_->idle()) std::this_thread::yield();
  EXPECT_EQ(background_done.load(), background);
  EXPECT_TRUE(backend_->launches().empty());
}

TEST_P(PolicySwitchTest, ARefusedPolicyChangesNothing) {
  ASSERT_TRUE(backend_->SetPolicy("p1").ok());
  EXPECT_EQ(backend_->SetPolicy("fair").code(), absl::StatusCode::kNotFound);
  const auto refused = backend_->SetPolicy("configured");
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("can do: first_come, priority, p1, p2"));
  EXPECT_EQ(backend_->policy(), "p1");
}

TEST_P(PolicySwitchTest, ALoweredPriorityCountsForWhatWasRegisteredBefore) {
  const auto event =
      devices_[0].Register({.kernel = simt::FindKernel("fail_if"),
                            .bindings = {{.writable = true}},
                            .priority = 6});
  EXPECT_EQ(event.kernel->allowed_priority(), 6u);
  devices_[0].memory->share().set_max_priority(2);
  EXPECT_EQ(event.kernel->allowed_priority(), 2u);
  devices_[0].memory->share().set_max_priority(7);
  EXPECT_EQ(event.kernel->allowed_priority(), 6u);
}

}  // namespace
}  // namespace carillon::gpud
