#include <atomic>
#include <cstring>

#include "base/status.h"
#include "tools/bench/transports/memory.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

constexpr uint64_t kSlots = 256;
static_assert(kSlots > kMaxWindow);

// Free-running indices. The producer writes `published` after the slot. A
// sender never has more than kMaxWindow unanswered messages, so nothing can
// overrun and the consumer's index is private.
struct OneWay {
  alignas(128) std::atomic<uint64_t> published;
  alignas(128) Message slots[kSlots];

  void Put(uint64_t index, const Message& message) {
    std::memcpy(&slots[index % kSlots], &message, sizeof(message));
  }
  void Publish(uint64_t count) {
    published.store(count, std::memory_order_release);
  }
  bool Has(uint64_t index) const {
    return published.load(std::memory_order_acquire) > index;
  }
  void Get(uint64_t index, Message* message) const {
    std::memcpy(message, &slots[index % kSlots], sizeof(*message));
  }
};
struct BothWays {
  OneWay requests;
  OneWay replies;
};

absl::Status Serve(const std::string&, AnnounceReady ready) {
  std::string path;
  ASSIGN_OR_RETURN(const auto memory,
                   MakeSharedMemory(sizeof(BothWays), &path));
  auto* rings = static_cast<BothWays*>(memory);
  ready(path);
  for (uint64_t done = 0;;) {
    if (!rings->requests.Has(done)) {
      shm::CpuRelax();
      continue;
    }
    Message message;
    rings->requests.Get(done, &message);
    rings->replies.Put(done, message);
    rings->replies.Publish(++done);
  }
}

class PlainRingClient final : public Client {
 public:
  explicit PlainRingClient(BothWays* rings) : rings_(rings) {}

  absl::Status Send(const Message& request) override {
    rings_->requests.Put(sent_++, request);
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    rings_->requests.Publish(sent_);
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    const auto status =
        SpinUntil([&] { return rings_->replies.Has(received_); });
    if (!status.ok()) return status;
    rings_->replies.Get(received_++, reply);
    return absl::OkStatus();
  }

 private:
  BothWays* const rings_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                std::chrono::nanoseconds) {
  ASSIGN_OR_RETURN(const auto memory,
                   MapSharedMemory(endpoint, sizeof(BothWays)));
  return std::make_unique<PlainRingClient>(static_cast<BothWays*>(memory));
}

}  // namespace

Transport PlainRing() {
  return {.name = "plain_ring",
          .label = "textbook SPSC ring, spinning",
          .serve = &Serve,
          .connect = &Connect};
}

}  // namespace carillon::bench
