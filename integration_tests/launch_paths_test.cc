// Every launch path of every back-end: the same events must give the same
// results and the same ledger. Here the CUDA back-end runs on a driver made of
// CPU threads, and on the simulated GPU; gpu_check tests what needs a GPU.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "devices/sdk/edge.h"
#include "integration_tests/fake_driver.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using edge::Constant;
using edge::Fixed;
using edge::Place;
using edge::Writable;
using ::testing::HasSubstr;
using testing::kBound;
using testing::Testbed;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class LaunchPathsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::vector<std::string> arguments{"--backend", GetParam()};
#ifndef CARILLON_HAVE_CUDA
    if (GetParam().starts_with("cuda")) {
      GTEST_SKIP() << "built without the CUDA toolkit";
    }
#endif
    if (GetParam() == "cuda on sim") {
      arguments = {"--backend", "cuda", "--driver", "sim"};
    }
    if (GetParam() == "cuda") {
      driver_.emplace();
    }
    auto testbed = Testbed::Start(arguments);
    ASSERT_TRUE(testbed.ok()) << Message(testbed.status());
    testbed_ = *std::move(testbed);
    const v1::GetStatusResponse status = testbed_->Status();
    for (const v1::LaunchPath& path : status.launch_paths()) {
      paths_.push_back(path.name());
    }
    ASSERT_FALSE(paths_.empty());
    EXPECT_EQ(paths_[0], "edge");
  }

  std::unique_ptr<edge::Device> Attach(const std::string& name) {
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = name;
    options.kind = "test";
    auto device = edge::Device::Attach(options);
    EXPECT_TRUE(device.ok()) << Message(device.status());
    return device.ok() ? *std::move(device) : nullptr;
  }

  void SetTracing(bool on) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kBound);
    v1::SetTracingRequest request;
    request.set_on(on);
    v1::SetTracingResponse response;
    EXPECT_TRUE(
        testbed_->admin().SetTracing(&context, request, &response).ok());
  }

  std::optional<testing::FakeDriver> driver_;
  std::unique_ptr<Testbed> testbed_;
  std::vector<std::string> paths_;
};

// sum = a + b, with a pair of vectors in every slot and nearly one thread per
// element.
class Adder {
 public:
  static constexpr uint32_t kRing = 8;

  Adder(edge::Device& device, const std::string& path, uint32_t blocks)
      : elements_(blocks * 32 - 2),
        a_(*device.AllocateBuffer(Place::kInput, kRing * bytes())),
        b_(*device.AllocateBuffer(Place::kInput, kRing * bytes())),
        sum_(*device.AllocateBuffer(Place::kOutput, kRing * bytes())) {
    edge::EventSpec spec;
    spec.kernel = "vector_add";
    spec.grid = {blocks, 1, 1};
    spec.block = {32, 1, 1};
    spec.max_in_flight = kRing;
    spec.launch_path = path;
    const edge::BufferPart slots{.length = bytes(), .slot_stride = bytes()};
    spec.parameters = {Fixed("a", a_, slots), Fixed("b", b_, slots),
                       Fixed("c", sum_, slots)};
    auto registered = edge::edgeRegisterEvent(device, spec);
    EXPECT_TRUE(registered.ok()) << path << ": " << registered.status();
    queue = registered.ok() ? *registered : nullptr;
  }

  void Prepare(std::mt19937& random) {
    const uint32_t slot = queue->next_slot();
    for (const edge::Buffer* buffer : {&a_, &b_}) {
      for (uint32_t i = 0; i < elements_; ++i) {
        const auto value = static_cast<float>(random() % 1000);
        std::memcpy(buffer->bytes.data() + slot * bytes() + i * sizeof(value),
                    &value, sizeof(value));
      }
    }
  }
  bool IsRight(shm::Sequence sequence) const {
    const uint32_t slot = queue->SlotOf(sequence);
    for (uint32_t i = 0; i < elements_; ++i) {
      if (At(sum_, slot, i) != At(a_, slot, i) + At(b_, slot, i)) return false;
    }
    return true;
  }

  edge::EventQueue* queue = nullptr;

 private:
  uint64_t bytes() const { return elements_ * sizeof(float); }
  float At(const edge::Buffer& buffer, uint32_t slot, uint32_t i) const {
    float value;
    std::memcpy(&value,
                buffer.bytes.data() + slot * bytes() + i * sizeof(value),
                sizeof(value));
    return value;
  }

  const uint32_t elements_;
  const edge::Buffer a_;
  const edge::Buffer b_;
  const edge::Buffer sum_;
};

TEST_P(LaunchPathsTest, EveryPathComputesTheSameAndLosesNothing) {
  constexpr uint64_t kEvents = 200;
  std::mt19937 random(GTEST_FLAG_GET(random_seed));
  auto device = Attach("device0");
  for (const std::string& path : paths_) {
    SCOPED_TRACE(path);
    // In one warp, and in several blocks.
    for (const uint32_t blocks : {1, 10}) {
      Adder adder(*device, path, blocks);
      ASSERT_NE(adder.queue, nullptr);
      for (uint64_t sent = 0, taken = 0; taken < kEvents; ++taken) {
        while (sent < kEvents && adder.queue->free_slots() > 0) {
          adder.Prepare(random);
          adder.queue->RingDoorbell();
          ++sent;
        }
        const auto done = adder.queue->Wait(kBound);
        ASSERT_TRUE(done.ok()) << Message(done.status());
        ASSERT_EQ(done->sequence.value(), taken + 1);
        ASSERT_EQ(done->state, edge::EventState::kDone) << done->status;
        ASSERT_TRUE(adder.IsRight(done->sequence)) << taken;
        adder.queue->Free();
      }
      const v1::ListEktResponse ekt = testbed_->Ekt();
      ASSERT_EQ(ekt.entries_size(), 1);
      EXPECT_EQ(ekt.entries(0).launch_path(), path);
      EXPECT_TRUE(edge::edgeUnregisterEvent(*device, adder.queue).ok());
    }
  }
  const v1::EventCounts events = testbed_->Status().events();
  EXPECT_EQ(events.rung(), paths_.size() * 2 * kEvents);
  EXPECT_EQ(events.done(), events.rung());
}

TEST_P(LaunchPathsTest, DevicesComeAndGoWhileOthersAreServed) {
  auto device = Attach("steady");
  std::mt19937 random(1);
  std::vector<std::unique_ptr<Adder>> adders;
  for (const std::string& path : paths_) {
    adders.push_back(std::make_unique<Adder>(*device, path, 10));
    ASSERT_NE(adders.back()->queue, nullptr);
  }
  for (int round = 0; round < 6; ++round) {
    auto guest = Attach("guest");
    for (const std::string& path : paths_) {
      SCOPED_TRACE(path);
      Adder brief(*guest, path, 1);
      ASSERT_NE(brief.queue, nullptr);
      brief.Prepare(random);
      brief.queue->RingDoorbell();
      // They are rung before the guest's event ends or its unregistering
      // begins.
      for (const auto& adder : adders) {
        adder->Prepare(random);
        adder->queue->RingDoorbell();
      }
      EXPECT_TRUE(edge::edgeUnregisterEvent(*guest, brief.queue).ok());
      for (const auto& adder : adders) {
        const auto done = adder->queue->Wait(kBound);
        ASSERT_TRUE(done.ok()) << Message(done.status());
        ASSERT_EQ(done->state, edge::EventState::kDone) << done->status;
        ASSERT_TRUE(adder->IsRight(done->sequence));
        adder->queue->Free();
      }
    }
    guest.reset();
  }
  adders.clear();
  device.reset();
  EXPECT_TRUE(Eventually([&] {
    const v1::GetStatusResponse status = testbed_->Status();
    return status.devices() == 0 && status.ekt_used() == 0 &&
           status.memory_used() == 0;
  }));
  const v1::EventCounts events = testbed_->Status().events();
  EXPECT_EQ(events.rung(), events.done() + events.failed() + events.aborted());
}

TEST_P(LaunchPathsTest, EveryPathLaunchesWhatIsScheduled) {
  auto device = Attach("device0");
  std::mt19937 random(1);
  for (const std::string& path : paths_) {
    SCOPED_TRACE(path);
    Adder adder(*device, path, 10);
    ASSERT_NE(adder.queue, nullptr);
    for (int i = 0; i < 10; ++i) {
      adder.Prepare(random);
      adder.queue->Commit();
      const auto scheduled = edge::edgeScheduleEvent(*device, adder.queue);
      ASSERT_TRUE(scheduled.ok()) << Message(scheduled);
      const auto done = adder.queue->Wait(kBound);
      ASSERT_TRUE(done.ok()) << Message(done.status());
      ASSERT_EQ(done->state, edge::EventState::kDone) << done->status;
      ASSERT_TRUE(adder.IsRight(done->sequence));
      adder.queue->Free();
    }
    EXPECT_TRUE(edge::edgeUnregisterEvent(*device, adder.queue).ok());
  }
}

TEST_P(LaunchPathsTest, APathThatIsNotThereIsRefusedWithThoseThatAre) {
  auto device = Attach("device0");
  edge::EventSpec spec;
  spec.kernel = "null_event";
  spec.parameters = {Constant("token", 1)};
  spec.launch_path = "warp_drive";
  const auto refused = edge::edgeRegisterEvent(*device, spec);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(refused.status()),
              HasSubstr("no launch path 'warp_drive'; there are: edge, "));
  EXPECT_EQ(testbed_->Status().ekt_used(), 0u);
}

TEST_P(LaunchPathsTest, EveryPathStampsAnEventsLifeWhileTracing) {
  // The error between the CPU's clock and the GPU's, as gpud has measured it.
  constexpr Nanoseconds kClockError = 50'000'000;
  auto device = Attach("device0");
  std::mt19937 random(1);
  for (const std::string& path : paths_) {
    SCOPED_TRACE(path);
    Adder adder(*device, path, 10);
    ASSERT_NE(adder.queue, nullptr);
    const auto life = [&] {
      adder.Prepare(random);
      adder.queue->RingDoorbell();
      EXPECT_TRUE(adder.queue->Wait(kBound).ok());
      const edge::EventLife life = adder.queue->life();
      adder.queue->Free();
      return life;
    };
    EXPECT_EQ(life().finished_ns, 0u);
    SetTracing(true);
    EXPECT_TRUE(adder.queue->tracing());
    // The path's thread checks for this only from time to time.
    Nanoseconds before = 0;
    edge::EventLife stamps;
    EXPECT_TRUE(Eventually([&] {
      before = NowNs();
      stamps = life();
      return stamps.finished_ns != 0;
    }));
    EXPECT_GE(stamps.rung_ns, before);
    EXPECT_GE(stamps.seen_ns + kClockError, stamps.rung_ns);
    EXPECT_GE(stamps.queued_ns, stamps.seen_ns);
    EXPECT_GE(stamps.dispatched_ns, stamps.queued_ns);
    EXPECT_GE(stamps.finished_ns + kClockError, stamps.dispatched_ns);
    EXPECT_LE(stamps.finished_ns, NowNs() + kClockError);
    SetTracing(false);
    EXPECT_FALSE(adder.queue->tracing());
    EXPECT_TRUE(edge::edgeUnregisterEvent(*device, adder.queue).ok());
  }
}

TEST_P(LaunchPathsTest, WhatTheDefaultRefusesIsServedAndTheOneThatDoesIsNamed) {
  auto device = Attach("device0");
  edge::EventSpec spec;
  spec.kernel = "null_event";
  spec.parameters = {Constant("token", 1)};
  // A GPU that launches cannot change its launches.
  spec.modifyable = true;
  // More than half of the aperture: a path that refused it must not keep the
  // room.
  spec.max_in_flight = 8192;
  const std::string server = GetParam() == "cpu" ? "edge" : "graph";
  const auto queue = edge::edgeRegisterEvent(*device, spec);
  ASSERT_TRUE(queue.ok()) << Message(queue.status());
  EXPECT_EQ((*queue)->launch_path(), server);
  ASSERT_EQ(testbed_->Ekt().entries_size(), 1);
  EXPECT_EQ(testbed_->Ekt().entries(0).launch_path(), server);
  const edge::KmdOverride two{.grid = {2, 1, 1}, .block = {32, 1, 1}};
  (*queue)->RingDoorbell(&two);
  const auto completion = (*queue)->Wait(std::chrono::seconds(20));
  ASSERT_TRUE(completion.ok()) << Message(completion.status());
  EXPECT_EQ(completion->state, shm::EventState::kDone);
  (*queue)->Free();
  // A device that names a path gets that path or an error, and nothing stays
  // behind.
  const v1::GetStatusResponse before = testbed_->Status();
  spec.max_in_flight = 4;
  spec.launch_path = GetParam() == "cpu" ? "persistent" : "edge";
  spec.kernel = GetParam() == "cpu" ? "busy" : "null_event";
  if (GetParam() == "cpu") spec.parameters = {Constant("iterations", 1)};
  const auto refused = edge::edgeRegisterEvent(*device, spec);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(refused.status()), HasSubstr("launch path"));
  EXPECT_EQ(testbed_->Status().ekt_used(), before.ekt_used());
  EXPECT_EQ(testbed_->Status().memory_used(), before.memory_used());
}

TEST_P(LaunchPathsTest, WhoHasNoWaitReleaseBarrierSaysSo) {
  auto device = Attach("device0");
  edge::EventSpec spec;
  spec.kernel = "null_event";
  spec.parameters = {Constant("token", 1)};
  const auto queue = edge::edgeRegisterEvent(*device, spec);
  ASSERT_TRUE(queue.ok()) << Message(queue.status());
  const absl::Status released = edge::edgeReleaseBarrier(*device, *queue);
  if (GetParam() == "cpu") {
    EXPECT_TRUE(released.ok()) << Message(released);
    return;
  }
  EXPECT_EQ(released.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(released),
              HasSubstr("the cuda back-end has no wait-release barrier"));
}

INSTANTIATE_TEST_SUITE_P(Backends, LaunchPathsTest,
                         ::testing::Values("cpu", "cuda", "cuda on sim"),
                         [](const auto& info) {
                           return info.param == "cuda on sim" ? "sim_driver"
                                                              : info.param;
                         });

}  // namespace
}  // namespace carillon
