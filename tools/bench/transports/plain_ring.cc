#include <cstring>

#include "base/status.h"
#include "tools/bench/transports/memory.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

constexpr uint32_t kSlots = 256;
static_assert(kSlots > kMaxWindow);

// Free-running indices. The producer writes `published` after the slot. A
// sender never has more than kMaxWindow unanswered messages, so nothing can
// overrun and the consumer's index is private: the ring is empty when both are
// equal.
struct OneWay {
  alignas(128) uint32_t published;
  alignas(128) Message slots[kSlots];

  void Put(uint32_t index, const Message& message) {
    std::memcpy(&slots[index % kSlots], &message, sizeof(message));
  }
  void Get(uint32_t index, Message* message) const {
    std::memcpy(message, &slots[index % kSlots], sizeof(*message));
  }
};
struct BothWays {
  OneWay requests;
  OneWay replies;
};

absl::Status Serve(const std::string&, Wait wait, AnnounceReady ready) {
  std::string path;
  ASSIGN_OR_RETURN(const auto memory,
                   MakeSharedMemory(sizeof(BothWays), &path));
  auto* rings = static_cast<BothWays*>(memory);
  ready(path);
  for (uint32_t done = 0;;) {
    if (!WaitForWord(&rings->requests.published, done, wait, kServerSpin)) {
      continue;
    }
    Message message;
    rings->requests.Get(done, &message);
    rings->replies.Put(done, message);
    PublishWord(&rings->replies.published, ++done, wait);
  }
}

class PlainRingClient final : public Client {
 public:
  PlainRingClient(BothWays* rings, Wait wait) : rings_(rings), wait_(wait) {}

  absl::Status Send(const Message& request) override {
    rings_->requests.Put(sent_++, request);
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    PublishWord(&rings_->requests.published, sent_, wait_);
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    if (!WaitForWord(&rings_->replies.published, received_, wait_,
                     kClientSpin)) {
      return Silent();
    }
    rings_->replies.Get(received_++, reply);
    return absl::OkStatus();
  }

 private:
  BothWays* const rings_;
  const Wait wait_;
  uint32_t sent_ = 0;
  uint32_t received_ = 0;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                Wait wait) {
  ASSIGN_OR_RETURN(const auto memory,
                   MapSharedMemory(endpoint, sizeof(BothWays)));
  return std::make_unique<PlainRingClient>(static_cast<BothWays*>(memory),
                                           wait);
}

}  // namespace

Transport PlainRing() {
  return {.name = "plain_ring",
          .label = "textbook SPSC ring",
          .serve = &Serve,
          .connect = &Connect};
}

}  // namespace carillon::bench
