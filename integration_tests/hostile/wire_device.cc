#include "integration_tests/hostile/wire_device.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "fmt/format.h"
#include "shm/load_shared.h"
#include "shm/waiting.h"

namespace carillon::testing {
namespace {

[[noreturn]] void GiveUp(const std::string& what) {
  fmt::print("cannot go on: {}\n", what);
  std::fflush(stdout);
  std::_Exit(1);
}

void Require(const std::string& what, const grpc::Status& status) {
  if (!status.ok()) GiveUp(what + ": " + status.error_message());
}

std::shared_ptr<grpc::Channel> Connect(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(
      "unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

constexpr uint64_t kHeapBytes = 1 << 20;

std::span<std::byte> MapAll(int fd, int protection) {
  struct stat file {};
  if (fstat(fd, &file) != 0) GiveUp("fstat");
  void* const at = mmap(nullptr, file.st_size, protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) GiveUp("mmap of an aperture");
  return {static_cast<std::byte*>(at), static_cast<size_t>(file.st_size)};
}

}  // namespace

void Await(const std::string& what, const std::function<bool()>& state) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!state()) {
    if (std::chrono::steady_clock::now() >= end) GiveUp(what + " never came");
    poll(nullptr, 0, 1);
  }
}

WireControl::WireControl(const TestbedPaths& paths)
    : WireControl(Connect(paths.control_socket())) {}

WireControl WireControl::OfOperator(const TestbedPaths& paths) {
  return WireControl(Connect(paths.operator_socket()));
}

WireControl::WireControl(const std::shared_ptr<grpc::Channel>& channel)
    : channel(channel),
      devices(v1::Devices::NewStub(channel)),
      events(v1::Events::NewStub(channel)),
      admin(v1::Admin::NewStub(channel)),
      faults(v1::Faults::NewStub(channel)) {}

v1::AttachRequest AttachRequestFor(const std::string& name) {
  v1::AttachRequest request;
  request.set_name(name);
  request.set_kind("hostile");
  request.set_submission_bytes(kHeapBytes);
  request.set_completion_bytes(kHeapBytes);
  request.set_layout_version(shm::kLayoutVersion);
  request.add_counter_names("count");
  request.add_histogram_names("time");
  return request;
}

shm::Ticket TicketOf(const std::string& bytes) {
  shm::Ticket ticket{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), ticket.size()),
              ticket.begin());
  return ticket;
}

WireDevice::WireDevice(const TestbedPaths& paths, const std::string& name)
    : name(name), control(paths) {
  Require("Attach", control.Call(&v1::Devices::Stub::Attach,
                                 AttachRequestFor(name), &attached));
  auto fetched = shm::FetchApertures(paths.handover_socket(),
                                     TicketOf(attached.ticket()), kPatience);
  if (!fetched.ok()) GiveUp(std::string(fetched.status().message()));
  handed = *std::move(fetched);
  submission_ = MapAll(handed.submission.get(), PROT_READ | PROT_WRITE)
                    .first(shm::kSubmissionHeapOffset + kHeapBytes);
  completion_ = MapAll(handed.completion.get(), PROT_READ)
                    .first(shm::kCompletionHeapOffset + kHeapBytes);
}

shm::CloseReason WireDevice::closed() const {
  return static_cast<shm::CloseReason>(
      shm::LoadShared(completion_control().closed, std::memory_order_seq_cst));
}

void WireDevice::RingDoorbell(uint32_t index, uint32_t times) const {
  std::atomic_ref<uint32_t>(At<uint32_t>(shm::kDoorbellOffset)[index])
      .fetch_add(times, std::memory_order_seq_cst);
  shm::BumpAndWake(&submission_control().summary);
}

WireRing::WireRing(WireDevice* device, uint32_t entries, uint32_t threads,
                   uint64_t message)
    : device_(device), message_(message), input_bytes_(entries * message) {
  const WireControl& control = device_->control;
  const auto allocate = [&](v1::BufferPlace place) {
    v1::AllocateBufferRequest request;
    request.set_session(device_->attached.session());
    request.set_place(place);
    request.set_bytes(input_bytes_);
    v1::AllocateBufferResponse response;
    Require("AllocateBuffer", control.Call(&v1::Events::Stub::AllocateBuffer,
                                           request, &response));
    return response.buffer_id();
  };
  v1::RegisterEventRequest request;
  request.set_session(device_->attached.session());
  request.set_kernel("echo");
  SetOneThread(request);
  request.mutable_block()->set_x(threads);
  request.set_max_in_flight(entries);
  v1::ParameterBinding* in = request.add_parameters();
  in->set_name("in");
  in->set_writable(true);
  in->set_buffer_id(allocate(v1::INPUT));
  v1::ParameterBinding* out = request.add_parameters();
  out->set_name("out");
  out->set_buffer_id(allocate(v1::OUTPUT));
  out->set_length(message);
  out->set_slot_stride(message);
  Require("RegisterEvent",
          control.Call(&v1::Events::Stub::RegisterEvent, request, &layout_));
}

WireRing::Entry WireRing::Next() const {
  const uint64_t sequence = rung_ + 1;
  return {.header = {.sequence = sequence,
                     .generation = layout_.generation(),
                     .flags = 0,
                     .rung_ns = 0,
                     .reserved = 0},
          .in = {.offset = sequence % layout_.entries() * message_,
                 .length = kMessage}};
}

std::byte* WireRing::entry(uint64_t sequence) const {
  return device_->submission().data() + layout_.esq_offset() +
         sequence % layout_.entries() * layout_.entry_bytes();
}

void WireRing::Launch(const Entry& entry) {
  std::byte* const at = this->entry(++rung_);
  std::memcpy(at, &entry.header, sizeof(entry.header));
  std::memcpy(at + layout_.parameter_offset(), &entry.in, sizeof(entry.in));
  device_->RingDoorbell(layout_.event_id(), 1);
}

std::optional<shm::EcqEntry> WireRing::Ended(uint64_t sequence) const {
  const auto* const ecq = reinterpret_cast<const shm::EcqEntry*>(
      device_->completion().data() + layout_.ecq_offset());
  const shm::EcqEntry& slot = ecq[sequence % layout_.entries()];
  // Writer: gpud, with the sequence last.
  if (shm::LoadShared(slot.sequence, std::memory_order_acquire) != sequence) {
    return std::nullopt;
  }
  return slot;
}

std::optional<shm::EcqEntry> WireRing::Run(const Entry& entry) {
  Launch(entry);
  std::optional<shm::EcqEntry> ended;
  Await(fmt::format("the end of event {}", rung_), [&] {
    ended = Ended(rung_);
    return ended || device_->closed() != shm::CloseReason::kOpen;
  });
  return ended;
}

}  // namespace carillon::testing
