// The sessions of all devices, by token and by device. Sessions end only here.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_TABLE_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/net/ticket_store.h"
#include "gpu_daemon/control/sessions/session.h"
#include "gpu_daemon/control/sessions/session_context.h"
#include "proto/devices.pb.h"
#include "shm/waiting.h"

namespace carillon::gpud {

// Why a session ends.
enum class SessionEnd {
  kDetached,
  kDied,
  kEvicted,
  kSilent,
  kLinkLost,  // the link to another host carries it no more
  kShutdown,
  kRestart,
  kNeverFetched
};

// Thread safe.
class SessionTable {
 public:
  // A front-end sleeps on all of them and on its mailbox, in one futex_waitv.
  static constexpr size_t kMaxSessions = 127;
  static_assert(kMaxSessions == shm::kMaxFutexWords - 1);

  // `most_of_a_process` bounds the sessions of one process, so that none can
  // keep all others out.
  SessionTable(SessionContext* context, TicketStore* tickets,
               size_t most_of_a_process)
      : context_(context),
        tickets_(tickets),
        most_of_a_process_(most_of_a_process) {}

  // Makes the apertures and a ticket for them. Errors: InvalidArgument (names,
  // sizes), FailedPrecondition (layout version), AlreadyExists (naming the pid
  // that has the name), ResourceExhausted, Unavailable (shutting down).
  absl::StatusOr<v1::AttachResponse> Attach(
      const v1::AttachRequest& request,
      const std::shared_ptr<const Peer>& caller);

  // Errors: NotFound UNKNOWN_SESSION (saying how it ended, if it was there),
  // PermissionDenied OTHER_PROCESS.
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& token,
                                                const Peer& caller) const;
  // Null if there is none.
  std::shared_ptr<Session> FindDevice(uint32_t device_id) const;
  // By device id.
  std::vector<std::shared_ptr<Session>> All() const;

  // Ends a session and publishes that; returns how many events were aborted. Of
  // several calls, the first one counts. `detail` says more about an eviction
  // or a lost link.
  uint64_t End(const std::shared_ptr<Session>& session, SessionEnd ending,
               const std::string& detail = "");
  void EndDevice(uint32_t device_id, SessionEnd ending);
  void EndDevice(const DeviceMemory* memory, SessionEnd ending,
                 const std::string& detail);
  // Ticks every session, and ends those whose device has touched memory that it
  // was not given, or has been silent for longer than `lease_ns` and has no
  // debugger; 0 means never. To be called every few hundred milliseconds by one
  // thread.
  void Tick(Nanoseconds now, Nanoseconds lease_ns);
  // Ends the sessions of a process that is dead.
  void PeerDied(const Peer& peer);
  // Refuses Attach from now on and ends everything, as kShutdown or kRestart.
  void Shutdown(SessionEnd ending);

 private:
  struct Ended {
    std::string token;
    std::string sentence;
  };
  static constexpr size_t kMaxRemembered = 64;
  // If more time is between two ticks, gpud itself was stopped.
  static constexpr Nanoseconds kMaxTickNs = 1'000'000'000;

  absl::Status Reserve(const std::string& name, pid_t pid);
  void Unreserve(const std::string& name);
  absl::StatusOr<std::shared_ptr<Session>> MakeSession(
      const v1::AttachRequest& request,
      const std::shared_ptr<const Peer>& caller, uint32_t device_id);

  SessionContext* const context_;
  TicketStore* const tickets_;
  const size_t most_of_a_process_;

  Nanoseconds last_tick_ns_ = 0;  // only the thread that ticks uses it
  mutable Mutex mutex_;
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t next_device_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<std::string, pid_t> names_
      ABSL_GUARDED_BY(mutex_);  // also of those that are being attached
  std::map<uint32_t, std::shared_ptr<Session>> by_device_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Session>> by_token_
      ABSL_GUARDED_BY(mutex_);
  std::deque<Ended> ended_
      ABSL_GUARDED_BY(mutex_);  // the last few, for a better sentence
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_TABLE_H_
