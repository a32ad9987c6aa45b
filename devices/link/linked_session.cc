#include "devices/link/linked_session.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "base/status.h"

namespace carillon::link {
namespace {

// How often linkd says for the device that it is alive: whether it is, the other
// host sees.
constexpr std::chrono::milliseconds kAlive{100};
constexpr std::chrono::microseconds kSpin{20};

}  // namespace

absl::StatusOr<std::unique_ptr<LinkedSession>> LinkedSession::Open(
    uint64_t id, shm::HandedOver handed, Send send) {
  ASSIGN_OR_RETURN(
      auto submission,
      shm::Aperture::Map(std::move(handed.submission),
                         shm::RegionKind::kSubmission, handed.generation));
  ASSIGN_OR_RETURN(
      auto completion,
      shm::Aperture::Map(std::move(handed.completion),
                         shm::RegionKind::kCompletion, handed.generation));
  std::unique_ptr<LinkedSession> session(
      new LinkedSession(id, std::move(handed), std::move(submission),
                        std::move(completion), std::move(send)));
  MutexLock lock(session->mutex_);
  // gpud gives the first turn before it hands the apertures over.
  if (!session->turns_.Take()) {
    return absl::FailedPreconditionError(
        "gpud of the GPU's host lives in wall time");
  }
  session->first_ns_ = session->turns_.now();
  return session;
}

LinkedSession::LinkedSession(uint64_t id, shm::HandedOver handed,
                             shm::Aperture submission, shm::Aperture completion,
                             Send send)
    : id_(id),
      handed_(std::move(handed)),
      submission_(std::move(submission)),
      completion_(std::move(completion)),
      send_(std::move(send)),
      waiter_(&submission_, &completion_, &closed_),
      changes_(&completion_),
      turns_(&submission_, &completion_) {}

LinkedSession::~LinkedSession() {
  closed_.Close();
  if (thread_.joinable()) thread_.join();
}

void LinkedSession::Start() {
  thread_ = std::thread([this] { WaitForTurns(); });
}

v1::FetchedSession LinkedSession::Describe() const {
  v1::FetchedSession fetched;
  fetched.set_session(id_);
  fetched.set_device_id(handed_.device_id);
  fetched.set_generation(handed_.generation.value());
  fetched.set_submission_heap(submission_.heap_size());
  fetched.set_completion_heap(completion_.heap_size());
  fetched.set_doorbells(submission_.doorbell_count());
  fetched.set_now_ns(first_ns_);
  return fetched;
}

void LinkedSession::SendChanges() {
  MutexLock lock(mutex_);
  SendChangesLocked();
}

void LinkedSession::SendChangesLocked() {
  changes_.Collect(id_, [&](v1::ChangedMemory changed) {
    v1::SessionStep step;
    *step.mutable_changed() = std::move(changed);
    send_(step);
  });
}

bool LinkedSession::Store(const v1::ChangedMemory& changed) const {
  return mesh::StoreChanges(changed, submission_);
}

void LinkedSession::AnswerTurn(Nanoseconds next) {
  MutexLock lock(mutex_);
  turns_.Answer(next);
}

void LinkedSession::WaitForTurns() {
  pthread_setname_np(pthread_self(), "linkd-turns");
  while (!waiter_.closed()) {
    std::atomic_ref<uint64_t>(submission_.submission_control().heartbeat_ns)
        .store(NowNs(), std::memory_order_relaxed);
    bool taken = false;
    waiter_.WaitUntil(
        [&] {
          if (taken) return true;
          MutexLock lock(mutex_);
          if (!turns_.Take()) return false;
          // Time stands: nobody but the device writes any more.
          SendChangesLocked();
          v1::SessionStep step;
          step.mutable_turn()->set_session(id_);
          step.mutable_turn()->set_now_ns(turns_.now());
          send_(step);
          taken = true;
          return true;
        },
        kAlive, kSpin);
  }
}

}  // namespace carillon::link
