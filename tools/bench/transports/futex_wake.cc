#include "base/status.h"
#include "tools/bench/transports/memory.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

// One side increments each word; the other waits for it.
struct FutexWords {
  alignas(128) uint32_t request;
  alignas(128) uint32_t reply;
};

absl::Status Serve(const std::string&, Wait wait, AnnounceReady ready) {
  std::string path;
  ASSIGN_OR_RETURN(const auto memory,
                   MakeSharedMemory(sizeof(FutexWords), &path));
  auto* words = static_cast<FutexWords*>(memory);
  ready(path);
  for (uint32_t seen = 0;; ++seen) {
    while (!WaitForWord(&words->request, seen, wait, kServerSpin)) {
    }
    PublishWord(&words->reply, seen + 1, wait);
  }
}

// A wake carries no message, so there is one at a time and the reply is the
// request.
class FutexClient final : public Client {
 public:
  FutexClient(FutexWords* words, Wait wait) : words_(words), wait_(wait) {}

  absl::Status Send(const Message& request) override {
    request_ = request;
    PublishWord(&words_->request, received_ + 1, wait_);
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    if (!WaitForWord(&words_->reply, received_, wait_, kClientSpin)) {
      return Silent();
    }
    ++received_;
    *reply = request_;
    return absl::OkStatus();
  }

 private:
  FutexWords* const words_;
  const Wait wait_;
  Message request_;
  uint32_t received_ = 0;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                Wait wait) {
  ASSIGN_OR_RETURN(const auto memory,
                   MapSharedMemory(endpoint, sizeof(FutexWords)));
  return std::make_unique<FutexClient>(static_cast<FutexWords*>(memory), wait);
}

}  // namespace

Transport FutexWake() {
  return {.name = "futex_wake",
          .label = "one word each way",
          .serve = &Serve,
          .connect = &Connect};
}

}  // namespace carillon::bench
