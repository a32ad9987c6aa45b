#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

using std::chrono_literals::operator""us;

constexpr uint32_t kEntries = 256;
static_assert(kEntries > kMaxWindow);
constexpr uint32_t kLinkEntries = 2048;
static_assert(kLinkEntries > kMaxLinkWindow);
// Room for the rings of 1,024 event kernels.
constexpr uint64_t kApertureBytes = 2 << 20;

enum class Kernel { kEcho, kNull };

template <Kernel kKernel>
class EventClient final : public Client {
 public:
  EventClient(std::vector<std::unique_ptr<edge::Device>> silent_devices,
              std::unique_ptr<edge::Device> device, edge::EventQueue* queue,
              uint32_t token, edge::Buffer in, edge::Buffer out, Wait wait)
      : silent_devices_(std::move(silent_devices)),
        device_(std::move(device)),
        queue_(queue),
        token_(token),
        in_(in),
        out_(out),
        wait_(wait) {}

  absl::Status Send(const Message& request) override {
    if constexpr (kKernel == Kernel::kEcho) {
      std::memcpy(in_.bytes.data() + queue_->next_slot() * sizeof(request),
                  &request, sizeof(request));
    } else {
      queue_->Set<uint64_t>(token_, request.sequence);
    }
    queue_->Commit();
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    queue_->RingCommitted();
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    std::optional<edge::Completion> completion;
    if (wait_ == Wait::kSpins) {
      const auto look = [&] {
        return (completion = queue_->Poll()).has_value();
      };
      if (!WaitUntil(wait_, kClientSpin, look, look)) return Silent();
    } else {
      // The SDK itself spins, then sleeps.
      const auto spin = wait_ == Wait::kSleeps ? 0us : kClientSpin;
      ASSIGN_OR_RETURN(completion, queue_->Wait(kPatience, spin));
    }
    if (completion->state != edge::EventState::kDone) {
      return absl::InternalError(
          fmt::format("event {} ended in state {} with status {}",
                      completion->sequence.value(),
                      static_cast<int>(completion->state), completion->status));
    }
    if constexpr (kKernel == Kernel::kEcho) {
      const uint32_t slot = queue_->SlotOf(completion->sequence);
      std::memcpy(reply, out_.bytes.data() + slot * sizeof(*reply),
                  sizeof(*reply));
    } else {
      reply->sequence = completion->sequence.value() - 1;
    }
    queue_->Free();
    return absl::OkStatus();
  }

  void Idle(std::chrono::milliseconds time) override {
    device_->WaitForCompletion([] { return false; }, time);
  }

 private:
  const std::vector<std::unique_ptr<edge::Device>> silent_devices_;
  const std::unique_ptr<edge::Device> device_;
  edge::EventQueue* const queue_;
  const uint32_t token_;
  const edge::Buffer in_;
  const edge::Buffer out_;
  const Wait wait_;
};

// gpud has just been started and may not be up yet.
absl::StatusOr<std::unique_ptr<edge::Device>> AttachTo(
    const std::string& testbed, size_t index) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    auto device = edge::Device::Attach(
        {.testbed_directory = testbed,
         .name = fmt::format("bench-{}-{}", getpid(), index),
         .kind = "bench",
         .submission_bytes = kApertureBytes,
         .completion_bytes = kApertureBytes});
    if (!absl::IsUnavailable(device.status()) ||
        std::chrono::steady_clock::now() >= deadline) {
      return device;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// A null event that is never rung.
absl::Status RegisterSilent(edge::Device& device) {
  edge::EventSpec spec{.max_in_flight = 1};
  spec.kernel = "null_event";
  spec.parameters = {edge::Writable("token")};
  return edge::edgeRegisterEvent(device, spec).status();
}

// Half of the others are there before the one that rings.
template <Kernel kKernel, size_t kKernels = 1, size_t kDevices = 1,
          uint32_t kSlots = kEntries>
absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& testbed,
                                                Wait wait) {
  std::vector<std::unique_ptr<edge::Device>> silent;
  const auto add_silent = [&](size_t until) {
    while (silent.size() < until) {
      ASSIGN_OR_RETURN(auto one, AttachTo(testbed, silent.size() + 1));
      RETURN_IF_ERROR(RegisterSilent(*one));
      silent.push_back(std::move(one));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add_silent((kDevices - 1) / 2));
  ASSIGN_OR_RETURN(auto device, AttachTo(testbed, 0));
  for (size_t i = 0; i < (kKernels - 1) / 2; ++i) {
    RETURN_IF_ERROR(RegisterSilent(*device));
  }
  edge::EventSpec spec{.max_in_flight = kSlots};
  edge::Buffer in, out;
  if constexpr (kKernel == Kernel::kEcho) {
    ASSIGN_OR_RETURN(in, device->AllocateBuffer(edge::Place::kInput,
                                                kSlots * sizeof(Message)));
    ASSIGN_OR_RETURN(out, device->AllocateBuffer(edge::Place::kOutput,
                                                 kSlots * sizeof(Message)));
    const edge::BufferPart slots{.length = sizeof(Message),
                                 .slot_stride = sizeof(Message)};
    spec.kernel = "echo";
    spec.parameters = {edge::Fixed("in", in, slots),
                       edge::Fixed("out", out, slots)};
  } else {
    spec.kernel = "null_event";
    spec.parameters = {edge::Writable("token")};
  }
  ASSIGN_OR_RETURN(auto queue, edge::edgeRegisterEvent(*device, spec));
  uint32_t token = 0;
  if constexpr (kKernel == Kernel::kNull) {
    ASSIGN_OR_RETURN(token, queue->ParameterOffset("token"));
  }
  for (size_t i = (kKernels - 1) / 2 + 1; i < kKernels; ++i) {
    RETURN_IF_ERROR(RegisterSilent(*device));
  }
  RETURN_IF_ERROR(add_silent(kDevices - 1));
  return std::make_unique<EventClient<kKernel>>(
      std::move(silent), std::move(device), queue, token, in, out, wait);
}

template <size_t kKernels, size_t kDevices>
Transport Crowd(std::string_view name) {
  return {.name = name,
          .label = "Carillon null event, among others that are silent",
          .serve = nullptr,
          .connect = &Connect<Kernel::kNull, kKernels, kDevices>};
}

}  // namespace

Transport EventEcho() {
  return {.name = "event_echo",
          .label = "Carillon event (device, gpud, echo kernel)",
          .serve = nullptr,
          .connect = &Connect<Kernel::kEcho>};
}
Transport EventNull() {
  return {.name = "event_null",
          .label = "Carillon null event (device, gpud, kernel)",
          .serve = nullptr,
          .connect = &Connect<Kernel::kNull>};
}

Connection NullEventsOverALink() {
  return &Connect<Kernel::kNull, 1, 1, kLinkEntries>;
}
Connection EchoEventsOverALink() {
  return &Connect<Kernel::kEcho, 1, 1, kLinkEntries>;
}

std::span<const Transport> EventNullCrowds() {
  static const Transport kAll[] = {
      Crowd<16, 1>("event_null_16_kernels"),
      Crowd<64, 1>("event_null_64_kernels"),
      Crowd<256, 1>("event_null_256_kernels"),
      Crowd<1024, 1>("event_null_1024_kernels"),
      Crowd<1, 3>("event_null_3_devices"),
      Crowd<1, 15>("event_null_15_devices"),
      Crowd<1, 31>("event_null_31_devices"),
      Crowd<1, 32>("event_null_32_devices"),
  };
  return kAll;
}

}  // namespace carillon::bench
