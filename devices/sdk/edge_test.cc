#include "devices/sdk/edge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/testbed_paths.h"
#include "devices/sdk/fake_gpud.h"
#include "devices/sdk/rpc_status.h"
#include "proto/common.pb.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::edge {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class EdgeTest : public ::testing::Test {
 protected:
  EdgeTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "edge test 100%-XXXXXX");
    directory_ = mkdtemp(pattern.data());
    gpud_ = std::make_unique<FakeGpud>(directory_);
  }
  ~EdgeTest() override {
    device_.reset();
    gpud_.reset();
    std::filesystem::remove_all(directory_);
  }

  AttachOptions Options() const {
    AttachOptions options;
    options.testbed_directory = directory_;
    options.name = "nic0";
    options.kind = "nic";
    return options;
  }
  Device& Attach() {
    auto device = Device::Attach(Options());
    EXPECT_TRUE(device.ok()) << Message(device.status());
    device_ = *std::move(device);
    return *device_;
  }
  EventQueue& Register(Device& device, const EventSpec& spec) {
    auto queue = edgeRegisterEvent(device, spec);
    EXPECT_TRUE(queue.ok()) << Message(queue.status());
    return **queue;
  }
  static EventSpec Echo() {
    EventSpec spec;
    spec.kernel = "echo";
    spec.max_in_flight = 4;
    spec.parameters = {Writable("token"), Writable("bytes")};
    return spec;
  }
  void Refuse(grpc::StatusCode code, const std::string& message,
              const std::string& trailer) {
    gpud_->Behave({.refusal = {code, message, trailer}});
  }

  std::string directory_;  // with characters that a URI would trip over
  std::unique_ptr<FakeGpud> gpud_;
  std::unique_ptr<Device> device_;
};

TEST_F(EdgeTest, AttachSaysWhoTheDeviceIsAndTakesItsIdentityFromGpud) {
  AttachOptions options = Options();
  options.submission_bytes = 12345;
  options.completion_bytes = 54321;
  options.counter_names = {"frames"};
  options.histogram_names = {"latency"};
  auto device = Device::Attach(options);
  ASSERT_TRUE(device.ok()) << Message(device.status());
  EXPECT_EQ((*device)->name(), "nic0");
  EXPECT_EQ((*device)->device_id(), 7u);
  EXPECT_EQ((*device)->generation().value(), 3u);
  EXPECT_TRUE((*device)->status().ok());
  const v1::AttachRequest request = gpud_->seen().attach;
  EXPECT_EQ(request.kind(), "nic");
  EXPECT_EQ(request.submission_bytes(), 12345u);
  EXPECT_EQ(request.completion_bytes(), 54321u);
  EXPECT_EQ(request.counter_names(0), "frames");
  EXPECT_EQ(request.histogram_names(0), "latency");
  EXPECT_EQ(request.layout_version(), shm::kLayoutVersion);
}

TEST_F(EdgeTest, TheTestbedIsFoundThroughTheEnvironment) {
  AttachOptions options = Options();
  options.testbed_directory.clear();
  unsetenv(kTestbedDirectoryVariable);
  EXPECT_EQ(Device::Attach(options).status().code(),
            absl::StatusCode::kInvalidArgument);
  setenv(kTestbedDirectoryVariable, directory_.c_str(), 1);
  EXPECT_TRUE(Device::Attach(options).ok());
  unsetenv(kTestbedDirectoryVariable);
}

TEST_F(EdgeTest, TheNameIsFoundThroughTheEnvironmentUnlessItIsGiven) {
  setenv(kDeviceNameVariable, "camera3", 1);
  AttachOptions options = Options();
  {
    const auto given = Device::Attach(options);
    ASSERT_TRUE(given.ok()) << Message(given.status());
    EXPECT_EQ(gpud_->seen().attach.name(), "nic0");
  }
  options.name.clear();
  const auto found = Device::Attach(options);
  unsetenv(kDeviceNameVariable);
  ASSERT_TRUE(found.ok()) << Message(found.status());
  EXPECT_EQ(gpud_->seen().attach.name(), "camera3");
  EXPECT_EQ((*found)->name(), "camera3");
}

TEST_F(EdgeTest, WithoutGpudAttachFailsAtOnceAndSucceedsAsSoonAsItIsThere) {
  gpud_.reset();
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directory(directory_);
  const absl::Status status = Device::Attach(Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr(directory_), HasSubstr("is the testbed up?")));
  gpud_ = std::make_unique<FakeGpud>(directory_);
  const auto again = Device::Attach(Options());
  EXPECT_TRUE(again.ok()) << Message(again.status());
}

TEST(RpcStatus, SaysInPlainWordsWhatGrpcSaysOfAConnection) {
  const auto said = [](grpc::StatusCode code, const std::string& text) {
    const grpc::ClientContext context;
    return Message(ToStatus(grpc::Status(code, text), context,
                            {"Attach", "/t/control.sock", seconds(5)}));
  };
  const std::string failed =
      "failed to connect to all addresses; last error: UNKNOWN: "
      "unix:/t/control.sock: ";
  EXPECT_EQ(said(grpc::StatusCode::UNAVAILABLE, failed + "Connection refused"),
            "cannot reach gpud at /t/control.sock: Connection refused; is the "
            "testbed up? (carillon ps)");
  const std::string remedy =
      ": it is stopped or overloaded; carillon ps shows which, and kill -CONT "
      "PID has a stopped one go on";
  EXPECT_EQ(said(grpc::StatusCode::UNAVAILABLE,
                 failed + "connection attempt timed out before receiving "
                          "SETTINGS frame"),
            "gpud at /t/control.sock did not answer Attach" + remedy);
  EXPECT_EQ(
      said(grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"),
      "gpud at /t/control.sock did not answer Attach within 5000 ms" + remedy);
}

TEST_F(EdgeTest, ARefusedTicketReleasesTheNameAgain) {
  gpud_->Behave({.change_attach = [](v1::AttachResponse* answer) {
    answer->set_ticket("x is a bad one..");
  }});
  const absl::Status status = Device::Attach(Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(gpud_->seen().calls, Contains("Detach session of nic0"));
}

TEST_F(EdgeTest, AnAttachAnswerThatContradictsTheHandOverIsRefused) {
  for (const auto& change :
       std::vector<std::function<void(v1::AttachResponse*)>>{
           [](v1::AttachResponse* answer) { answer->set_device_id(8); },
           [](v1::AttachResponse* answer) { answer->set_generation(4); },
           [](v1::AttachResponse* answer) { answer->set_ticket("short"); }}) {
    gpud_->Behave({.change_attach = change});
    EXPECT_EQ(Device::Attach(Options()).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(EdgeTest, TheDestructorDetaches) {
  Attach();
  EXPECT_THAT(gpud_->seen().calls, Not(Contains("Detach session of nic0")));
  device_.reset();
  EXPECT_THAT(gpud_->seen().calls, Contains("Detach session of nic0"));
}

TEST_F(EdgeTest, DetachEndsTheSessionOnceAndLeavesTheMemory) {
  Device& device = Attach();
  const auto buffer = device.AllocateBuffer(Place::kInput, 64);
  ASSERT_TRUE(buffer.ok()) << Message(buffer.status());
  buffer->bytes[63] = std::byte{7};
  device.Detach();
  EXPECT_THAT(gpud_->seen().calls, Contains("Detach session of nic0").Times(1));
  EXPECT_EQ(buffer->bytes[63], std::byte{7});
  device.Detach();
  device_.reset();
  EXPECT_THAT(gpud_->seen().calls, Contains("Detach session of nic0").Times(1));
}

TEST_F(EdgeTest, ADeviceOfALostLinkSaysSoOnce) {
  Attach().DetachAsLinkLost();
  device_.reset();
  EXPECT_THAT(gpud_->seen().calls,
              Contains("Detach session of nic0, its link is lost").Times(1));
  EXPECT_THAT(gpud_->seen().calls, Not(Contains("Detach session of nic0")));
}

TEST_F(EdgeTest, ErrorsKeepTheirCodeAndSayTheHintAndTheReason) {
  Device& device = Attach();
  v1::ErrorDetail detail;
  detail.set_reason("EKT_FULL");
  detail.set_hint("unregister one; or start gpud with more --ekt");
  Refuse(grpc::StatusCode::RESOURCE_EXHAUSTED, "the EKT is full; 8 entries",
         detail.SerializeAsString());
  const absl::Status status = edgeRegisterEvent(device, Echo()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(status),
            "the EKT is full; 8 entries; unregister one; or start gpud with "
            "more --ekt");
  EXPECT_EQ(ErrorReason(status), "EKT_FULL");
  EXPECT_EQ(ErrorHint(status), "unregister one; or start gpud with more --ekt");
  // What a program prints.
  EXPECT_THAT(status.ToString(), HasSubstr("[reason='EKT_FULL']"));
}

TEST_F(EdgeTest, AHintThatTheSentenceHasIsSaidOnce) {
  Device& device = Attach();
  v1::ErrorDetail detail;
  detail.set_reason("UNKNOWN_KERNEL");
  detail.set_hint("carillon kernels");
  const std::string sentence =
      "there is no kernel ''; 'carillon kernels' lists those there are";
  Refuse(grpc::StatusCode::NOT_FOUND, sentence, detail.SerializeAsString());
  const absl::Status status = edgeRegisterEvent(device, Echo()).status();
  EXPECT_EQ(Message(status), sentence);
  EXPECT_EQ(ErrorHint(status), "carillon kernels");
}

TEST_F(EdgeTest, ANameThatIsNoUtf8IsRefusedInWords) {
  AttachOptions options = Options();
  options.name = "nic\xff";
  EXPECT_EQ(Message(Device::Attach(options).status()),
            "gpud cannot read the request Attach: a text in it is no UTF-8");
}

TEST_F(EdgeTest, AGarbledErrorTrailerCostsOnlyTheHint) {
  Device& device = Attach();
  Refuse(grpc::StatusCode::NOT_FOUND, "no kernel 'ecko'", "\xff\xff\xff");
  const absl::Status status = edgeRegisterEvent(device, Echo()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status), HasSubstr("no kernel 'ecko'"));
  EXPECT_EQ(ErrorReason(status), "");
  EXPECT_EQ(ErrorHint(status), "");
}

TEST_F(EdgeTest, ReleaseBarrierPassesUnimplementedOn) {
  Device& device = Attach();
  EventQueue& queue = Register(device, Echo());
  v1::ErrorDetail detail;
  detail.set_reason("NO_WAIT_RELEASE_BARRIER");
  Refuse(grpc::StatusCode::UNIMPLEMENTED,
         "the cpu back-end has no such barrier", detail.SerializeAsString());
  const absl::Status status = edgeReleaseBarrier(device, &queue);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Message(status), "the cpu back-end has no such barrier");
}

TEST_F(EdgeTest, ACallThatIsNotAnsweredEndsAtItsDeadline) {
  AttachOptions options = Options();
  options.timeout = milliseconds(50);
  auto device = Device::Attach(options);
  ASSERT_TRUE(device.ok()) << Message(device.status());
  gpud_->Behave({.answer_after = seconds(600)});
  const absl::Status status = (*device)->ReportReady("here");
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("ReportReady"), HasSubstr("50 ms")));
}

TEST_F(EdgeTest, BuffersAreTheSharedBytes) {
  Device& device = Attach();
  const auto input = device.AllocateBuffer(Place::kInput, 100);
  const auto output = device.AllocateBuffer(Place::kOutput, 200);
  const auto memory = device.AllocateBuffer(Place::kGpuMemory, 300);
  ASSERT_TRUE(input.ok() && output.ok() && memory.ok());
  EXPECT_EQ(input->bytes.size(), 100u);
  EXPECT_EQ(output->bytes.size(), 200u);
  EXPECT_TRUE(memory->bytes.empty());
  input->bytes[99] = std::byte{0x5a};
  EXPECT_EQ(*gpud_->submission().At(gpud_->submission().heap_offset() + 99),
            std::byte{0x5a});
  *gpud_->completion().At(gpud_->completion().heap_offset() + 7) =
      std::byte{0xa5};
  EXPECT_EQ(output->bytes[7], std::byte{0xa5});
}

TEST_F(EdgeTest, ABufferOutsideOfTheApertureIsRefused) {
  Device& device = Attach();
  for (const uint64_t offset :
       {uint64_t{0}, gpud_->submission().size() - 99, ~uint64_t{0}}) {
    gpud_->Behave(
        {.change_buffer = [offset](v1::AllocateBufferResponse* answer) {
          answer->set_offset(offset);
        }});
    EXPECT_EQ(device.AllocateBuffer(Place::kInput, 100).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_THAT(gpud_->seen().calls, Contains("FreeBuffer"));
}

TEST_F(EdgeTest, ARegistrationThatCannotBeIsRefusedAndUndone) {
  Device& device = Attach();
  using Answer = v1::RegisterEventResponse;
  for (const auto& change : std::vector<std::function<void(Answer*)>>{
           [](Answer* a) { a->set_esq_offset(1ull << 40); },
           [](Answer* a) { a->set_ecq_offset(0); },
           [](Answer* a) { a->set_life_offset(a->life_offset() + 8); },
           [](Answer* a) { a->set_entries(8); },
           [](Answer* a) { a->set_entries(3); },
           [](Answer* a) { a->set_event_id(1 << 20); },
           [](Answer* a) { a->set_entry_bytes(0); },
           [](Answer* a) {
             a->set_parameter_offset(64);
             a->set_entry_bytes(128);
           },
           [](Answer* a) { a->mutable_writable(1)->set_offset(9); },
           [](Answer* a) { a->mutable_writable(1)->set_offset(~0u); },
           [](Answer* a) {
             a->mutable_writable(1)->set_kind(v1::PARAMETER_KIND_UNSPECIFIED);
           },
           [](Answer* a) { a->mutable_writable(1)->set_name("other"); },
           [](Answer* a) { a->mutable_writable()->RemoveLast(); }}) {
    gpud_->Behave({.change_registration = change});
    EXPECT_EQ(edgeRegisterEvent(device, Echo()).status().code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(gpud_->seen().calls.back(), StartsWith("UnregisterEvent"));
  }
}

TEST_F(EdgeTest, RegistrationCarriesEveryFieldOfTheSpec) {
  Device& device = Attach();
  EventSpec spec = Echo();
  spec.grid = {2, 3, 4};
  spec.block = {5, 6, 7};
  spec.shared_bytes = 8;
  spec.priority = 6;
  spec.modifyable = true;
  spec.label = "ping";
  EventQueue& queue = Register(device, spec);
  EXPECT_EQ(queue.kernel(), "echo");
  EXPECT_EQ(queue.free_slots(), 4u);
  const v1::RegisterEventRequest request = gpud_->seen().registration;
  EXPECT_EQ(request.session(), "session of nic0");
  EXPECT_EQ(request.grid().ShortDebugString(), "x: 2 y: 3 z: 4");
  EXPECT_EQ(request.block().ShortDebugString(), "x: 5 y: 6 z: 7");
  EXPECT_EQ(request.shared_bytes(), 8u);
  EXPECT_EQ(request.max_in_flight(), 4u);
  EXPECT_EQ(request.priority(), 6u);
  EXPECT_TRUE(request.modifyable());
  EXPECT_EQ(request.label(), "ping");
}

TEST_F(EdgeTest, AnUnknownWritableParameterIsAnsweredWithThoseThatThereAre) {
  EventQueue& queue = Register(Attach(), Echo());
  EXPECT_EQ(*queue.ParameterOffset("bytes"), 8u);
  ASSERT_EQ(queue.writable().size(), 2u);
  EXPECT_EQ(queue.writable()[1].name, "bytes");
  EXPECT_EQ(queue.writable()[1].type, ValueType::kU64);
  const absl::Status status = queue.ParameterOffset("tokens").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("'tokens'"), HasSubstr("token, bytes")));
}

TEST_F(EdgeTest, AnEventGoesRoundAsInFigure8c) {
  EventQueue& queue = Register(Attach(), Echo());
  const uint32_t bytes = *queue.ParameterOffset("bytes");
  queue.Set<uint64_t>(bytes, 77);
  const shm::Sequence sequence = queue.RingDoorbell();
  EXPECT_EQ(queue.in_flight(), 1u);
  EXPECT_FALSE(queue.Poll().has_value());

  const shm::GpuRing ring = gpud_->ring();
  EXPECT_EQ(ring.LoadDoorbell(), 1u);
  uint64_t entry[8];
  ring.CopyEntry(sequence, entry, sizeof(entry));
  EXPECT_EQ(entry[(sizeof(shm::EsqEntryHeader) + bytes) / 8], 77u);
  ring.Complete(sequence, EventState::kFailed, 1234);

  const auto done = queue.Poll();
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->sequence, sequence);
  EXPECT_EQ(done->state, EventState::kFailed);
  EXPECT_EQ(done->status, 1234u);
  queue.Free();
  EXPECT_EQ(queue.free_slots(), 4u);
  EXPECT_EQ(ring.LoadConsumed(), 1u);
}

TEST_F(EdgeTest, WaitWakesForACompletionAndEndsWithoutOne) {
  EventQueue& queue = Register(Attach(), Echo());
  EXPECT_EQ(queue.Wait(milliseconds(5)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  const shm::Sequence sequence = queue.RingDoorbell();
  const shm::GpuRing ring = gpud_->ring();
  std::thread gpu([&] {
    // Completes only once the device sleeps, so that the wake-up is what is
    // tested.
    const auto& armed =
        gpud_->submission().submission_control().completion_armed;
    while (std::atomic_ref<uint32_t>(const_cast<uint32_t&>(armed)).load() ==
           0) {
      std::this_thread::yield();
    }
    ring.Complete(sequence, EventState::kDone, 0);
    gpud_->bell().Signal();
  });
  const auto done = queue.Wait(seconds(60), milliseconds(0));
  gpu.join();
  ASSERT_TRUE(done.ok()) << Message(done.status());
  EXPECT_EQ(done->sequence, sequence);
}

TEST_F(EdgeTest, TheCompletionFdWakesOnlyWhileArmed) {
  Device& device = Attach();
  EventQueue& queue = Register(device, Echo());
  const shm::GpuRing ring = gpud_->ring();
  const auto readable = [&] {
    pollfd waiter{.fd = device.completion_fd(), .events = POLLIN, .revents = 0};
    return poll(&waiter, 1, 0) == 1;
  };
  const auto complete = [&] {
    ring.Complete(queue.RingDoorbell(), EventState::kDone, 0);
    gpud_->bell().Signal();
  };
  complete();
  EXPECT_FALSE(readable());
  device.ArmCompletionFd();
  complete();
  EXPECT_TRUE(readable());
  device.DisarmCompletionFd();
  EXPECT_FALSE(readable());
}

TEST_F(EdgeTest, AScheduledEventIsInFlightOnlyIfGpudTookIt) {
  Device& device = Attach();
  EventQueue& queue = Register(device, Echo());
  EXPECT_EQ(edgeScheduleEvent(device, &queue).code(),
            absl::StatusCode::kFailedPrecondition);
  queue.Commit();
  queue.Commit();
  Refuse(grpc::StatusCode::NOT_FOUND, "no such event", "");
  EXPECT_EQ(edgeScheduleEvent(device, &queue).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(queue.in_flight(), 0u);
  gpud_->Behave({});
  EXPECT_TRUE(edgeScheduleEvent(device, &queue).ok());
  EXPECT_EQ(queue.in_flight(), 2u);
  EXPECT_EQ(gpud_->seen().scheduled, 2u);
  EXPECT_EQ(gpud_->ring().LoadDoorbell(), 2u);
}

TEST_F(EdgeTest, UnregisteringTakesOnlyTheDevicesOwnQueue) {
  Device& device = Attach();
  EventQueue& queue = Register(device, Echo());
  const std::string id = std::to_string(queue.event_id());
  EXPECT_TRUE(edgeUnregisterEvent(device, &queue).ok());
  EXPECT_EQ(gpud_->seen().calls.back(), "UnregisterEvent " + id);
  EXPECT_EQ(edgeUnregisterEvent(device, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(EdgeTest, ABackgroundKernelReturnsItsTimesOrItsFailure) {
  Device& device = Attach();
  Device::LaunchSpec spec;
  spec.kernel = "matmul";
  spec.grid = {4, 5, 1};
  spec.block = {16, 16, 1};
  spec.priority = 2;
  spec.parameters = {Constant("n", 64)};
  const auto times = device.LaunchKernel(spec);
  ASSERT_TRUE(times.ok()) << Message(times.status());
  EXPECT_EQ(times->dispatched_ns, 100u);
  EXPECT_EQ(times->finished_ns, 2000u);
  const v1::LaunchKernelRequest request = gpud_->seen().launch;
  EXPECT_EQ(request.grid().ShortDebugString(), "x: 4 y: 5 z: 1");
  EXPECT_EQ(request.priority(), 2u);
  EXPECT_EQ(request.parameters(0).unsigned_value(), 64u);

  spec.kernel = "fail_with_9";
  const absl::Status status = device.LaunchKernel(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(status), HasSubstr("status 9"));
  spec.parameters = {Writable("n")};
  EXPECT_EQ(device.LaunchKernel(spec).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(EdgeTest, ACopyReturnsItsTimes) {
  Device& device = Attach();
  const auto from = device.AllocateBuffer(Place::kInput, 64);
  const auto to = device.AllocateBuffer(Place::kGpuMemory, 64);
  ASSERT_TRUE(from.ok() && to.ok());
  const auto times = device.Copy({.from = *from,
                                  .from_offset = 3,
                                  .to = *to,
                                  .to_offset = 4,
                                  .bytes = 60,
                                  .priority = 2});
  ASSERT_TRUE(times.ok()) << Message(times.status());
  EXPECT_EQ(times->started_ns, 5u);
  EXPECT_EQ(times->finished_ns, 70u);
  const v1::CopyRequest request = gpud_->seen().copy;
  EXPECT_EQ(request.from_buffer(), from->id);
  EXPECT_EQ(request.from_offset(), 3u);
  EXPECT_EQ(request.to_buffer(), to->id);
  EXPECT_EQ(request.to_offset(), 4u);
  EXPECT_EQ(request.bytes(), 60u);
  EXPECT_EQ(request.priority(), 2u);
}

TEST_F(EdgeTest, TelemetryIsReadableByGpud) {
  Device& device = Attach();
  device.SetCounter(0, 5);
  device.AddToCounter(63, 2);
  device.AddToCounter(63, 3);
  device.histogram(3).Add(1000);
  const shm::Telemetry& page = gpud_->submission().telemetry();
  EXPECT_EQ(page.counters[0], 5u);
  EXPECT_EQ(page.counters[63], 5u);
  EXPECT_EQ(page.histograms[3].buckets[shm::HistogramBucket(1000)], 1u);
  EXPECT_DEATH(device.SetCounter(64, 1), "counter 64");
}

TEST_F(EdgeTest, TracingFollowsGpudsSwitch) {
  Device& device = Attach();
  EventQueue& queue = Register(device, Echo());
  const auto rung_ns = [&] {
    const shm::Sequence sequence = queue.RingDoorbell();
    shm::EsqEntryHeader header;
    gpud_->ring().CopyEntry(sequence, &header, sizeof(header));
    return header.rung_ns;
  };
  EXPECT_EQ(rung_ns(), 0u);
  gpud_->completion().completion_control().tracing = 1;
  EXPECT_GT(rung_ns(), 0u);
}

TEST_F(EdgeTest, TheEndOfTheSessionEndsEveryWaitAndFailsEveryCall) {
  Device& device = Attach();
  EventQueue& queue = Register(device, Echo());
  const shm::GpuRing ring = gpud_->ring();
  ring.Complete(queue.RingDoorbell(), EventState::kDone, 0);
  ASSERT_TRUE(queue.Wait(seconds(60)).ok());
  queue.Free();
  const shm::Sequence unread = queue.RingDoorbell();
  queue.RingDoorbell();
  ring.Complete(unread, EventState::kDone, 0);

  std::atomic<bool> woken{true};
  std::thread sleeper([&] {
    woken = device.WaitForCompletion([] { return false; }, seconds(60));
  });
  gpud_->Close(shm::CloseReason::kEvicted);
  sleeper.join();
  EXPECT_FALSE(woken);

  // What ended before the session did still counts.
  ASSERT_TRUE(queue.Wait(seconds(60)).ok());
  queue.Free();
  const absl::Status lost = queue.Wait(seconds(60)).status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(lost), AllOf(StartsWith("EVICTED"),
                                   HasSubstr("last completed sequence 2")));
  EXPECT_THAT(Message(device.status()),
              HasSubstr("last completed sequence 2 (echo, event 0)"));

  const size_t calls = gpud_->seen().calls.size();
  const EventSpec spec = Echo();
  EXPECT_THAT(Message(edgeRegisterEvent(device, spec).status()),
              StartsWith("EVICTED"));
  EXPECT_THAT(Message(device.AllocateBuffer(Place::kInput, 64).status()),
              StartsWith("EVICTED"));
  EXPECT_THAT(Message(device.ListKernels().status()), StartsWith("EVICTED"));
  EXPECT_THAT(Message(device.ReportReady("")), StartsWith("EVICTED"));
  EXPECT_THAT(Message(device.LaunchKernel({}).status()), StartsWith("EVICTED"));
  EXPECT_THAT(Message(edgeReleaseBarrier(device, &queue)),
              StartsWith("EVICTED"));
  EXPECT_THAT(Message(edgeUnregisterEvent(device, &queue)),
              StartsWith("EVICTED"));
  EXPECT_EQ(gpud_->seen().calls.size(), calls)
      << "a closed session must not be talked to";
}

TEST_F(EdgeTest, AHangUpWithoutAReasonEndsAWaitToo) {
  Device& device = Attach();
  EventQueue& queue = Register(device, Echo());
  queue.RingDoorbell();
  gpud_->HangUp();
  const absl::Status lost = queue.Wait(seconds(60)).status();
  EXPECT_THAT(Message(lost), AllOf(StartsWith("PEER_DEAD"),
                                   HasSubstr("last completed sequence 0")));
  pollfd waiter{.fd = device.connection_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiter, 1, 0), 1);
}

TEST_F(EdgeTest, TheEndOfTheSessionCanBeWaitedFor) {
  Device& device = Attach();
  EXPECT_TRUE(device.WaitForEnd(milliseconds(0)).ok());
  gpud_->HangUp();
  const absl::Status end = device.WaitForEnd(seconds(60));
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(end), StartsWith("PEER_DEAD"));
}

TEST_F(EdgeTest, TheFlightRecorderKeepsEveryStepOfASession) {
  setenv(shm::FlightRecorder::kVariable, "64", 1);
  Device& device = Attach();
  unsetenv(shm::FlightRecorder::kVariable);
  EventQueue& queue = Register(device, Echo());
  const uint32_t id = queue.event_id();
  const shm::GpuRing ring = gpud_->ring();
  queue.RingCommitted();  // nothing to ring
  queue.Commit();
  queue.Commit();
  queue.RingCommitted();
  ring.Complete(shm::Sequence(1), EventState::kFailed, 1234);
  ASSERT_TRUE(queue.Poll().has_value());
  queue.Free();
  queue.Commit();
  Refuse(grpc::StatusCode::NOT_FOUND, "no such event", "");
  EXPECT_FALSE(edgeScheduleEvent(device, &queue).ok());
  gpud_->Behave({});
  EXPECT_TRUE(edgeScheduleEvent(device, &queue).ok());
  ring.Complete(shm::Sequence(2), EventState::kDone, 0);
  EXPECT_TRUE(edgeUnregisterEvent(device, &queue).ok());
  const uint32_t second = Register(device, Echo()).event_id();
  gpud_->Close(shm::CloseReason::kEvicted);
  EXPECT_FALSE(device.WaitForEnd(seconds(20)).ok());
  // The end may be seen before the watch has noted it.
  const std::string directory = TestbedPaths(directory_).recorder_directory();
  std::vector<std::string> unreadable;
  const auto read = [&] {
    return shm::ReadFlightRecordings(directory, &unreadable);
  };
  while (read().at(0).records.back().step != shm::Step::kClosed) {
    std::this_thread::yield();
  }
  device_.reset();
  const auto recordings = read();
  ASSERT_EQ(recordings.size(), 1u);
  EXPECT_EQ(recordings[0].name, "nic0");
  EXPECT_FALSE(recordings[0].running);
  std::vector<shm::FlightRecord> steps = recordings[0].records;
  Nanoseconds before = 0;
  for (shm::FlightRecord& step : steps) {
    EXPECT_GE(step.time_ns, before);
    before = std::exchange(step.time_ns, 0);
  }
  using shm::Step;
  const auto pid = static_cast<uint64_t>(getpid());
  const uint32_t g = ring.layout().generation.value();
  const auto of = [&](uint32_t event, Step step, uint64_t sequence,
                      uint32_t status, EventState state = EventState::kNone) {
    return shm::FlightRecord{.sequence = sequence,
                             .generation = g,
                             .status = status,
                             .event_id = static_cast<uint16_t>(event),
                             .step = step,
                             .state = state};
  };
  const std::vector<shm::FlightRecord> expected = {
      {.sequence = pid, .generation = 3, .step = Step::kAttached},
      of(id, Step::kRegistered, 0, 4),
      of(id, Step::kRung, 2, 2),
      of(id, Step::kTaken, 1, 1234, EventState::kFailed),
      of(id, Step::kScheduling, 3, 0),
      of(id, Step::kScheduling, 3, 0),
      of(id, Step::kRung, 3, 1),
      of(id, Step::kFound, 2, 0, EventState::kDone),
      of(id, Step::kUnregistered, 1, 0),
      of(second, Step::kRegistered, 0, 4),
      {.sequence = pid,
       .generation = 3,
       .status = static_cast<uint32_t>(shm::CloseReason::kEvicted),
       .step = Step::kClosed},
      of(second, Step::kUnregistered, 0,
         static_cast<uint32_t>(shm::LetGo::kAfterEnd)),
      {.generation = 3, .status = 1, .step = Step::kDetached}};
  EXPECT_EQ(steps, expected);
}

TEST_F(EdgeTest, ARingIsLookedAtForTheLastTimeBeforeAnotherMayLieThere) {
  setenv(shm::FlightRecorder::kVariable, "64", 1);
  Device& device = Attach();
  unsetenv(shm::FlightRecorder::kVariable);
  EventQueue& first = Register(device, Echo());
  gpud_->Behave({.answer_after = milliseconds(100)});
  std::thread unregistering(
      [&] { EXPECT_TRUE(edgeUnregisterEvent(device, &first).ok()); });
  while (!gpud_->seen().calls.back().starts_with("UnregisterEvent")) {
    std::this_thread::yield();
  }
  gpud_->Behave({});
  Register(device, Echo());
  unregistering.join();
  std::vector<std::string> unreadable;
  const auto recordings = shm::ReadFlightRecordings(
      TestbedPaths(directory_).recorder_directory(), &unreadable);
  std::vector<shm::Step> steps;
  for (const shm::FlightRecord& record : recordings.at(0).records) {
    steps.push_back(record.step);
  }
  using shm::Step;
  EXPECT_THAT(steps, ElementsAre(Step::kAttached, Step::kRegistered,
                                 Step::kUnregistered, Step::kRegistered));
}

TEST_F(EdgeTest, WhatAGpudEndsThatDoesNotHaveAllOfADeviceCountsForNothing) {
  Device& device = Attach();
  EventQueue& queue = Register(device, Echo());
  ASSERT_TRUE(device.ReportReady("here").ok());
  queue.RingDoorbell();
  const auto another_gpud = [&] {
    gpud_->HangUp();
    EXPECT_FALSE(device.WaitForEnd(seconds(20)).ok());
    gpud_.reset();
    gpud_ = std::make_unique<FakeGpud>(directory_);
  };
  another_gpud();
  // It ends when the ring is in place, and before it hears that all is.
  gpud_->Behave({.answer_after = milliseconds(100)});
  std::thread ending([&] {
    const auto registers = [](const std::vector<std::string>& calls) {
      return std::find(calls.begin(), calls.end(), "RegisterEvent") !=
             calls.end();
    };
    while (!registers(gpud_->seen().calls)) {
      std::this_thread::yield();
    }
    Refuse(grpc::StatusCode::UNAVAILABLE, "it has died", "");
  });
  EXPECT_EQ(device.Resume(milliseconds(0)).code(),
            absl::StatusCode::kUnavailable);
  ending.join();
  gpud_->ring().Complete(shm::Sequence(1), EventState::kDone, 0);
  another_gpud();
  const absl::Status resumed = device.Resume(seconds(20));
  ASSERT_TRUE(resumed.ok()) << Message(resumed);
  EXPECT_FALSE(queue.Poll());
  gpud_->ring().Complete(shm::Sequence(1), EventState::kDone, 0);
  EXPECT_TRUE(queue.Poll());
}

TEST_F(EdgeTest, ARecorderThatCannotBeRefusesTheAttachment) {
  setenv(shm::FlightRecorder::kVariable, "few", 1);
  const absl::Status status = Device::Attach(Options()).status();
  unsetenv(shm::FlightRecorder::kVariable);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("CARILLON_RECORD=few"));
  EXPECT_THAT(gpud_->seen().calls, Contains("Detach session of nic0"));
  EXPECT_TRUE(Device::Attach(Options()).ok());
}

TEST_F(EdgeTest, KernelsAreListed) {
  const auto kernels = Attach().ListKernels();
  ASSERT_TRUE(kernels.ok());
  ASSERT_EQ(kernels->size(), 1u);
  EXPECT_EQ(kernels->front().name, "echo");
  EXPECT_EQ(kernels->front().summary, "copies a buffer to another");
}

}  // namespace
}  // namespace carillon::edge
