// The device SDK against a real gpud: everything that devices/sdk/edge.h
// promises while both are alive. peer_loss_test.cc covers the death of either.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "base/clock.h"
#include "base/headroom.h"
#include "devices/sdk/edge.h"
#include "devices/sdk/rpc_status.h"
#include "fmt/format.h"
#include "integration_tests/testbed_process.h"
#include "proto/devices.grpc.pb.h"

namespace carillon {
namespace {

using edge::BufferPart;
using edge::Constant;
using edge::Fixed;
using edge::Place;
using edge::Writable;
using edge::WritableBuffer;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kBound;
using testing::Testbed;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class SdkTest : public ::testing::Test {
 protected:
  void StartGpud(const std::vector<std::string>& flags = {}) {
    auto testbed = Testbed::Start(flags);
    ASSERT_TRUE(testbed.ok()) << Message(testbed.status());
    testbed_ = *std::move(testbed);
  }
  edge::AttachOptions Options(const std::string& name = "device0") const {
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = name;
    options.kind = "test";
    return options;
  }
  std::unique_ptr<edge::Device> Attach(const std::string& name = "device0") {
    auto device = edge::Device::Attach(Options(name));
    EXPECT_TRUE(device.ok()) << Message(device.status());
    return device.ok() ? *std::move(device) : nullptr;
  }
  edge::Buffer Allocate(edge::Device& device, Place place, uint64_t bytes) {
    auto buffer = device.AllocateBuffer(place, bytes);
    EXPECT_TRUE(buffer.ok()) << Message(buffer.status());
    return buffer.ok() ? *buffer : edge::Buffer{};
  }
  edge::EventQueue* Register(edge::Device& device,
                             const edge::EventSpec& spec) {
    auto queue = edge::edgeRegisterEvent(device, spec);
    EXPECT_TRUE(queue.ok()) << Message(queue.status());
    return queue.ok() ? *queue : nullptr;
  }
  static edge::EventSpec Null() {
    edge::EventSpec spec;
    spec.kernel = "null_event";
    spec.parameters = {Constant("token", 1)};
    return spec;
  }
  // Whether gpud has nothing left of any device.
  bool Empty() {
    const v1::GetStatusResponse status = testbed_->Status();
    return status.devices() == 0 && status.ekt_used() == 0 &&
           status.memory_used() == 0;
  }

  std::unique_ptr<Testbed> testbed_;
};

// An echo event whose message is chosen for every event.
class Echo {
 public:
  static constexpr uint64_t kMessage = 256;

  Echo(edge::Device& device, uint32_t ring, uint32_t threads)
      : in_(*device.AllocateBuffer(Place::kInput, ring * kMessage)),
        out_(*device.AllocateBuffer(Place::kOutput, ring * kMessage)) {
    edge::EventSpec spec;
    spec.kernel = "echo";
    spec.block = {threads, 1, 1};
    spec.max_in_flight = ring;
    spec.parameters = {WritableBuffer("in", in_),
                       Fixed("out", out_, {.slot_stride = kMessage})};
    queue = *edge::edgeRegisterEvent(device, spec);
    offset_ = *queue->ParameterOffset("in");
  }

  // Writes the message of the next event; its bytes depend on `number`.
  void Prepare(uint64_t number) {
    const std::string message = MessageOf(number);
    const uint64_t at = queue->next_slot() * kMessage;
    std::memcpy(in_.bytes.data() + at, message.data(), message.size());
    queue->Set<shm::BufferRef>(offset_,
                               {.offset = at, .length = message.size()});
  }
  bool Holds(shm::Sequence sequence, uint64_t number) const {
    const std::string message = MessageOf(number);
    return std::memcmp(out_.bytes.data() + queue->SlotOf(sequence) * kMessage,
                       message.data(), message.size()) == 0;
  }

  edge::EventQueue* queue;

 private:
  static std::string MessageOf(uint64_t number) {
    std::mt19937_64 random(number);
    std::string message(1 + random() % kMessage, '\0');
    for (char& byte : message) byte = static_cast<char>(random());
    return message;
  }

  const edge::Buffer in_;
  const edge::Buffer out_;
  uint32_t offset_ = 0;
};

TEST_F(SdkTest, EveryEchoComesBackOnceInOrderAndUnchanged) {
  StartGpud();
  auto device = Attach();
  // A warp takes the short path, more threads go through the KMU; rings wrap
  // many times.
  for (const auto& [ring, threads] : std::vector<std::pair<uint32_t, uint32_t>>{
           {1, 32}, {32, 32}, {2, 64}, {64, 128}}) {
    Echo echo(*device, ring, threads);
    constexpr uint64_t kEvents = 2000;
    uint64_t sent = 0;
    for (uint64_t taken = 0; taken < kEvents; ++taken) {
      while (sent < kEvents && echo.queue->free_slots() > 0) {
        echo.Prepare(sent++);
        echo.queue->RingDoorbell();
      }
      const auto done = echo.queue->Wait(kBound);
      ASSERT_TRUE(done.ok()) << Message(done.status());
      ASSERT_EQ(done->sequence.value(), taken + 1);
      ASSERT_EQ(done->state, edge::EventState::kDone) << done->status;
      ASSERT_TRUE(echo.Holds(done->sequence, taken));
      echo.queue->Free();
    }
    EXPECT_FALSE(echo.queue->Poll().has_value());
    EXPECT_TRUE(edge::edgeUnregisterEvent(*device, echo.queue).ok());
  }
  const v1::EventCounts events = testbed_->Status().events();
  EXPECT_EQ(events.rung(), 8000u);
  EXPECT_EQ(events.done(), 8000u);
}

TEST_F(SdkTest, DetachGivesEverythingBack) {
  StartGpud();
  EXPECT_TRUE(Empty());
  auto device = Attach();
  Allocate(*device, Place::kGpuMemory, 1 << 20);
  Echo echo(*device, 8, 32);
  EXPECT_TRUE(device->ReportReady("here").ok());
  const v1::ListDevicesResponse devices = testbed_->Devices();
  ASSERT_EQ(devices.devices_size(), 1);
  EXPECT_EQ(devices.devices(0).name(), "device0");
  EXPECT_EQ(devices.devices(0).device_id(), device->device_id());
  EXPECT_EQ(devices.devices(0).pid(), static_cast<uint32_t>(getpid()));
  EXPECT_EQ(devices.devices(0).state(), "ready");
  EXPECT_EQ(devices.devices(0).note(), "here");
  device.reset();
  EXPECT_TRUE(Eventually([&] { return Empty(); }));
}

TEST_F(SdkTest, AttachErrors) {
  StartGpud({"--memory", "67108864"});
  auto device = Attach();
  EXPECT_EQ(edge::Device::Attach(Options()).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(edge::Device::Attach(Options("No Such Name")).status().code(),
            absl::StatusCode::kInvalidArgument);
  edge::AttachOptions huge = Options("huge");
  huge.submission_bytes = 1 << 30;
  EXPECT_EQ(edge::Device::Attach(huge).status().code(),
            absl::StatusCode::kResourceExhausted);
  edge::AttachOptions counters = Options("counters");
  counters.counter_names.assign(65, "c");
  EXPECT_EQ(edge::Device::Attach(counters).status().code(),
            absl::StatusCode::kInvalidArgument);
  edge::AttachOptions nowhere = Options();
  nowhere.testbed_directory = testbed_->directory() + "/nowhere";
  EXPECT_EQ(edge::Device::Attach(nowhere).status().code(),
            absl::StatusCode::kUnavailable);
  edge::AttachOptions deep = Options();
  deep.testbed_directory = "/tmp/" + std::string(100, 'd');
  EXPECT_EQ(edge::Device::Attach(deep).status().code(),
            absl::StatusCode::kInvalidArgument);

  // Only raw gRPC can act as a device of another build.
  const auto stub = v1::Devices::NewStub(testbed_->channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(10));
  v1::AttachRequest request;
  request.set_name("other");
  request.set_kind("test");
  request.set_layout_version(shm::kLayoutVersion + 1);
  v1::AttachResponse response;
  EXPECT_EQ(stub->Attach(&context, request, &response).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);

  // None of them left anything.
  EXPECT_EQ(testbed_->Status().devices(), 1u);
}

TEST_F(SdkTest, BufferErrors) {
  StartGpud();
  auto device = Attach();
  const absl::Status full =
      device->AllocateBuffer(Place::kInput, uint64_t{1} << 29).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      Message(full),
      AllOf(HasSubstr("needs 536870912 bytes in the submission aperture "
                      "of device 'device0', which has 1114112 bytes "
                      "and may grow by 267386880"),
            HasSubstr("attach with a larger submission_bytes")));
  EXPECT_EQ(device->AllocateBuffer(Place::kOutput, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device->FreeBuffer({.id = 999, .place = Place::kInput, .bytes = {}})
                .code(),
            absl::StatusCode::kNotFound);
  const edge::Buffer in = Allocate(*device, Place::kInput, 64);
  const edge::Buffer out = Allocate(*device, Place::kOutput, 64);
  edge::EventSpec spec;
  spec.kernel = "echo";
  spec.parameters = {Fixed("in", in), Fixed("out", out)};
  edge::EventQueue* queue = Register(*device, spec);
  EXPECT_EQ(device->FreeBuffer(in).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(edge::edgeUnregisterEvent(*device, queue).ok());
  EXPECT_TRUE(device->FreeBuffer(in).ok());
  EXPECT_EQ(device->FreeBuffer(in).code(), absl::StatusCode::kNotFound);
}

struct BadSpec {
  const char* what;
  absl::StatusCode code;
  const char* says;
  std::function<void(edge::EventSpec&)> change;
};

TEST_F(SdkTest, RegistrationFailsWholeWithOneClearError) {
  StartGpud({"--memory", "4194304"});
  auto device = Attach();
  const edge::Buffer in = Allocate(*device, Place::kInput, 128);
  const edge::Buffer out = Allocate(*device, Place::kOutput, 128);
  edge::EventSpec good;
  good.kernel = "echo";
  good.parameters = {Fixed("in", in), Fixed("out", out)};
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  const std::vector<BadSpec> bad = {
      {"kernel", kNotFound, "'echo'", [](auto& s) { s.kernel = "ecko"; }},
      {"grid 0", kInvalid, "grid", [](auto& s) { s.grid.y = 0; }},
      {"grid", kInvalid, "65536", [](auto& s) { s.grid.z = 65536; }},
      {"block", kInvalid, "block",
       [](auto& s) {
         s.block = {1025, 1, 1};
       }},
      {"shared", kInvalid, "shared", [](auto& s) { s.shared_bytes = 1 << 20; }},
      {"ring 0", kInvalid, "power of two",
       [](auto& s) { s.max_in_flight = 0; }},
      {"ring 3", kInvalid, "power of two",
       [](auto& s) { s.max_in_flight = 3; }},
      {"ring", kInvalid, "65536", [](auto& s) { s.max_in_flight = 131072; }},
      {"priority", kInvalid, "7", [](auto& s) { s.priority = 8; }},
      {"unknown parameter", kInvalid, "'inn'",
       [](auto& s) { s.parameters[0].name = "inn"; }},
      {"missing parameter", kInvalid, "out",
       [](auto& s) { s.parameters.pop_back(); }},
      {"twice", kInvalid, "bound twice",
       [](auto& s) { s.parameters[1].name = "in"; }},
      {"value for buffer", kNotFound, "needs a buffer",
       [](auto& s) { s.parameters[0] = Constant("in", 1); }},
      {"buffer", kNotFound, "77",
       [](auto& s) { s.parameters[0].buffer_id = 77; }},
      {"input written", kInvalid, "out",
       [&](auto& s) { s.parameters[1] = Fixed("out", in); }},
      {"offset", kInvalid, "128",
       [](auto& s) { s.parameters[0].offset = 128; }},
      {"stride", kInvalid, "slots",
       [](auto& s) { s.parameters[0].slot_stride = 64; }},
      {"no room", absl::StatusCode::kResourceExhausted, "would grow",
       [](auto& s) { s.max_in_flight = 65536; }}};
  const std::string rings = testbed_->Rings().ShortDebugString();
  const uint64_t memory = testbed_->Status().memory_used();
  for (const BadSpec& each : bad) {
    edge::EventSpec spec = good;
    each.change(spec);
    const absl::Status status = edge::edgeRegisterEvent(*device, spec).status();
    EXPECT_EQ(status.code(), each.code) << each.what << ": " << Message(status);
    EXPECT_THAT(Message(status), HasSubstr(each.says)) << each.what;
    EXPECT_EQ(testbed_->Rings().ShortDebugString(), rings) << each.what;
  }
  // Nothing is left behind: the whole heap can still be taken, and the valid
  // event registered.
  const uint64_t rest = Options().submission_bytes - 128;
  const edge::Buffer all = Allocate(*device, Place::kInput, rest);
  EXPECT_EQ(all.bytes.size(), rest);
  EXPECT_EQ(testbed_->Status().memory_used(), memory);
  EXPECT_TRUE(device->FreeBuffer(all).ok());
  EXPECT_NE(Register(*device, good), nullptr);
}

TEST_F(SdkTest, AThousandEventKernelsFitIntoAperturesThatGrow) {
  StartGpud({"--ekt-entries", "1000"});
  auto device = Attach();
  const uint64_t before = testbed_->Status().memory_used();
  edge::EventSpec spec = Null();
  spec.max_in_flight = 64;
  std::vector<edge::EventQueue*> queues;
  for (int i = 0; i < 1000; ++i) {
    queues.push_back(Register(*device, spec));
    ASSERT_NE(queues.back(), nullptr) << i;
  }
  // Their rings, and what was there for them from the beginning.
  constexpr uint64_t kRings = 1000 * 64 * (64 + 16 + 64);
  const v1::GetStatusResponse grown = testbed_->Status();
  EXPECT_GT(grown.memory_used() - before, kRings - 2 * (1 << 20));
  EXPECT_LT(grown.memory_used() - before, kRings + 2 * (1 << 20));
  for (edge::EventQueue* queue : queues) queue->RingDoorbell();
  for (edge::EventQueue* queue : queues) {
    const auto done = queue->Wait(kBound);
    ASSERT_TRUE(done.ok()) << Message(done.status());
    EXPECT_EQ(done->state, edge::EventState::kDone);
    queue->Free();
  }
  // What they grew to is used again.
  for (int i = 0; i < 1000; i += 100) {
    ASSERT_TRUE(edge::edgeUnregisterEvent(*device, queues[i]).ok());
    ASSERT_NE(Register(*device, spec), nullptr);
  }
  EXPECT_EQ(testbed_->Status().memory_used(), grown.memory_used());
  device.reset();
  EXPECT_TRUE(Eventually([&] { return Empty(); }));
}

TEST_F(SdkTest, AsManyDevicesAsOneFutexWaitCanWatchAreServed) {
  constexpr int kDevices = 127;
  RaiseDescriptorLimit();
  StartGpud({"--ekt-entries", "128", "--devices-per-process", "127"});
  std::vector<std::unique_ptr<edge::Device>> devices;
  std::vector<edge::EventQueue*> queues;
  for (int i = 0; i < kDevices; ++i) {
    devices.push_back(Attach(fmt::format("device{}", i)));
    ASSERT_NE(devices.back(), nullptr) << i;
    queues.push_back(Register(*devices.back(), Null()));
    ASSERT_NE(queues.back(), nullptr) << i;
  }
  const absl::Status full = edge::Device::Attach(Options("one-more")).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(full), HasSubstr("127 devices are attached: that is the "
                                       "limit of a testbed"));
  // Each alone, so that gpud sleeps on all of them in between.
  for (int round = 0; round < 3; ++round) {
    for (edge::EventQueue* queue : queues) {
      queue->RingDoorbell();
      const auto done = queue->Wait(kBound);
      ASSERT_TRUE(done.ok()) << Message(done.status());
      EXPECT_EQ(done->state, edge::EventState::kDone);
      queue->Free();
    }
  }
  devices.clear();
  EXPECT_TRUE(Eventually([&] { return Empty(); }));
}

TEST_F(SdkTest, AProcessHasNoMoreDevicesThanTheOperatorLetsItHave) {
  StartGpud({"--devices-per-process", "2"});
  auto first = Attach("device0");
  auto second = Attach("device1");
  const absl::Status full = edge::Device::Attach(Options("device2")).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(full),
              AllOf(HasSubstr("has 2 devices: that is the limit of a process"),
                    HasSubstr("--devices-per-process (at most 127)")));
  second.reset();
  EXPECT_NE(Attach("device2"), nullptr);
}

TEST_F(SdkTest, AFullEventKernelTableIsSaidAndFreedByUnregistering) {
  StartGpud({"--ekt-entries", "2"});
  auto device = Attach();
  auto other = Attach("device1");
  edge::EventQueue* first = Register(*device, Null());
  Register(*other, Null());
  const absl::Status full = edge::edgeRegisterEvent(*device, Null()).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(edge::ErrorReason(full), "EKT_FULL");
  EXPECT_TRUE(edge::edgeUnregisterEvent(*device, first).ok());
  edge::EventQueue* again = Register(*device, Null());
  ASSERT_NE(again, nullptr);
  // A doorbell that was used before continues from its last value.
  for (int i = 0; i < 3; ++i) {
    again->RingDoorbell();
    ASSERT_TRUE(again->Wait(kBound).ok());
    again->Free();
  }
}

TEST_F(SdkTest, FailedEventsSayWhy) {
  StartGpud();
  auto device = Attach();
  edge::EventSpec spec;
  spec.kernel = "fail_if";
  spec.parameters = {Writable("code")};
  edge::EventQueue* queue = Register(*device, spec);
  const uint32_t code = *queue->ParameterOffset("code");
  for (const uint32_t wanted : {0u, 5u, 0u, 123456u}) {
    queue->Set<uint32_t>(code, wanted);
    queue->RingDoorbell();
    const auto done = queue->Wait(kBound);
    ASSERT_TRUE(done.ok()) << Message(done.status());
    EXPECT_EQ(done->state, wanted == 0 ? edge::EventState::kDone
                                       : edge::EventState::kFailed);
    EXPECT_EQ(done->status, wanted == 0 ? 0 : 1000 + wanted);
    queue->Free();
  }
}

TEST_F(SdkTest, ABufferReferenceOutsideOfItsBufferFailsOnlyThatEvent) {
  StartGpud();
  auto device = Attach();
  Echo echo(*device, 4, 32);
  const uint32_t in = *echo.queue->ParameterOffset("in");
  echo.Prepare(1);
  echo.queue->Set<shm::BufferRef>(
      in, {.offset = 4 * Echo::kMessage - 8, .length = 9});
  echo.queue->RingDoorbell();
  echo.Prepare(2);
  echo.queue->RingDoorbell();
  auto done = echo.queue->Wait(kBound);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->state, edge::EventState::kFailed);
  EXPECT_EQ(done->status,
            static_cast<uint32_t>(edge::EventStatus::kBadBufferRef));
  echo.queue->Free();
  done = echo.queue->Wait(kBound);
  ASSERT_TRUE(done.ok());
  EXPECT_TRUE(echo.Holds(done->sequence, 2));
}

TEST_F(SdkTest, ScheduledAndRungEventsShareTheRing) {
  StartGpud();
  auto device = Attach();
  Echo echo(*device, 8, 32);
  uint64_t sent = 0;
  uint64_t taken = 0;
  for (int round = 0; round < 20; ++round) {
    // Alternates between the control plane and the doorbell, with one to three
    // events each.
    for (int i = 0; i <= round % 3; ++i) {
      echo.Prepare(sent++);
      echo.queue->Commit();
    }
    if (round % 2 == 0) {
      const absl::Status status = edge::edgeScheduleEvent(*device, echo.queue);
      ASSERT_TRUE(status.ok()) << Message(status);
    } else {
      echo.queue->RingCommitted();
    }
    while (taken < sent) {
      const auto done = echo.queue->Wait(kBound);
      ASSERT_TRUE(done.ok()) << Message(done.status());
      ASSERT_EQ(done->state, edge::EventState::kDone);
      ASSERT_TRUE(echo.Holds(done->sequence, taken++));
      echo.queue->Free();
    }
  }
  EXPECT_EQ(edge::edgeScheduleEvent(*device, echo.queue).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(SdkTest, AModifyableEventOverridesItsKmdForOneLaunch) {
  StartGpud();
  auto device = Attach();
  constexpr uint32_t kElements = 256;
  const edge::Buffer a = Allocate(*device, Place::kInput, 4 * kElements);
  const edge::Buffer c = Allocate(*device, Place::kOutput, 4 * kElements);
  auto* numbers = reinterpret_cast<float*>(a.bytes.data());
  std::iota(numbers, numbers + kElements, 1.0f);
  edge::EventSpec spec;
  spec.kernel = "vector_add";
  spec.grid = {1, 1, 1};
  spec.block = {64, 1, 1};
  spec.modifyable = true;
  spec.parameters = {Fixed("a", a), Fixed("b", a), WritableBuffer("c", c)};
  edge::EventQueue* queue = Register(*device, spec);
  const uint32_t target = *queue->ParameterOffset("c");
  const auto launch = [&](uint32_t elements, const edge::KmdOverride* kmd) {
    queue->Set<shm::BufferRef>(target, {.offset = 0, .length = 4 * elements});
    queue->RingDoorbell(kmd);
    const auto done = queue->Wait(kBound);
    EXPECT_TRUE(done.ok()) << Message(done.status());
    queue->Free();
    return done.ok() ? *done : edge::Completion{};
  };
  const edge::KmdOverride wide{
      .grid = {4, 1, 1}, .block = {64, 1, 1}, .shared_bytes = 0, .reserved = 0};
  const edge::KmdOverride none{
      .grid = {0, 1, 1}, .block = {64, 1, 1}, .shared_bytes = 0, .reserved = 0};

  EXPECT_EQ(launch(64, nullptr).state, edge::EventState::kDone);
  EXPECT_EQ(launch(kElements, nullptr).state, edge::EventState::kFailed);
  EXPECT_EQ(launch(kElements, &wide).state, edge::EventState::kDone);
  const auto* sums = reinterpret_cast<const float*>(c.bytes.data());
  for (uint32_t i = 0; i < kElements; ++i) EXPECT_EQ(sums[i], 2.0f * (i + 1));
  // The override was for one launch only.
  EXPECT_EQ(launch(kElements, nullptr).state, edge::EventState::kFailed);
  EXPECT_EQ(launch(64, &none).status,
            static_cast<uint32_t>(edge::EventStatus::kBadKmd));
  EXPECT_EQ(launch(64, nullptr).state, edge::EventState::kDone);

  spec.modifyable = false;
  queue = Register(*device, spec);
  EXPECT_EQ(launch(kElements, &wide).status,
            static_cast<uint32_t>(edge::EventStatus::kBadFlags));
}

TEST_F(SdkTest, TheHigherPriorityIsDispatchedFirst) {
  // One thread block at a time.
  StartGpud({"--workers", "1", "--sms", "1", "--blocks-per-sm", "1", "--policy",
             "priority", "--trace"});
  auto device = Attach();
  edge::EventSpec spec;
  spec.kernel = "busy";
  spec.block = {64, 1, 1};  // more than a warp: through the KMU
  spec.parameters = {Writable("iterations")};
  std::array<edge::EventQueue*, 3> queues;
  for (const uint32_t priority : {0u, 1u, 2u}) {
    spec.priority = priority;
    queues[priority] = Register(*device, spec);
  }
  const auto ring = [&](uint32_t priority, uint64_t iterations) {
    queues[priority]->Set<uint64_t>(
        *queues[priority]->ParameterOffset("iterations"), iterations);
    queues[priority]->RingDoorbell();
  };
  const auto take = [&](uint32_t priority) {
    const auto done = queues[priority]->Wait(kBound);
    EXPECT_TRUE(done.ok()) << Message(done.status());
    const edge::EventLife life = queues[priority]->life();
    queues[priority]->Free();
    return life;
  };
  // A first event of the lowest priority holds the SM until all others wait.
  // How long that takes depends on the machine, so a trial in which it ended
  // too early does not count.
  for (uint64_t iterations = 200'000;; iterations *= 4) {
    ASSERT_LT(iterations, uint64_t{1} << 36)
        << "the first event never lasted long enough";
    ring(0, iterations);
    // Only when it runs: earlier, the others would be served before it.
    ASSERT_TRUE(Eventually([&] {
      return testbed_->Status().gpu().resident_blocks() > 0 ||
             queues[0]->Poll();
    }));
    ring(1, 1);
    ring(1, 1);
    ring(2, 1);
    const edge::EventLife first = take(0);
    const edge::EventLife middle = take(1);
    const edge::EventLife last = take(1);
    const edge::EventLife highest = take(2);
    const Nanoseconds all_queued =
        std::max({middle.queued_ns, last.queued_ns, highest.queued_ns});
    if (all_queued + 1'000'000 > first.finished_ns) continue;
    EXPECT_LT(highest.dispatched_ns, middle.dispatched_ns);
    EXPECT_LT(middle.dispatched_ns, last.dispatched_ns);
    return;
  }
}

TEST_F(SdkTest, TheLifeOfAnEventIsInOrderWhenTraced) {
  StartGpud({"--trace"});
  auto device = Attach();
  for (const uint32_t threads : {32u, 64u}) {
    Echo echo(*device, 4, threads);
    EXPECT_TRUE(echo.queue->tracing());
    const Nanoseconds before = NowNs();
    echo.Prepare(1);
    echo.queue->RingDoorbell();
    ASSERT_TRUE(echo.queue->Wait(kBound).ok());
    const edge::EventLife life = echo.queue->life();
    EXPECT_LE(before, life.rung_ns);
    EXPECT_LE(life.rung_ns, life.seen_ns);
    EXPECT_LE(life.seen_ns, life.queued_ns);
    EXPECT_LE(life.queued_ns, life.dispatched_ns);
    EXPECT_LE(life.dispatched_ns, life.finished_ns);
    EXPECT_LE(life.finished_ns, NowNs());
  }
}

TEST_F(SdkTest, BackgroundKernelsReturnTheirResultsTimesAndFailures) {
  StartGpud();
  auto device = Attach();
  constexpr uint32_t kElements = 1000;
  const edge::Buffer a = Allocate(*device, Place::kInput, 4 * kElements);
  const edge::Buffer twice =
      Allocate(*device, Place::kGpuMemory, 4 * kElements);
  const edge::Buffer out = Allocate(*device, Place::kOutput, 4 * kElements);
  auto* numbers = reinterpret_cast<float*>(a.bytes.data());
  std::iota(numbers, numbers + kElements, 1.0f);
  // twice = a + a in GPU memory, out = twice + a.
  edge::Device::LaunchSpec spec;
  spec.kernel = "vector_add";
  spec.grid = {8, 1, 1};
  spec.block = {128, 1, 1};
  spec.parameters = {Fixed("a", a), Fixed("b", a), Fixed("c", twice)};
  auto times = device->LaunchKernel(spec);
  ASSERT_TRUE(times.ok()) << Message(times.status());
  EXPECT_LE(times->dispatched_ns, times->finished_ns);
  EXPECT_GT(times->finished_ns, 0u);
  spec.parameters = {Fixed("a", twice), Fixed("b", a), Fixed("c", out)};
  ASSERT_TRUE(device->LaunchKernel(spec).ok());
  const auto* sums = reinterpret_cast<const float*>(out.bytes.data());
  for (uint32_t i = 0; i < kElements; ++i) ASSERT_EQ(sums[i], 3.0f * (i + 1));

  spec = {};
  spec.kernel = "fail_if";
  spec.parameters = {Constant("code", 42)};
  const absl::Status failed = device->LaunchKernel(spec).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(failed), HasSubstr("42"));
  spec.kernel = "matmul2";
  EXPECT_EQ(device->LaunchKernel(spec).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SdkTest, ALaunchThatTakesTooLongIsGivenUpAndTheGpuIsFreeAgain) {
  StartGpud();
  auto device = Attach();
  edge::Device::LaunchSpec spec;
  spec.kernel = "busy";
  spec.grid = {1024, 1, 1};  // what has not begun is cancelled
  spec.parameters = {Constant("iterations", 20'000'000)};
  spec.timeout = milliseconds(50);
  EXPECT_EQ(device->LaunchKernel(spec).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  spec.grid = {1, 1, 1};
  spec.parameters = {Constant("iterations", 1)};
  spec.timeout = kBound;
  const auto times = device->LaunchKernel(spec);
  EXPECT_TRUE(times.ok()) << Message(times.status());
}

TEST_F(SdkTest, KernelsAreListedWithWhatTheyDo) {
  StartGpud();
  auto device = Attach();
  const auto kernels = device->ListKernels();
  ASSERT_TRUE(kernels.ok()) << Message(kernels.status());
  std::set<std::string> names;
  for (const auto& kernel : *kernels) {
    EXPECT_FALSE(kernel.summary.empty()) << kernel.name;
    names.insert(kernel.name);
  }
  for (const char* name :
       {"echo", "dct8x8", "conv5x5", "matmul", "bfs_level", "memc_get"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST_F(SdkTest, TwoDevicesSeeOnlyTheirOwn) {
  StartGpud();
  auto device = Attach();
  auto other = Attach("device1");
  const edge::Buffer secret = Allocate(*device, Place::kInput, 64);
  const edge::Buffer out = Allocate(*other, Place::kOutput, 64);
  // A device's buffers have the device's own numbers.
  edge::EventSpec spec;
  spec.kernel = "echo";
  spec.parameters = {
      Fixed("in", {.id = secret.id + 100, .place = Place::kInput, .bytes = {}}),
      Fixed("out", out)};
  EXPECT_EQ(edge::edgeRegisterEvent(*other, spec).status().code(),
            absl::StatusCode::kNotFound);
  edge::EventQueue* queue = Register(*device, Null());
  EXPECT_EQ(edge::edgeUnregisterEvent(*other, queue).code(),
            absl::StatusCode::kInvalidArgument);
  queue->RingDoorbell();
  EXPECT_TRUE(queue->Wait(kBound).ok());
}

TEST_F(SdkTest, TelemetryIsShownByGpud) {
  StartGpud();
  edge::AttachOptions options = Options();
  options.counter_names = {"apples", "pears"};
  options.histogram_names = {"weight"};
  auto device = edge::Device::Attach(options);
  ASSERT_TRUE(device.ok()) << Message(device.status());
  (*device)->SetCounter(0, 5);
  (*device)->AddToCounter(1, 7);
  (*device)->histogram(0).Add(1000);
  EXPECT_EQ(testbed_->Counter("device0", "apples"), 5u);
  EXPECT_EQ(testbed_->Counter("device0", "pears"), 7u);
  const v1::ListDevicesResponse devices = testbed_->Devices();
  ASSERT_EQ(devices.devices_size(), 1);
  ASSERT_EQ(devices.devices(0).histograms_size(), 1);
  EXPECT_EQ(devices.devices(0).histograms(0).name(), "weight");
  EXPECT_EQ(devices.devices(0).histograms(0).bucket(0),
            shm::HistogramBucket(1000));
}

}  // namespace
}  // namespace carillon
