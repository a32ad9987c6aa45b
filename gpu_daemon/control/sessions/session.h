// A device's session: from Attach to its end, everything that it has taken from
// gpud.
//
//   attaching  the ticket is out
//   attached   it holds its apertures
//   ready      it says that it serves
//   closing    it has ended; what it took is being freed
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/sessions/background_launch.h"
#include "gpu_daemon/control/sessions/buffer_table.h"
#include "gpu_daemon/control/sessions/device_space.h"
#include "gpu_daemon/control/sessions/drain.h"
#include "gpu_daemon/control/sessions/registration_table.h"
#include "gpu_daemon/control/sessions/session_context.h"
#include "proto/events.pb.h"
#include "shm/layout.h"
#include "shm/types.h"

namespace carillon::gpud {

enum class SessionState { kAttaching, kAttached, kReady, kClosing };
std::string_view SessionStateName(SessionState state);

// Thread safe. Every call is bounded. After the end, every call fails with
// FailedPrecondition SESSION_ENDED.
class Session {
 public:
  // What never changes.
  struct Identity {
    uint32_t device_id = 0;
    std::string name;
    std::string kind;
    shm::Generation generation;
    std::string token;
    std::shared_ptr<const Peer> owner;
    std::vector<std::string> counter_names;
    std::vector<std::string> histogram_names;
    Nanoseconds attached_ns = 0;
  };

  Session(Identity identity, std::shared_ptr<DeviceSpace> space,
          SessionContext* context);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Identity& identity() const { return identity_; }
  const DeviceMemory& memory() const { return space_->device_memory(); }
  std::shared_ptr<DeviceMemory> shared_memory() const {
    return space_->memory();
  }
  SessionState state() const;
  std::string note() const;
  uint64_t gpu_memory_bytes() const;
  std::vector<std::shared_ptr<EventKernel>> events() const;

  // Sends the apertures over `connection` and, if that succeeds, keeps it;
  // `on_readable` runs on the main loop when it has something to say. Errors:
  // FailedPrecondition (not attaching), Unavailable (the device is gone
  // already).
  absl::Status HandOver(UniqueFd&& connection,
                        std::function<void()> on_readable);
  // What has come over that connection, on which a device has nothing to say.
  enum class ConnectionNews { kNone, kEndOfFile, kData };
  ConnectionNews ReadConnection();
  absl::Status ReportReady(const std::string& note);

  absl::StatusOr<v1::AllocateBufferResponse> AllocateBuffer(
      const v1::AllocateBufferRequest& request);
  // Errors: NotFound, FailedPrecondition BUFFER_IN_USE.
  absl::Status FreeBuffer(uint32_t buffer_id);

  // Leaves nothing behind when it fails.
  absl::StatusOr<v1::RegisterEventResponse> RegisterEvent(
      const v1::RegisterEventRequest& request);
  // Returns how many events were aborted.
  absl::StatusOr<uint64_t> UnregisterEvent(uint32_t event_id, uint32_t drain_ms,
                                           const GivenUp& given_up);
  absl::Status ScheduleEvent(uint32_t event_id, uint64_t through);
  // NotFound if there is no such event kernel.
  absl::Status CheckEvent(uint32_t event_id) const;

  // Errors: as RegisterEvent; Aborted when the session ended first, Cancelled
  // when the caller gave up. A kernel that failed is a result with its status.
  absl::StatusOr<LaunchResult> LaunchKernel(
      const v1::LaunchKernelRequest& request, const GivenUp& given_up);

  // Lets the device know whether gpud traces, for its stamps.
  void TellTracing() const;
  // Every few hundred milliseconds: gpud's sign of life for the device, a look
  // for the device's, and telemetry.
  // `was_away`: gpud has not looked for long, which counts as a sign of life.
  void Tick(Nanoseconds now, bool was_away);
  // Since the last look that found a new sign of life.
  Nanoseconds SilentFor(Nanoseconds now) const;

  // Ends it: no further launch, everything unfinished is aborted with `why`,
  // the device is told `close`, all that it had is freed. Returns how many
  // events were aborted. Only the first call does anything.
  uint64_t End(shm::CloseReason close, shm::EventStatus why);

 private:
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Errors: FailedPrecondition BUFFER_IN_USE.
  absl::Status CheckUnused(uint32_t buffer_id, const Buffer& buffer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Identity identity_;
  const std::shared_ptr<DeviceSpace> space_;
  SessionContext* const context_;

  mutable Mutex mutex_;
  SessionState state_ ABSL_GUARDED_BY(mutex_) = SessionState::kAttaching;
  std::string note_ ABSL_GUARDED_BY(mutex_);
  UniqueFd connection_ ABSL_GUARDED_BY(mutex_);
  std::optional<EventLoop::WatchId> connection_watch_ ABSL_GUARDED_BY(mutex_);
  BufferTable buffers_ ABSL_GUARDED_BY(mutex_);
  RegistrationTable registrations_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<BackgroundLaunch>> launches_
      ABSL_GUARDED_BY(mutex_);
  // The device's, as last seen.
  uint64_t heartbeat_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanoseconds heard_ns_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_H_
