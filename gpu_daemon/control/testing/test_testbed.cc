#include "gpu_daemon/control/testing/test_testbed.h"

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <utility>

#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  // Less the one that the look itself takes.
  return static_cast<size_t>(std::distance(begin(entries), end(entries))) - 1;
}

std::unique_ptr<grpc::ClientContext> Within(std::chrono::milliseconds timeout) {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + timeout);
  return context;
}

v1::ErrorDetail DetailIn(const grpc::ClientContext& context) {
  v1::ErrorDetail detail;
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto found = trailers.find(kErrorTrailer);
      found != trailers.end()) {
    detail.ParseFromArray(found->second.data(),
                          static_cast<int>(found->second.size()));
  }
  return detail;
}

TestTestbed::TestTestbed(ControlPlane::Options options) {
  options.directory = directory_.path();
  if (options.memory_bytes == 0) options.memory_bytes = 64 << 20;
  if (options.backend_options.workers == 0 &&
      options.backend_options.timing.empty()) {
    options.backend_options.workers = 1;
  }
  auto plane = ControlPlane::Start(std::move(options));
  if (!plane.ok()) {
    ADD_FAILURE() << plane.status();
    std::abort();
  }
  plane_ = *std::move(plane);
  thread_ = std::thread([this] {
    plane_->Run();
    plane_->ShutDown();
  });
  // Connects at once, so that a test may count descriptors.
  const auto connect = [](const std::string& socket) {
    auto channel = grpc::CreateChannel("unix:" + socket,
                                       grpc::InsecureChannelCredentials());
    EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() +
                                          std::chrono::seconds(20)));
    return channel;
  };
  channel_ = connect(paths().operator_socket());
  device_channel_ = connect(paths().control_socket());
  admin_ = v1::Admin::NewStub(channel_);
  devices_ = v1::Devices::NewStub(device_channel_);
  events_ = v1::Events::NewStub(device_channel_);
}

TestTestbed::~TestTestbed() { Stop(); }

void TestTestbed::Stop() {
  plane_->RequestShutdown();
  if (thread_.joinable()) thread_.join();
}

template <class Request, class Response>
Response TestTestbed::Ask(grpc::Status (v1::Admin::Stub::*method)(
    grpc::ClientContext*, const Request&, Response*)) {
  Response response;
  EXPECT_TRUE(Call(admin(), method, Request(), &response).ok());
  return response;
}

v1::GetStatusResponse TestTestbed::Status() {
  return Ask(&v1::Admin::Stub::GetStatus);
}
v1::ListDevicesResponse TestTestbed::Devices() {
  return Ask(&v1::Admin::Stub::ListDevices);
}
v1::ListEktResponse TestTestbed::Ekt() {
  return Ask(&v1::Admin::Stub::ListEkt);
}

bool TestTestbed::WaitUntilGone(const std::string& device) {
  return Eventually([&] {
    const v1::ListDevicesResponse all = Devices();
    return std::ranges::none_of(all.devices(), [&](const auto& listed) {
      return listed.name() == device;
    });
  });
}

v1::AttachRequest AttachRequestFor(const std::string& name) {
  v1::AttachRequest request;
  request.set_name(name);
  request.set_kind("test");
  request.set_submission_bytes(64 << 10);
  request.set_completion_bytes(64 << 10);
  request.set_layout_version(shm::kLayoutVersion);
  return request;
}

shm::Ticket TicketIn(const v1::AttachResponse& response) {
  shm::Ticket ticket{};
  EXPECT_EQ(response.ticket().size(), ticket.size());
  response.ticket().copy(reinterpret_cast<char*>(ticket.data()), ticket.size());
  return ticket;
}

AttachedDevice::AttachedDevice(TestTestbed* testbed, const std::string& name)
    : AttachedDevice(testbed, AttachRequestFor(name)) {}

AttachedDevice::AttachedDevice(TestTestbed* testbed,
                               const v1::AttachRequest& request)
    : testbed_(testbed) {
  const Outcome outcome = TestTestbed::Call(
      testbed->devices(), &v1::Devices::Stub::Attach, request, &attached_);
  EXPECT_TRUE(outcome.ok()) << outcome.status.error_message();
  auto fetched =
      shm::FetchApertures(testbed->paths().handover_socket(),
                          TicketIn(attached_), std::chrono::seconds(20));
  EXPECT_TRUE(fetched.ok()) << fetched.status();
  if (!fetched.ok()) return;
  handed_over_ = *std::move(fetched);
  auto submission =
      shm::Aperture::Map(std::move(handed_over_.submission),
                         shm::RegionKind::kSubmission, handed_over_.generation);
  auto completion =
      shm::Aperture::Map(std::move(handed_over_.completion),
                         shm::RegionKind::kCompletion, handed_over_.generation);
  EXPECT_TRUE(submission.ok()) << submission.status();
  EXPECT_TRUE(completion.ok()) << completion.status();
  submission_ = *std::move(submission);
  completion_ = *std::move(completion);
}

shm::CloseReason AttachedDevice::close_reason() const {
  return static_cast<shm::CloseReason>(
      std::atomic_ref<uint32_t>(completion_.completion_control().closed)
          .load(std::memory_order_acquire));
}

Outcome AttachedDevice::AllocateBuffer(v1::BufferPlace place, uint64_t bytes,
                                       v1::AllocateBufferResponse* response) {
  v1::AllocateBufferRequest request;
  request.set_session(session());
  request.set_place(place);
  request.set_bytes(bytes);
  return TestTestbed::Call(
      testbed_->events(), &v1::Events::Stub::AllocateBuffer, request, response);
}

uint32_t AttachedDevice::Buffer(v1::BufferPlace place, uint64_t bytes) {
  v1::AllocateBufferResponse response;
  const Outcome outcome = AllocateBuffer(place, bytes, &response);
  EXPECT_TRUE(outcome.ok()) << outcome.status.error_message();
  return response.buffer_id();
}

Outcome AttachedDevice::FreeBuffer(uint32_t id) {
  v1::FreeBufferRequest request;
  request.set_session(session());
  request.set_buffer_id(id);
  v1::FreeBufferResponse response;
  return TestTestbed::Call(testbed_->events(), &v1::Events::Stub::FreeBuffer,
                           request, &response);
}

v1::RegisterEventRequest AttachedDevice::NullEvent(uint32_t entries) const {
  v1::RegisterEventRequest request;
  request.set_session(session());
  request.set_kernel("null_event");
  request.mutable_block()->set_x(32);
  request.mutable_block()->set_y(1);
  request.mutable_block()->set_z(1);
  request.set_max_in_flight(entries);
  *request.add_parameters() = WritableParameter("token");
  return request;
}

Outcome AttachedDevice::Register(const v1::RegisterEventRequest& request,
                                 v1::RegisterEventResponse* response) {
  return TestTestbed::Call(testbed_->events(), &v1::Events::Stub::RegisterEvent,
                           request, response);
}

shm::DeviceRing AttachedDevice::RingOf(
    const v1::RegisterEventRequest& request) {
  v1::RegisterEventResponse response;
  const Outcome outcome = Register(request, &response);
  EXPECT_TRUE(outcome.ok()) << outcome.status.error_message();
  const shm::RingLayout layout = shm::LayoutOf(response);
  const absl::Status checked =
      shm::CheckRingLayout(layout, submission_, completion_);
  EXPECT_TRUE(checked.ok()) << checked;
  return shm::DeviceRing(layout, &submission_, &completion_);
}

Outcome AttachedDevice::Unregister(uint32_t event_id, uint32_t drain_ms,
                                   uint64_t* aborted) {
  v1::UnregisterEventRequest request;
  request.set_session(session());
  request.set_event_id(event_id);
  request.set_drain_ms(drain_ms);
  v1::UnregisterEventResponse response;
  const Outcome outcome =
      TestTestbed::Call(testbed_->events(), &v1::Events::Stub::UnregisterEvent,
                        request, &response);
  if (aborted != nullptr) *aborted = response.aborted();
  return outcome;
}

Outcome AttachedDevice::Detach(uint64_t* aborted) {
  v1::DetachRequest request;
  request.set_session(session());
  v1::DetachResponse response;
  const Outcome outcome = TestTestbed::Call(
      testbed_->devices(), &v1::Devices::Stub::Detach, request, &response);
  if (aborted != nullptr) *aborted = response.aborted();
  return outcome;
}

std::optional<shm::Completion> AttachedDevice::Await(shm::DeviceRing& ring) {
  std::optional<shm::Completion> completion;
  Eventually([&] { return (completion = ring.Poll()).has_value(); });
  if (completion) ring.Consume();
  return completion;
}

v1::ParameterBinding Value(const std::string& name, uint64_t value) {
  v1::ParameterBinding binding;
  binding.set_name(name);
  binding.set_unsigned_value(value);
  return binding;
}

v1::ParameterBinding WritableParameter(const std::string& name) {
  v1::ParameterBinding binding;
  binding.set_name(name);
  binding.set_writable(true);
  return binding;
}

v1::ParameterBinding Part(const std::string& name, uint32_t buffer_id,
                          uint64_t offset, uint64_t length,
                          uint64_t slot_stride) {
  v1::ParameterBinding binding;
  binding.set_name(name);
  binding.set_buffer_id(buffer_id);
  binding.set_offset(offset);
  binding.set_length(length);
  binding.set_slot_stride(slot_stride);
  return binding;
}

}  // namespace carillon::gpud
