// Registering what a device had with a gpud that has died, and what gpud refuses
// of it: a device may say anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "gpu_daemon/control/control_plane.h"
#include "gpu_daemon/control/testing/test_testbed.h"
#include "shm/layout.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

constexpr uint32_t kEntries = 4;
constexpr uint64_t kConsumed = 1'000'003;

class ResumedTest : public ::testing::Test {
 protected:
  // A ring somewhere in the middle of both heaps.
  v1::RegisterEventRequest Resumed(uint32_t event_id = 5) {
    auto request = device_.NullEvent(kEntries);
    auto* resumed = request.mutable_resumed();
    resumed->set_event_id(event_id);
    resumed->set_esq_offset(device_.submission().heap_offset() + 1024);
    resumed->set_ecq_offset(device_.completion().heap_offset() + 2048);
    resumed->set_consumed(kConsumed);
    return request;
  }
  std::atomic_ref<uint32_t> Doorbell(uint32_t event_id) {
    return std::atomic_ref(device_.submission().doorbells()[event_id]);
  }
  void Refuse(const v1::RegisterEventRequest& request, StatusCode code,
              const std::string& sentence) {
    SCOPED_TRACE(sentence);
    v1::RegisterEventResponse response;
    const Outcome outcome = device_.Register(request, &response);
    EXPECT_EQ(outcome.status.error_code(), code);
    EXPECT_THAT(outcome.status.error_message(), HasSubstr(sentence));
    EXPECT_EQ(testbed_.Status().ekt_used(), 0u);
  }

  TestTestbed testbed_;
  AttachedDevice device_{&testbed_, "nic0"};
};

// The devices of a gpud that ended in order have gone, and its note of what may
// have faulted is about nobody.
TEST(RestartMarkTest, OnlyAGpudThatFollowsADeadOneHasItsNote) {
  for (const bool died : {false, true}) {
    const auto directory = *TempDirectory::Make();
    const TestbedPaths paths(directory.path());
    std::ofstream(paths.restart_mark()) << "4711\n";
    if (died) std::ofstream(paths.gpud_lock()) << "4711 0\n";
    ControlPlane::Options options;
    options.directory = directory.path();
    options.memory_bytes = 64 << 20;
    options.backend_options.workers = 1;
    const auto plane = ControlPlane::Start(std::move(options));
    ASSERT_TRUE(plane.ok()) << plane.status();
    EXPECT_EQ(std::filesystem::exists(paths.restart_mark()), died);
    (*plane)->RequestShutdown();
    (*plane)->Run();
    (*plane)->ShutDown();
  }
}

TEST_F(ResumedTest, ARingGoesOnBehindWhatWasConsumed) {
  Doorbell(5).store(77);
  v1::RegisterEventResponse answer;
  const Outcome outcome = device_.Register(Resumed(), &answer);
  ASSERT_TRUE(outcome.ok()) << outcome.status.error_message();
  EXPECT_EQ(answer.event_id(), 5u);
  EXPECT_EQ(answer.esq_offset(), device_.submission().heap_offset() + 1024);
  EXPECT_EQ(answer.ecq_offset(), device_.completion().heap_offset() + 2048);
  const auto* ecq = reinterpret_cast<const shm::EcqEntry*>(
      device_.completion().At(answer.ecq_offset()));
  const auto sequence_at = [&](uint64_t sequence) {
    return std::atomic_ref(
               const_cast<uint64_t&>(ecq[sequence % kEntries].sequence))
        .load(std::memory_order_acquire);
  };
  // A whole lap has ended, for whoever looks at the ring's last one.
  for (uint64_t s = kConsumed - kEntries + 1; s <= kConsumed; ++s) {
    EXPECT_EQ(sequence_at(s), s);
    EXPECT_EQ(ecq[s % kEntries].state, shm::EventState::kDone);
  }
  // The next two.
  auto* esq = device_.submission().At(answer.esq_offset());
  for (const uint64_t s : {kConsumed + 1, kConsumed + 2}) {
    auto* entry = reinterpret_cast<shm::EsqEntryHeader*>(
        esq + s % kEntries * answer.entry_bytes());
    *entry = {.sequence = s, .generation = answer.generation()};
  }
  Doorbell(5).store(79);
  ASSERT_TRUE(
      Eventually([&] { return sequence_at(kConsumed + 2) == kConsumed + 2; }));
  ASSERT_TRUE(Eventually(
      [&] { return testbed_.Ekt().entries(0).counts().done() >= 2; }));
  const auto counts = testbed_.Ekt().entries(0).counts();
  EXPECT_EQ(counts.rung(), 2u);
  EXPECT_EQ(counts.done(), 2u);
  EXPECT_EQ(counts.failed(), 0u);
  uint64_t aborted = 0;
  EXPECT_TRUE(device_.Unregister(5, 1000, &aborted).ok());
  EXPECT_EQ(aborted, 0u);
}

TEST_F(ResumedTest, AYoungRingHasEndedNoMoreThanItHad) {
  auto request = Resumed();
  request.mutable_resumed()->set_consumed(2);
  v1::RegisterEventResponse answer;
  ASSERT_TRUE(device_.Register(request, &answer).ok());
  const auto* ecq = reinterpret_cast<const shm::EcqEntry*>(
      device_.completion().At(answer.ecq_offset()));
  EXPECT_EQ(ecq[0].sequence, 0u);
  EXPECT_EQ(ecq[1].sequence, 1u);
  EXPECT_EQ(ecq[2].sequence, 2u);
  EXPECT_EQ(ecq[3].sequence, 0u);
}

TEST_F(ResumedTest, WhatCannotHaveBeenIsRefused) {
  const auto edit = [&](auto change) {
    auto request = Resumed();
    change(*request.mutable_resumed());
    return request;
  };
  Refuse(edit([](auto& r) { r.set_event_id(32); }),
         StatusCode::FAILED_PRECONDITION, "cannot have doorbell 32 again");
  Refuse(edit([](auto& r) { r.set_event_id(~0u); }),
         StatusCode::FAILED_PRECONDITION, "cannot have doorbell");
  for (const uint64_t offset :
       {uint64_t{0}, uint64_t{64}, ~uint64_t{0}, uint64_t{1} << 40}) {
    Refuse(edit([&](auto& r) { r.set_esq_offset(offset); }),
           StatusCode::FAILED_PRECONDITION, "the ESQ cannot be at offset");
    Refuse(edit([&](auto& r) { r.set_ecq_offset(offset); }),
           StatusCode::FAILED_PRECONDITION, "the ECQ cannot be at offset");
  }
  Refuse(edit([](auto& r) { r.set_consumed(~uint64_t{0}); }),
         StatusCode::INVALID_ARGUMENT, "no device has come that far");
}

TEST_F(ResumedTest, WhatIsTakenIsRefused) {
  v1::RegisterEventResponse answer;
  ASSERT_TRUE(device_.Register(Resumed(), &answer).ok());
  const Outcome same = device_.Register(Resumed(), &answer);
  EXPECT_THAT(same.status.error_message(), HasSubstr("this one is taken"));
  const Outcome over = device_.Register(Resumed(6), &answer);
  EXPECT_THAT(over.status.error_message(), HasSubstr("where nothing else is"));
  ASSERT_TRUE(device_.Unregister(5, 1000).ok());
  EXPECT_TRUE(device_.Register(Resumed(6), &answer).ok());
}

TEST_F(ResumedTest, ABufferComesBackWithItsIdAndItsPlace) {
  v1::AllocateBufferRequest request;
  request.set_session(device_.session());
  request.set_place(v1::INPUT);
  request.set_bytes(256);
  const auto allocate = [&](v1::AllocateBufferResponse* answer) {
    return TestTestbed::Call(
        testbed_.events(), &v1::Events::Stub::AllocateBuffer, request, answer);
  };
  const uint64_t place = device_.submission().heap_offset() + 4096;
  request.mutable_resumed()->set_buffer_id(41);
  request.mutable_resumed()->set_offset(place);
  v1::AllocateBufferResponse answer;
  ASSERT_TRUE(allocate(&answer).ok());
  EXPECT_EQ(answer.buffer_id(), 41u);
  EXPECT_EQ(answer.offset(), place);
  EXPECT_EQ(allocate(&answer).status.error_code(),
            StatusCode::FAILED_PRECONDITION)
      << "the id is taken";
  request.mutable_resumed()->set_buffer_id(40);
  EXPECT_EQ(allocate(&answer).status.error_code(),
            StatusCode::FAILED_PRECONDITION)
      << "the place is taken";
  for (const uint32_t id : {0u, ~0u}) {
    request.mutable_resumed()->set_buffer_id(id);
    request.mutable_resumed()->set_offset(place + 4096);
    EXPECT_EQ(allocate(&answer).status.error_code(),
              StatusCode::FAILED_PRECONDITION)
        << id;
  }
  // The next one is nobody's again.
  EXPECT_EQ(device_.Buffer(v1::INPUT, 64), 42u);
}

}  // namespace
}  // namespace carillon::gpud
