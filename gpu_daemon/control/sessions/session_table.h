// Every device's session, by token and by device; and the one place where
// sessions end.
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
enum class Ending {
  kDetached,
  kDied,
  kEvicted,
  kSilent,
  kShutdown,
  kNeverFetched
};

// Thread safe.
class SessionTable {
 public:
  // So that ListDevices fits a gRPC message of 4 MiB whatever the devices write
  // into their telemetry pages.
  static constexpr size_t kMaxSessions = 64;
  // So that no process can keep all others out.
  static constexpr size_t kMaxSessionsOfAProcess = kMaxSessions / 2;
  // A front-end sleeps on all of them and on its mailbox.
  static_assert(kMaxSessions < shm::kMaxFutexWords);

  SessionTable(SessionContext* context, TicketStore* tickets)
      : context_(context), tickets_(tickets) {}

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
  // several calls, the first one counts. `detail` says more about an eviction.
  uint64_t End(const std::shared_ptr<Session>& session, Ending ending,
               const std::string& detail = "");
  void EndDevice(uint32_t device_id, Ending ending);
  void EndDevice(const DeviceMemory* memory, Ending ending,
                 const std::string& detail);
  // Lets every session look after its device, and ends those whose device has
  // been silent for longer than `lease_ns` (0: however long). To be called every
  // few hundred milliseconds by one thread.
  void Tick(Nanoseconds now, Nanoseconds lease_ns);
  // Ends the sessions of a process that is dead.
  void PeerDied(const Peer& peer);
  // Refuses Attach from now on and ends everything.
  void Shutdown();

 private:
  struct Ended {
    std::string token;
    std::string sentence;
  };
  static constexpr size_t kRememberedEndings = 64;
  // Between two ticks of a gpud that runs.
  static constexpr Nanoseconds kMaxTickNs = 1'000'000'000;

  absl::Status Reserve(const std::string& name, pid_t pid);
  void Unreserve(const std::string& name);
  absl::StatusOr<std::shared_ptr<Session>> MakeSession(
      const v1::AttachRequest& request,
      const std::shared_ptr<const Peer>& caller, uint32_t device_id);

  SessionContext* const context_;
  TicketStore* const tickets_;

  Nanoseconds last_tick_ns_ = 0;  // of the thread that ticks
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
