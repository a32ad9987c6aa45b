#include <array>
#include <atomic>

#include "base/status.h"
#include "tools/bench/transports/memory.h"
#include "tools/bench/transports/transports.h"

namespace carillon::bench {
namespace {

// One side increments and wakes each word; the other sleeps on it.
struct FutexWords {
  alignas(128) uint32_t request;
  alignas(128) uint32_t reply;
};

void Bump(uint32_t* word) { shm::BumpAndWake(word); }

absl::Status SleepWhile(uint32_t* word, uint32_t seen) {
  while (std::atomic_ref<uint32_t>(*word).load(std::memory_order_acquire) ==
         seen) {
    const std::array<shm::FutexWord, 1> words = {shm::FutexWord{word, seen}};
    if (shm::FutexWait(words, kPatience) == shm::WaitResult::kTimedOut) {
      return absl::DeadlineExceededError("the other side does not answer");
    }
  }
  return absl::OkStatus();
}

absl::Status Serve(const std::string&, AnnounceReady ready) {
  std::string path;
  ASSIGN_OR_RETURN(const auto memory,
                   MakeSharedMemory(sizeof(FutexWords), &path));
  auto* words = static_cast<FutexWords*>(memory);
  ready(path);
  for (uint32_t seen = 0;; ++seen) {
    while (!SleepWhile(&words->request, seen).ok()) {
    }
    Bump(&words->reply);
  }
}

// A wake carries no message, so there is one at a time and the reply is the
// request.
class FutexClient final : public Client {
 public:
  explicit FutexClient(FutexWords* words) : words_(words) {}

  absl::Status Send(const Message& request) override {
    request_ = request;
    Bump(&words_->request);
    return absl::OkStatus();
  }
  absl::Status Receive(Message* reply) override {
    const auto status = SleepWhile(&words_->reply, received_);
    ++received_;
    *reply = request_;
    return status;
  }

 private:
  FutexWords* const words_;
  Message request_;
  uint32_t received_ = 0;
};

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& endpoint,
                                                std::chrono::nanoseconds) {
  ASSIGN_OR_RETURN(const auto memory,
                   MapSharedMemory(endpoint, sizeof(FutexWords)));
  return std::make_unique<FutexClient>(static_cast<FutexWords*>(memory));
}

}  // namespace

Transport FutexWake() {
  return {.name = "futex_wake",
          .label = "bare futex wake each way",
          .serve = &Serve,
          .connect = &Connect};
}

}  // namespace carillon::bench
