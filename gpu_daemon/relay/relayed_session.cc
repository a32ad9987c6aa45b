#include "gpu_daemon/relay/relayed_session.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "base/status.h"
#include "shm/handover.h"
#include "shm/waiting.h"

namespace carillon::gpud {
namespace {

// How often this host says that it is alive.
constexpr std::chrono::milliseconds kAlive{100};

}  // namespace

absl::StatusOr<std::unique_ptr<RelayedSession>> RelayedSession::Make(
    const v1::FetchedSession& fetched, Send send) {
  // Addresses alone: memory comes to what is touched, and the other host's gpud
  // has said that there may be as much.
  const auto create = [&](shm::RegionKind kind, uint64_t heap) {
    return shm::Aperture::Create(
        {.kind = kind,
         .growth_bytes = heap,
         .generation = shm::Generation(fetched.generation()),
         .device_id = fetched.device_id(),
         .doorbell_count = fetched.doorbells()});
  };
  ASSIGN_OR_RETURN(auto submission, create(shm::RegionKind::kSubmission,
                                           fetched.submission_heap()));
  ASSIGN_OR_RETURN(auto completion, create(shm::RegionKind::kCompletion,
                                           fetched.completion_heap()));
  ASSIGN_OR_RETURN(auto event, shm::CompletionEvent::Create());
  std::unique_ptr<RelayedSession> session(
      new RelayedSession(fetched, std::move(send), std::move(submission),
                         std::move(completion), std::move(event)));
  session->GiveTurn(fetched.now_ns());
  session->thread_ =
      std::thread([self = session.get()] { self->WaitForAnswers(); });
  return session;
}

RelayedSession::RelayedSession(const v1::FetchedSession& fetched, Send send,
                               shm::Aperture submission,
                               shm::Aperture completion,
                               shm::CompletionEvent event)
    : id_(fetched.session()),
      device_id_(fetched.device_id()),
      generation_(fetched.generation()),
      send_(std::move(send)),
      submission_(std::move(submission)),
      completion_(std::move(completion)),
      event_(std::move(event)),
      bell_(&submission_, &completion_, event_.writer.get()),
      changes_(&submission_),
      turns_(&submission_, &completion_) {}

RelayedSession::~RelayedSession() {
  stop_.store(1, std::memory_order_seq_cst);
  shm::FutexWakeAll(reinterpret_cast<const uint32_t*>(&stop_));
  if (thread_.joinable()) thread_.join();
}

absl::Status RelayedSession::HandOver(int connection) const {
  return shm::SendApertures(connection, device_id_, generation_,
                            submission_.fd(), completion_.fd(),
                            event_.reader.get());
}

void RelayedSession::SendChanges() {
  MutexLock lock(mutex_);
  SendChangesLocked();
}

void RelayedSession::SendChangesLocked() {
  changes_.Collect(id_, [&](v1::ChangedMemory changed) {
    v1::SessionStep step;
    *step.mutable_changed() = std::move(changed);
    send_(step);
  });
}

bool RelayedSession::Store(const v1::ChangedMemory& changed) const {
  return mesh::StoreChanges(changed, completion_);
}

void RelayedSession::GiveTurn(Nanoseconds now) {
  {
    MutexLock lock(mutex_);
    turns_.Give(now);
    answer_is_due_ = true;
  }
  bell_.Signal();
}

void RelayedSession::Close(shm::CloseReason why) {
  std::atomic_ref<uint32_t>(completion_.completion_control().closed)
      .store(static_cast<uint32_t>(why), std::memory_order_seq_cst);
  bell_.SignalAlways();
}

std::optional<Nanoseconds> RelayedSession::Answer() {
  return answer_is_due_ ? turns_.Answer() : std::nullopt;
}

void RelayedSession::WaitForAnswers() {
  pthread_setname_np(pthread_self(), "gpud-turns");
  shm::DoorbellWaiter waiter;
  waiter.Watch(submission_, completion_);
  const auto stops = [&] { return stop_.load(std::memory_order_seq_cst) != 0; };
  while (!stops()) {
    std::atomic_ref<uint64_t>(completion_.completion_control().heartbeat_ns)
        .store(NowNs(), std::memory_order_relaxed);
    waiter.SleepUnless(
        [&] {
          MutexLock lock(mutex_);
          return stops() || Answer().has_value();
        },
        {reinterpret_cast<const uint32_t*>(&stop_), 0}, kAlive);
    MutexLock lock(mutex_);
    const auto next = Answer();
    if (!next) continue;
    answer_is_due_ = false;
    // What it has rung goes first.
    SendChangesLocked();
    v1::SessionStep step;
    step.mutable_answer()->set_session(id_);
    step.mutable_answer()->set_next_ns(*next);
    send_(step);
  }
}

}  // namespace carillon::gpud
