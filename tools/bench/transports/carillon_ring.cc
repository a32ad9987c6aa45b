#include <array>
#include <atomic>
#include <cstring>

#include "base/status.h"
#include "fmt/format.h"
#include "shm/device_ring.h"
#include "shm/gpu_ring.h"
#include "shm/region_heap.h"
#include "shm/wakeups.h"
#include "tools/bench/transports/memory.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

constexpr uint32_t kEntries = 256;
static_assert(kEntries > kMaxWindow);
constexpr uint64_t kHeapBytes = 256 * 1024;
constexpr shm::Generation kGeneration{1};

enum class Payload { kMessage, kNull };

// Both sides compute the same layout independently.
struct Geometry {
  shm::RingLayout ring;
  uint64_t replies;  // in the completion aperture: 64 bytes a slot
};
Geometry GeometryFor(const shm::Aperture& submission,
                     const shm::Aperture& completion, Payload payload) {
  shm::RegionHeap in(submission.heap_offset(), submission.heap_size());
  shm::RegionHeap out(completion.heap_offset(), completion.heap_size());
  Geometry geometry;
  geometry.ring = shm::MakeRingLayout(
      kEntries, payload == Payload::kMessage ? sizeof(Message) : 8, false);
  geometry.ring.generation = kGeneration;
  geometry.ring.esq_offset = *in.Allocate(geometry.ring.esq_bytes());
  geometry.ring.ecq_offset = *out.Allocate(geometry.ring.ecq_bytes());
  geometry.ring.life_offset = *out.Allocate(geometry.ring.life_bytes());
  geometry.replies = *out.Allocate(kEntries * sizeof(Message));
  return geometry;
}

// Does what gpud does for a ring, without the rest of an event.
template <Payload kPayload>
class Server {
 public:
  Server(const shm::Aperture& submission, const shm::Aperture& completion,
         Wait wait)
      : wait_(wait),
        geometry_(GeometryFor(submission, completion, kPayload)),
        ring_(geometry_.ring, &submission, &completion),
        bell_(&submission, &completion, -1),
        replies_(completion.At(geometry_.replies)),
        summary_(&submission.submission_control().summary),
        armed_(completion.completion_control().gpud_armed) {}

  [[noreturn]] void Run() {
    while (true) {
      WaitForRings();
      while (seen_ != rung_) {
        ++seen_;
        Answer(++sequence_);
      }
      if (wait_ != Wait::kSpins) bell_.Signal();
    }
  }

 private:
  bool Rung() {
    rung_ = ring_.LoadDoorbell();
    return rung_ != seen_;
  }
  void Answer(shm::Sequence sequence) {
    const shm::RingLayout& layout = ring_.layout();
    alignas(64) std::byte entry[128];
    ring_.CopyEntry(sequence, entry,
                    layout.parameter_offset + layout.parameter_bytes);
    if constexpr (kPayload == Payload::kMessage) {
      std::memcpy(replies_ + layout.SlotOf(sequence) * sizeof(Message),
                  entry + layout.parameter_offset, sizeof(Message));
    }
    ring_.Complete(sequence, shm::EventState::kDone, 0);
  }
  void WaitForRings() {
    const auto look = [this] { return Rung(); };
    while (!WaitUntil(wait_, kServerSpin, look, [this] { return Sleep(); })) {
    }
  }
  // As in shm/waiting.h: arm, read the summary word, look again, sleep.
  bool Sleep() {
    if (Rung()) return true;
    armed_.store(1, std::memory_order_seq_cst);
    while (true) {
      const uint32_t summary =
          std::atomic_ref<uint32_t>(*summary_).load(std::memory_order_seq_cst);
      if (Rung()) break;
      const std::array<shm::FutexWord, 1> words = {
          shm::FutexWord{summary_, summary}};
      shm::FutexWait(words, kPatience);
    }
    armed_.store(0, std::memory_order_relaxed);
    return true;
  }

  const Wait wait_;
  const Geometry geometry_;
  const shm::GpuRing ring_;
  const shm::CompletionBell bell_;
  std::byte* const replies_;
  uint32_t* const summary_;
  std::atomic_ref<uint32_t> armed_;
  uint32_t seen_ = 0;
  uint32_t rung_ = 0;
  shm::Sequence sequence_;
};

template <Payload kPayload>
absl::Status Serve(const std::string&, Wait wait, AnnounceReady ready) {
  ASSIGN_OR_RETURN(const auto submission,
                   shm::Aperture::Create({.kind = shm::RegionKind::kSubmission,
                                          .heap_bytes = kHeapBytes,
                                          .generation = kGeneration}));
  ASSIGN_OR_RETURN(const auto completion,
                   shm::Aperture::Create({.kind = shm::RegionKind::kCompletion,
                                          .heap_bytes = kHeapBytes,
                                          .generation = kGeneration}));
  Server<kPayload> server(submission, completion, wait);
  ready(fmt::format("{} {}", PathOfDescriptor(submission.fd()),
                    PathOfDescriptor(completion.fd())));
  server.Run();
}

template <Payload kPayload>
class RingClient final : public Client {
 public:
  RingClient(shm::Aperture submission, shm::Aperture completion, Wait wait)
      : submission_(std::move(submission)),
        completion_(std::move(completion)),
        geometry_(GeometryFor(submission_, completion_, kPayload)),
        ring_(geometry_.ring, &submission_, &completion_),
        waiter_(&submission_, &completion_, &closed_),
        wait_(wait) {}

  absl::Status Send(const Message& request) override {
    std::memcpy(ring_.parameters(), &request,
                kPayload == Payload::kMessage ? sizeof(request) : 8);
    ring_.Commit();
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    ring_.RingDoorbell();
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    std::optional<shm::Completion> completion;
    const auto ready = [&] { return (completion = ring_.Poll()).has_value(); };
    const auto sleep = [&] {
      return waiter_.WaitUntil(ready, kPatience, std::chrono::nanoseconds(0));
    };
    if (!WaitUntil(wait_, kClientSpin, ready, sleep)) return Silent();
    if constexpr (kPayload == Payload::kMessage) {
      const uint32_t slot = geometry_.ring.SlotOf(completion->sequence);
      std::memcpy(reply,
                  completion_.At(geometry_.replies) + slot * sizeof(Message),
                  sizeof(*reply));
    } else {
      reply->sequence = completion->sequence.value() - 1;
    }
    ring_.Consume();
    return absl::OkStatus();
  }

 private:
  const shm::Aperture submission_;
  const shm::Aperture completion_;
  const Geometry geometry_;
  shm::DeviceRing ring_;
  shm::ClosedWord closed_;
  shm::CompletionWaiter waiter_;
  const Wait wait_;
};

template <Payload kPayload>
absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                Wait wait) {
  const size_t space = endpoint.find(' ');
  if (space == std::string::npos) {
    return absl::InvalidArgumentError("an endpoint of a ring is two paths");
  }
  ASSIGN_OR_RETURN(auto in, OpenDescriptor(endpoint.substr(0, space), true));
  ASSIGN_OR_RETURN(auto out, OpenDescriptor(endpoint.substr(space + 1), false));
  ASSIGN_OR_RETURN(
      auto submission,
      shm::Aperture::Map(std::move(in), shm::RegionKind::kSubmission,
                         kGeneration));
  ASSIGN_OR_RETURN(
      auto completion,
      shm::Aperture::Map(std::move(out), shm::RegionKind::kCompletion,
                         kGeneration));
  return std::make_unique<RingClient<kPayload>>(std::move(submission),
                                                std::move(completion), wait);
}

}  // namespace

Transport Ring() {
  return {.name = "ring",
          .label = "Carillon ring",
          .serve = &Serve<Payload::kMessage>,
          .connect = &Connect<Payload::kMessage>};
}
Transport RingNull() {
  return {.name = "ring_null",
          .label = "Carillon ring, no payload",
          .serve = &Serve<Payload::kNull>,
          .connect = &Connect<Payload::kNull>};
}

}  // namespace carillon::bench
