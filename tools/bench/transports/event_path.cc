#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/status.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

using std::chrono_literals::operator""us;

constexpr uint32_t kEntries = 256;
static_assert(kEntries > kMaxWindow);

enum class Kernel { kEcho, kNull };

template <Kernel kKernel>
class EventClient final : public Client {
 public:
  EventClient(std::unique_ptr<edge::Device> device, edge::EventQueue* queue,
              uint32_t token, edge::Buffer in, edge::Buffer out, Wait wait)
      : device_(std::move(device)),
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
  const std::unique_ptr<edge::Device> device_;
  edge::EventQueue* const queue_;
  const uint32_t token_;
  const edge::Buffer in_;
  const edge::Buffer out_;
  const Wait wait_;
};

// gpud has just been started and may not be up yet.
absl::StatusOr<std::unique_ptr<edge::Device>> AttachTo(
    const std::string& testbed) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    auto device =
        edge::Device::Attach({.testbed_directory = testbed,
                              .name = fmt::format("bench-{}", getpid()),
                              .kind = "bench"});
    if (!absl::IsUnavailable(device.status()) ||
        std::chrono::steady_clock::now() >= deadline) {
      return device;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

template <Kernel kKernel>
absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& testbed,
                                                Wait wait) {
  ASSIGN_OR_RETURN(auto device, AttachTo(testbed));
  edge::EventSpec spec{.max_in_flight = kEntries};
  edge::Buffer in, out;
  if constexpr (kKernel == Kernel::kEcho) {
    ASSIGN_OR_RETURN(in, device->AllocateBuffer(edge::Place::kInput,
                                                kEntries * sizeof(Message)));
    ASSIGN_OR_RETURN(out, device->AllocateBuffer(edge::Place::kOutput,
                                                 kEntries * sizeof(Message)));
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
  return std::make_unique<EventClient<kKernel>>(std::move(device), queue, token,
                                                in, out, wait);
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

}  // namespace carillon::bench
