// A session of another host's device, in simulated time: to this host's gpud it
// is a device like any other, and what it does comes by the link.
#ifndef CARILLON_DEVICES_LINK_LINKED_SESSION_H_
#define CARILLON_DEVICES_LINK_LINKED_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "mesh/session/memory_changes.h"
#include "proto/link.pb.h"
#include "shm/aperture.h"
#include "shm/handover.h"
#include "shm/simulated_time.h"
#include "shm/wakeups.h"

namespace carillon::link {

// Thread safe. A thread of its own waits for turns.
class LinkedSession {
 public:
  using Send = std::function<void(const v1::SessionStep&)>;

  // What gpud has handed over, with the first turn. Errors: as
  // Aperture::Map(); FailedPrecondition: gpud lives in wall time.
  static absl::StatusOr<std::unique_ptr<LinkedSession>> Open(
      uint64_t id, shm::HandedOver handed, Send send);
  // gpud ends the session.
  ~LinkedSession();

  // What the other host hears of it; turns that follow the first one are sent
  // from Start() on.
  v1::FetchedSession Describe() const;
  void Start();
  // Tells the other host what gpud and its kernels have written so far.
  void SendChanges();
  // False: it is not what a device may write.
  bool Store(const v1::ChangedMemory& changed) const;
  void AnswerTurn(Nanoseconds next);

  // Readable: gpud has ended the session.
  int connection_fd() const { return handed_.connection.get(); }
  // Why, as far as gpud has said.
  shm::CloseReason close_reason() const { return waiter_.close_reason(); }

 private:
  LinkedSession(uint64_t id, shm::HandedOver handed, shm::Aperture submission,
                shm::Aperture completion, Send send);
  void WaitForTurns();
  void SendChangesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t id_;
  const shm::HandedOver handed_;
  const shm::Aperture submission_;
  const shm::Aperture completion_;
  const Send send_;
  shm::ClosedWord closed_;
  shm::CompletionWaiter waiter_;
  Mutex mutex_;
  mesh::MemoryChanges changes_ ABSL_GUARDED_BY(mutex_);
  shm::TurnTaker turns_ ABSL_GUARDED_BY(mutex_);
  Nanoseconds first_ns_ = 0;
  std::thread thread_;
};

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_LINKED_SESSION_H_
