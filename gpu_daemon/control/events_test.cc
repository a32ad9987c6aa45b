// Event kernels through the control plane: registering, ringing, failing,
// unregistering.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/testing/test_testbed.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;
using shm::EventState;
using shm::EventStatus;

// An event that outlasts any test, of blocks that each end soon.
constexpr uint32_t kManyBlocks = 10'000'000;
constexpr uint64_t kIterations = 1'000'000;

v1::RegisterEventRequest Request(const AttachedDevice& device,
                                 const std::string& kernel, uint32_t entries) {
  v1::RegisterEventRequest request;
  request.set_session(device.session());
  request.set_kernel(kernel);
  request.mutable_block()->set_x(32);
  request.mutable_block()->set_y(1);
  request.mutable_block()->set_z(1);
  request.set_max_in_flight(entries);
  return request;
}

// The table once so many events are done: gpud counts an event just after it
// has published its completion.
v1::ListEktResponse EktWithDone(TestTestbed& testbed, uint64_t events) {
  const Nanoseconds start = NowNs();
  while (true) {
    v1::ListEktResponse ekt = testbed.Ekt();
    uint64_t done = 0;
    for (const v1::EktEntry& entry : ekt.entries()) {
      done += entry.counts().done();
    }
    if (done >= events || NowNs() - start > 10'000'000'000) return ekt;
  }
}

TEST(Events, ARungDoorbellIsAnswered) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = device.RingOf(device.NullEvent());
  for (uint64_t i = 1; i <= 10; ++i) {
    ring.Commit();
    ring.RingDoorbell();
    const auto completion = AttachedDevice::Await(ring);
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->sequence.value(), i);
    EXPECT_EQ(completion->state, EventState::kDone);
  }
  const auto ekt = EktWithDone(testbed, 10);
  EXPECT_EQ(ekt.capacity(), 32u);
  ASSERT_EQ(ekt.entries_size(), 1);
  EXPECT_EQ(ekt.entries(0).kernel(), "null_event");
  EXPECT_EQ(ekt.entries(0).device(), "nic0");
  EXPECT_TRUE(ekt.entries(0).short_path());
  EXPECT_EQ(ekt.entries(0).counts().rung(), 10u);
  EXPECT_EQ(ekt.entries(0).counts().done(), 10u);
  v1::ListRingsResponse rings;
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::ListRings,
                                v1::ListRingsRequest(), &rings)
                  .ok());
  ASSERT_EQ(rings.rings_size(), 1);
  EXPECT_EQ(rings.rings(0).doorbell(), 10u);
  EXPECT_EQ(rings.rings(0).launched(), 10u);
  EXPECT_EQ(rings.rings(0).consumed(), 10u);
}

TEST(Events, RingsOfOneKernelAreToldApartByTheirLabels) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  for (const char* label : {"small", "large"}) {
    auto request = device.NullEvent();
    request.set_label(label);
    device.RingOf(request);
  }
  v1::ListRingsResponse rings;
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::ListRings,
                                v1::ListRingsRequest(), &rings)
                  .ok());
  ASSERT_EQ(rings.rings_size(), 2);
  EXPECT_EQ(rings.rings(0).kernel(), rings.rings(1).kernel());
  EXPECT_EQ(rings.rings(0).label(), "small");
  EXPECT_EQ(rings.rings(1).label(), "large");
}

TEST(Events, TheTableShowsWhichLaunchesTakeTheShortPath) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  device.RingOf(device.NullEvent());
  auto two_warps = device.NullEvent();
  two_warps.mutable_block()->set_x(33);
  device.RingOf(two_warps);
  // One warp too, but as long as its argument says.
  auto unbounded = device.NullEvent();
  unbounded.set_kernel("busy");
  unbounded.mutable_parameters(0)->set_name("iterations");
  device.RingOf(unbounded);
  const auto ekt = testbed.Ekt();
  ASSERT_EQ(ekt.entries_size(), 3);
  EXPECT_TRUE(ekt.entries(0).short_path());
  EXPECT_FALSE(ekt.entries(1).short_path());
  EXPECT_FALSE(ekt.entries(2).short_path());
}

TEST(Events, NoDeviceGetsAPriorityAboveTheOperators) {
  TestTestbed testbed({.max_priority = 3});
  AttachedDevice device(&testbed, "nic0");
  auto request = device.NullEvent();
  for (const uint32_t priority : {4u, 7u}) {
    request.set_priority(priority);
    v1::RegisterEventResponse response;
    const Outcome outcome = device.Register(request, &response);
    EXPECT_EQ(outcome.status.error_code(), StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(outcome.reason, reason::kBadPriority);
    EXPECT_EQ(outcome.status.error_message(),
              "device 'nic0' asks for priority " + std::to_string(priority) +
                  ", and gpud's operator allows 3 at most: ask for less, or "
                  "have gpud started with a higher --max-priority "
                  "(max_priority in a topology), or the device's share raised "
                  "(carillon policy --device)");
  }
  EXPECT_EQ(testbed.Ekt().entries_size(), 0);
  request.set_priority(3);
  device.RingOf(request);
  EXPECT_EQ(testbed.Ekt().entries(0).priority(), 3u);
}

// The device's doorbells fill two lines.
TEST(Events, EveryDoorbellOfALargeTableIsAnswered) {
  TestTestbed testbed({.ekt_entries = 64});
  AttachedDevice device(&testbed, "nic0");
  std::vector<shm::DeviceRing> rings;
  for (uint32_t i = 0; i < 64; ++i) {
    rings.push_back(device.RingOf(device.NullEvent()));
    EXPECT_EQ(rings.back().layout().doorbell.value(), i);
  }
  for (const uint32_t i : {40, 8, 63}) {
    rings[i].Commit();
    rings[i].RingDoorbell();
    const auto completion = AttachedDevice::Await(rings[i]);
    ASSERT_TRUE(completion.has_value()) << i;
    EXPECT_EQ(completion->state, EventState::kDone);
    EXPECT_EQ(completion->sequence.value(), 1u);
  }
  const auto ekt = EktWithDone(testbed, 3);
  ASSERT_EQ(ekt.entries_size(), 64);
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(ekt.entries(i).event_id(), i);
    EXPECT_EQ(ekt.entries(i).counts().done(), i == 40 || i == 8 || i == 63);
  }
}

TEST(Events, EverySlotSeesItsOwnPartOfABuffer) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  v1::AllocateBufferResponse in;
  v1::AllocateBufferResponse out;
  ASSERT_TRUE(device.AllocateBuffer(v1::INPUT, 4 * 64, &in).ok());
  ASSERT_TRUE(device.AllocateBuffer(v1::OUTPUT, 4 * 64, &out).ok());
  auto request = Request(device, "echo", 4);
  // In any order, and with the length left to the stride.
  *request.add_parameters() = Part("out", out.buffer_id(), 0, 0, 64);
  *request.add_parameters() = Part("in", in.buffer_id(), 0, 64, 64);
  shm::DeviceRing ring = device.RingOf(request);
  for (int i = 0; i < 8; ++i) {
    const uint32_t slot = ring.next_slot();
    const std::string text = "event " + std::to_string(i);
    std::memcpy(device.submission().At(in.offset() + slot * 64), text.c_str(),
                text.size() + 1);
    ring.Commit();
    ring.RingDoorbell();
    const auto completion = AttachedDevice::Await(ring);
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->state, EventState::kDone);
    EXPECT_EQ(text, reinterpret_cast<const char*>(
                        device.completion().At(out.offset() + slot * 64)));
  }
}

// What a registration may take: all of it must be back after a refusal.
struct ResourceUse {
  uint64_t memory = 0;
  uint32_t ekt = 0;
  size_t descriptors = 0;
  bool operator==(const ResourceUse&) const = default;
};

TEST(Events, ARefusedRegistrationLeavesNothingBehind) {
  TestTestbed testbed({.ekt_entries = 2, .memory_bytes = 1 << 20});
  AttachedDevice device(&testbed, "nic0");
  const uint32_t in = device.Buffer(v1::INPUT, 256);
  const uint32_t out = device.Buffer(v1::OUTPUT, 256);
  // Then no aperture can grow.
  device.Buffer(v1::GPU_MEMORY, (1 << 20) - testbed.Status().memory_used());
  const auto holdings = [&] {
    const auto status = testbed.Status();
    return ResourceUse{status.memory_used(), status.ekt_used(),
                       OpenDescriptors()};
  };
  const ResourceUse before = holdings();
  // The heaps are free to the last byte: nothing was taken between.
  const auto heaps_are_whole = [&] {
    constexpr uint64_t kRest = (64 << 10) - 256;
    for (const auto place : {v1::INPUT, v1::OUTPUT}) {
      v1::AllocateBufferResponse all;
      EXPECT_TRUE(device.AllocateBuffer(place, kRest, &all).ok());
      EXPECT_TRUE(device.FreeBuffer(all.buffer_id()).ok());
    }
  };
  const auto refuse = [&](const std::string& kernel,
                          const std::function<void(v1::RegisterEventRequest&)>&
                              edit,
                          StatusCode code, const std::string& why,
                          const std::string& sentence) {
    SCOPED_TRACE(sentence);
    auto request = Request(device, kernel, 4);
    edit(request);
    v1::RegisterEventResponse response;
    const Outcome outcome = device.Register(request, &response);
    EXPECT_EQ(outcome.status.error_code(), code);
    EXPECT_EQ(outcome.reason, why);
    EXPECT_NE(outcome.status.error_message().find(sentence), std::string::npos)
        << outcome.status.error_message();
    EXPECT_EQ(holdings(), before);
  };
  const auto token = [](auto& r) {
    *r.add_parameters() = WritableParameter("token");
  };
  constexpr auto kInvalid = StatusCode::INVALID_ARGUMENT;
  refuse("nul_event", token, StatusCode::NOT_FOUND, reason::kUnknownKernel,
         "did you mean 'null_event'");
  refuse(
      "null_event", [&](auto& r) { r.mutable_block()->set_x(2000); }, kInvalid,
      reason::kBadDimensions, "block.x is 2000");
  refuse(
      "null_event", [&](auto& r) { r.mutable_grid()->set_x(1); }, kInvalid,
      reason::kBadDimensions, "grid.y is 0");
  refuse(
      "null_event", [&](auto& r) { r.set_shared_bytes(1 << 30); }, kInvalid,
      reason::kBadDimensions, "shared memory");
  for (const uint32_t entries : {0u, 3u, 131072u}) {
    refuse(
        "null_event", [&](auto& r) { r.set_max_in_flight(entries); }, kInvalid,
        reason::kBadRingSize, "power of two");
  }
  refuse(
      "null_event", [&](auto& r) { r.set_priority(8); }, kInvalid,
      reason::kBadPriority, "priority 8");
  refuse(
      "null_event", [&](auto& r) { r.set_label("a\nb"); }, kInvalid,
      reason::kBadName, "label");
  refuse(
      "null_event", [](auto&) {}, kInvalid, reason::kBadBinding,
      "'token' of kernel 'null_event' is not bound");
  refuse(
      "null_event",
      [&](auto& r) { *r.add_parameters() = WritableParameter("tokn"); },
      kInvalid, reason::kBadBinding, "did you mean 'token'");
  refuse(
      "null_event",
      [&](auto& r) {
        token(r);
        token(r);
      },
      kInvalid, reason::kBadBinding, "bound twice");
  refuse(
      "echo",
      [&](auto& r) {
        *r.add_parameters() = Part("in", in);
        *r.add_parameters() = Part("out", 99);
      },
      StatusCode::NOT_FOUND, reason::kUnknownBuffer, "no buffer 99");
  refuse(
      "echo",
      [&](auto& r) {
        *r.add_parameters() = Part("in", in);
        *r.add_parameters() = Part("out", in);
      },
      kInvalid, reason::kBadBinding, "not an INPUT one");
  refuse(
      "echo",
      [&](auto& r) {
        *r.add_parameters() = Part("in", in);
        *r.add_parameters() = Part("out", out, 0, 64, 65);
      },
      kInvalid, reason::kBadBinding, "reaches beyond its buffer");
  refuse(
      "null_event",
      [&](auto& r) {
        token(r);
        r.set_max_in_flight(1024);
      },
      StatusCode::RESOURCE_EXHAUSTED, reason::kMemoryBudget,
      "the ESQ, for which the submission aperture of device 'nic0' would grow");
  heaps_are_whole();

  // The completion side alone is too small: the ESQ must be given back.
  const uint32_t most_of_it = device.Buffer(v1::OUTPUT, (64 << 10) - 512);
  refuse(
      "null_event",
      [&](auto& r) {
        token(r);
        r.set_max_in_flight(64);
      },
      StatusCode::RESOURCE_EXHAUSTED, reason::kMemoryBudget,
      "the ECQ, for which the completion aperture of device 'nic0' would grow");
  EXPECT_TRUE(device.FreeBuffer(most_of_it).ok());
  heaps_are_whole();
}

TEST(Events, AFullEktRefusesUntilAnEntryIsFree) {
  TestTestbed testbed({.ekt_entries = 2});
  AttachedDevice nic(&testbed, "nic0");
  AttachedDevice fpga(&testbed, "fpga0");
  v1::RegisterEventResponse first;
  v1::RegisterEventResponse second;
  v1::RegisterEventResponse third;
  ASSERT_TRUE(nic.Register(nic.NullEvent(), &first).ok());
  ASSERT_TRUE(fpga.Register(fpga.NullEvent(), &second).ok());
  const uint64_t memory = testbed.Status().memory_used();
  const Outcome full = nic.Register(nic.NullEvent(), &third);
  EXPECT_EQ(full.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(full.reason, reason::kEktFull);
  EXPECT_EQ(testbed.Status().memory_used(), memory);
  EXPECT_TRUE(fpga.Unregister(second.event_id(), 0).ok());
  EXPECT_TRUE(nic.Register(nic.NullEvent(), &third).ok());
  EXPECT_EQ(third.event_id(), 1u);
}

TEST(Events, TheLowestFreeDoorbellIsUsedAgainWithALaterGeneration) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  v1::RegisterEventResponse a;
  v1::RegisterEventResponse b;
  v1::RegisterEventResponse c;
  ASSERT_TRUE(device.Register(device.NullEvent(), &a).ok());
  ASSERT_TRUE(device.Register(device.NullEvent(), &b).ok());
  EXPECT_EQ(a.event_id(), 0u);
  EXPECT_EQ(b.event_id(), 1u);
  ASSERT_TRUE(device.Unregister(a.event_id(), 0).ok());
  ASSERT_TRUE(device.Register(device.NullEvent(), &c).ok());
  EXPECT_EQ(c.event_id(), 0u);
  EXPECT_GT(c.generation(), a.generation());
  const Outcome unknown = device.Unregister(7, 0);
  EXPECT_EQ(unknown.status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(unknown.reason, reason::kUnknownEvent);
}

TEST(Events, ARingThatIsUsedAgainStartsEmpty) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  for (int life = 0; life < 3; ++life) {
    shm::DeviceRing ring = device.RingOf(device.NullEvent(2));
    // A sequence that is there already would end an event of this life.
    const std::byte* ecq = device.completion().At(ring.layout().ecq_offset);
    EXPECT_EQ(std::count(ecq, ecq + ring.layout().ecq_bytes(), std::byte{0}),
              static_cast<ptrdiff_t>(ring.layout().ecq_bytes()));
    for (int i = 0; i < 3; ++i) {
      ring.Commit();
      ring.RingDoorbell();
      const auto completion = AttachedDevice::Await(ring);
      ASSERT_TRUE(completion.has_value());
      EXPECT_EQ(completion->state, EventState::kDone);
    }
    ASSERT_TRUE(device.Unregister(0, 0).ok());
  }
}

TEST(Events, BuffersInUseCannotBeFreed) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  const uint32_t in = device.Buffer(v1::INPUT, 64);
  const uint32_t out = device.Buffer(v1::GPU_MEMORY, 64);
  auto request = Request(device, "echo", 4);
  *request.add_parameters() = Part("in", in);
  *request.add_parameters() = Part("out", out);
  v1::RegisterEventResponse response;
  ASSERT_TRUE(device.Register(request, &response).ok());
  for (const uint32_t buffer : {in, out}) {
    const Outcome outcome = device.FreeBuffer(buffer);
    EXPECT_EQ(outcome.status.error_code(), StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(outcome.reason, reason::kBufferInUse);
  }
  ASSERT_TRUE(device.Unregister(response.event_id(), 0).ok());
  EXPECT_TRUE(device.FreeBuffer(in).ok());
  EXPECT_TRUE(device.FreeBuffer(out).ok());
  EXPECT_EQ(device.FreeBuffer(out).reason, reason::kUnknownBuffer);
}

TEST(Events, GpuMemoryCountsAgainstTheBudget) {
  TestTestbed testbed({.memory_bytes = 4 << 20});
  AttachedDevice device(&testbed, "nic0");
  const uint64_t before = testbed.Status().memory_used();
  const uint32_t buffer = device.Buffer(v1::GPU_MEMORY, 1 << 20);
  EXPECT_EQ(testbed.Status().memory_used(), before + (1 << 20));
  EXPECT_EQ(testbed.Devices().devices(0).gpu_memory_bytes(), 1u << 20);
  v1::AllocateBufferResponse response;
  const Outcome outcome =
      device.AllocateBuffer(v1::GPU_MEMORY, 4 << 20, &response);
  EXPECT_EQ(outcome.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(outcome.reason, reason::kMemoryBudget);
  EXPECT_TRUE(device.FreeBuffer(buffer).ok());
  EXPECT_EQ(testbed.Status().memory_used(), before);
}

// An event kernel that takes as long as its grid and its parameter say.
shm::DeviceRing BusyRing(AttachedDevice& device, uint32_t blocks) {
  auto request = Request(device, "busy", 4);
  request.mutable_grid()->set_x(blocks);
  request.mutable_grid()->set_y(1);
  request.mutable_grid()->set_z(1);
  request.mutable_block()->set_x(1);
  *request.add_parameters() = WritableParameter("iterations");
  return device.RingOf(request);
}

void RingWith(shm::DeviceRing& ring, uint64_t value) {
  std::memcpy(ring.parameters(), &value, sizeof(value));
  ring.Commit();
  ring.RingDoorbell();
}

TEST(Events, UnregisteringWaitsForWhatEndsInTime) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = BusyRing(device, 2);
  for (int i = 0; i < 3; ++i) RingWith(ring, 1000);
  uint64_t aborted = 77;
  ASSERT_TRUE(device.Unregister(0, 20'000, &aborted).ok());
  EXPECT_EQ(aborted, 0u);
  for (int i = 0; i < 3; ++i) {
    const auto completion = ring.Poll();
    ASSERT_TRUE(completion.has_value()) << i;
    EXPECT_EQ(completion->state, EventState::kDone);
    ring.Consume();
  }
}

TEST(Events, UnregisteringAbortsWhatDoesNotEndInTime) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = BusyRing(device, kManyBlocks);
  for (int i = 0; i < 3; ++i) RingWith(ring, kIterations);
  ASSERT_TRUE(
      Eventually([&] { return testbed.Status().events().rung() == 3; }));
  uint64_t aborted = 0;
  ASSERT_TRUE(device.Unregister(0, 1, &aborted).ok());
  EXPECT_EQ(aborted, 3u);
  for (int i = 0; i < 3; ++i) {
    const auto completion = ring.Poll();
    ASSERT_TRUE(completion.has_value()) << i;
    EXPECT_EQ(completion->state, EventState::kAborted);
    EXPECT_EQ(completion->status,
              static_cast<uint32_t>(EventStatus::kUnregistered));
    ring.Consume();
  }
  // The ledger balances after the entry is gone.
  const auto counts = testbed.Status().events();
  EXPECT_EQ(counts.rung(), 3u);
  EXPECT_EQ(counts.aborted(), 3u);
  EXPECT_EQ(testbed.Status().ekt_used(), 0u);
}

TEST(Events, MemoryThatARunningKernelUsesIsNotGivenToAnother) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  const uint64_t heap = 64 << 10;
  shm::DeviceRing ring = BusyRing(device, 2);
  RingWith(ring, 300'000'000);
  ASSERT_TRUE(Eventually(
      [&] { return testbed.Status().gpu().resident_blocks() != 0; }));
  ASSERT_TRUE(device.Unregister(0, 1).ok());
  const shm::RingLayout layout = ring.layout();
  v1::AllocateBufferResponse response;
  ASSERT_TRUE(device.AllocateBuffer(v1::OUTPUT, heap, &response).ok());
  // It ran during the call, then.
  if (testbed.Status().gpu().resident_blocks() != 0) {
    EXPECT_GE(response.offset(), layout.life_offset + layout.life_bytes());
  }
  // Afterwards the bytes are free: the whole of what it was given first.
  EXPECT_TRUE(Eventually([&] {
    v1::AllocateBufferResponse other;
    return device.AllocateBuffer(v1::OUTPUT, heap, &other).ok() &&
           other.offset() <= layout.ecq_offset;
  }));
}

TEST(Events, DetachingAbortsWhatIsInFlight) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = BusyRing(device, kManyBlocks);
  for (int i = 0; i < 2; ++i) RingWith(ring, kIterations);
  ASSERT_TRUE(
      Eventually([&] { return testbed.Status().events().rung() == 2; }));
  uint64_t aborted = 0;
  ASSERT_TRUE(device.Detach(&aborted).ok());
  EXPECT_EQ(aborted, 2u);
  const auto completion = ring.Poll();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->state, EventState::kAborted);
  EXPECT_EQ(completion->status,
            static_cast<uint32_t>(EventStatus::kDeviceGone));
}

TEST(Events, RungEventsThatWereNotLaunchedYetAreInTheLedgerToo) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = device.RingOf(device.NullEvent(64));
  for (int i = 0; i < 50; ++i) ring.Commit();
  ring.RingDoorbell();
  uint64_t aborted = 77;
  ASSERT_TRUE(device.Unregister(0, 20'000, &aborted).ok());
  EXPECT_EQ(aborted, 0u);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(ring.Poll().has_value()) << i;
    EXPECT_EQ(ring.Poll()->state, EventState::kDone);
    ring.Consume();
  }
}

TEST(Events, ScheduledEventsRunWithoutADoorbell) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = device.RingOf(device.NullEvent());
  ring.Commit();
  ring.Commit();
  v1::ScheduleEventRequest request;
  request.set_session(device.session());
  request.set_event_id(0);
  request.set_through(ring.last_committed().value());
  ring.TakeScheduled();
  v1::ScheduleEventResponse response;
  ASSERT_TRUE(TestTestbed::Call(testbed.events(),
                                &v1::Events::Stub::ScheduleEvent, request,
                                &response)
                  .ok());
  for (int i = 0; i < 2; ++i) {
    const auto completion = AttachedDevice::Await(ring);
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->state, EventState::kDone);
  }
  for (const uint64_t through : {uint64_t{7}, ~uint64_t{0}}) {
    request.set_through(through);
    const Outcome outcome = TestTestbed::Call(
        testbed.events(), &v1::Events::Stub::ScheduleEvent, request, &response);
    EXPECT_EQ(outcome.status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(outcome.reason, reason::kBadCount);
  }
  request.set_event_id(1);
  EXPECT_EQ(
      TestTestbed::Call(testbed.events(), &v1::Events::Stub::ScheduleEvent,
                        request, &response)
          .reason,
      reason::kUnknownEvent);
}

TEST(Events, TheBarrierIsReleasedForARegisteredEvent) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  v1::ReleaseBarrierRequest request;
  request.set_session(device.session());
  v1::ReleaseBarrierResponse response;
  EXPECT_EQ(
      TestTestbed::Call(testbed.events(), &v1::Events::Stub::ReleaseBarrier,
                        request, &response)
          .status.error_code(),
      StatusCode::NOT_FOUND);
  device.RingOf(device.NullEvent());
  EXPECT_EQ(
      TestTestbed::Call(testbed.events(), &v1::Events::Stub::ReleaseBarrier,
                        request, &response)
          .status.error_code(),
      StatusCode::OK);
}

TEST(Events, ADoorbellJumpEvictsItsDeviceAndNobodyElse) {
  TestTestbed testbed;
  AttachedDevice rogue(&testbed, "rogue");
  AttachedDevice nic(&testbed, "nic0");
  rogue.RingOf(rogue.NullEvent(4));
  shm::DeviceRing ring = nic.RingOf(nic.NullEvent(4));
  const auto context = Within();
  auto watch = testbed.admin().Watch(context.get(), v1::WatchRequest());
  v1::TelemetryEvent event;
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_TRUE(event.has_device_attached());
  EXPECT_TRUE(event.was_there());
  std::atomic_ref<uint32_t>(rogue.submission().doorbells()[0]).store(5000);
  // As a device does it after a ring: gpud may sleep.
  shm::BumpAndWake(&rogue.submission().submission_control().summary);
  while (!event.has_device_evicted() && watch->Read(&event)) {
  }
  EXPECT_EQ(event.device_evicted().device(), "rogue");
  EXPECT_FALSE(event.was_there());
  EXPECT_NE(event.device_evicted().reason().find("doorbell"),
            std::string::npos);
  context->TryCancel();
  EXPECT_TRUE(testbed.WaitUntilGone("rogue"));
  EXPECT_TRUE(Eventually(
      [&] { return rogue.close_reason() == shm::CloseReason::kEvicted; }));
  const Outcome late = rogue.Detach();
  EXPECT_EQ(late.reason, reason::kSessionEnded);
  EXPECT_NE(late.status.error_message().find("broke the protocol"),
            std::string::npos);
  ring.Commit();
  ring.RingDoorbell();
  EXPECT_TRUE(AttachedDevice::Await(ring).has_value());
}

TEST(Events, FailuresArePublishedWithTheirNumber) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  auto request = Request(device, "fail_if", 8);
  *request.add_parameters() = WritableParameter("code");
  shm::DeviceRing ring = device.RingOf(request);
  const auto context = Within();
  auto watch = testbed.admin().Watch(context.get(), v1::WatchRequest());
  constexpr uint64_t kEvents = 6;
  for (uint64_t i = 0; i < kEvents; ++i) RingWith(ring, 42);
  uint64_t failures = 0;
  v1::TelemetryEvent event;
  while (failures < kEvents && watch->Read(&event)) {
    if (event.has_event_failed()) failures += event.event_failed().count();
  }
  EXPECT_EQ(failures, kEvents);
  EXPECT_EQ(event.event_failed().device(), "nic0");
  EXPECT_EQ(event.event_failed().kernel(), "fail_if");
  EXPECT_EQ(event.event_failed().status(),
            static_cast<uint32_t>(EventStatus::kKernelStatusBase) + 42);
  EXPECT_EQ(event.event_failed().reason(), "the kernel failed with code 42");
  context->TryCancel();
  EXPECT_EQ(testbed.Status().events().failed(), kEvents);
}

TEST(Events, KernelsAreListedWithTheirParameters) {
  TestTestbed testbed;
  v1::ListKernelsResponse response;
  ASSERT_TRUE(TestTestbed::Call(testbed.events(),
                                &v1::Events::Stub::ListKernels,
                                v1::ListKernelsRequest(), &response)
                  .ok());
  const v1::Kernel* echo = nullptr;
  for (const auto& kernel : response.kernels()) {
    if (kernel.name() == "echo") echo = &kernel;
  }
  ASSERT_NE(echo, nullptr);
  EXPECT_FALSE(echo->summary().empty());
  ASSERT_EQ(echo->parameters_size(), 2);
  EXPECT_EQ(echo->parameters(0).name(), "in");
  EXPECT_EQ(echo->parameters(0).kind(), v1::READ_BUFFER);
  EXPECT_EQ(echo->parameters(1).kind(), v1::WRITE_BUFFER);
  EXPECT_EQ(echo->parameters(1).element_bytes(), 1u);
}

}  // namespace
}  // namespace carillon::gpud
