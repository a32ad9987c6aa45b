// A device of this host whose session is with another host's gpud: its two
// apertures here, which the link makes the same as those there, turn by turn.
#ifndef CARILLON_GPU_DAEMON_RELAY_RELAYED_SESSION_H_
#define CARILLON_GPU_DAEMON_RELAY_RELAYED_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "mesh/session/memory_changes.h"
#include "proto/link.pb.h"
#include "shm/aperture.h"
#include "shm/layout.h"
#include "shm/simulated_time.h"
#include "shm/wakeups.h"

namespace carillon::gpud {

// Thread safe. A thread of its own waits for the device's answers.
class RelayedSession {
 public:
  using Send = std::function<void(const v1::SessionStep&)>;

  // `fetched` is the other host's answer, and has the first turn. Errors:
  // InvalidArgument: no aperture is like that; ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<RelayedSession>> Make(
      const v1::FetchedSession& fetched, Send send);
  ~RelayedSession();

  // Errors: Unavailable.
  absl::Status HandOver(int connection) const;
  // Tells the other host what the device has written so far.
  void SendChanges();
  // False: it is not what that host may say.
  bool Store(const v1::ChangedMemory& changed) const;
  void GiveTurn(Nanoseconds now);
  // The device sees why. Once.
  void Close(shm::CloseReason why);

  uint32_t device_id() const { return device_id_; }

 private:
  RelayedSession(const v1::FetchedSession& fetched, Send send,
                 shm::Aperture submission, shm::Aperture completion,
                 shm::CompletionEvent event);
  void WaitForAnswers();
  void SendChangesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time of the next turn, if the device has answered the last one and that
  // is not sent.
  std::optional<Nanoseconds> Answer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t id_;
  const uint32_t device_id_;
  const shm::Generation generation_;
  const Send send_;
  const shm::Aperture submission_;
  const shm::Aperture completion_;
  const shm::CompletionEvent event_;
  const shm::CompletionBell bell_;
  Mutex mutex_;
  mesh::MemoryChanges changes_ ABSL_GUARDED_BY(mutex_);
  shm::TurnGiver turns_ ABSL_GUARDED_BY(mutex_);
  bool answer_is_due_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<uint32_t> stop_{0};  // a futex word
  std::thread thread_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_RELAY_RELAYED_SESSION_H_
