// A device's session, from Attach to its end: it holds everything that the
// device has taken from gpud.
//
//   attaching  the device has a ticket and no apertures yet
//   attached   the device holds its apertures
//   ready      the device has said that it serves
//   closing    the session has ended, and what it held is being freed
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
  // The part that never changes.
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
  const DeviceSpace& space() const { return *space_; }
  std::vector<std::shared_ptr<EventKernel>> events() const;

  // Sends the apertures over `connection` and, if that succeeds, keeps it.
  // `on_readable` runs on the main loop whenever the connection is readable.
  // Errors: FailedPrecondition (not attaching), Unavailable (the device is gone
  // already).
  absl::Status HandOver(UniqueFd&& connection,
                        std::function<void()> on_readable);
  // Reads that connection. A device never writes to it, so data is a violation,
  // and the end of file means that the device has gone.
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
  // What RegisterEvent() says when the event kernel table is full.
  absl::Status EktFull() const { return context_->ekt->Full(); }
  // Returns how many events were aborted.
  absl::StatusOr<uint64_t> UnregisterEvent(uint32_t event_id, uint32_t drain_ms,
                                           const GivenUp& given_up);
  absl::Status ScheduleEvent(uint32_t event_id, uint64_t through);
  // Also while the event kernel is being unregistered: its events may wait for
  // the release. Errors: NotFound; Unimplemented NO_WAIT_RELEASE_BARRIER.
  absl::Status ReleaseBarrier(uint32_t event_id);

  // Errors: as RegisterEvent; Aborted when the session ended first, Cancelled
  // when the caller gave up. A kernel that failed is a result with its status.
  absl::StatusOr<LaunchResult> LaunchKernel(
      const v1::LaunchKernelRequest& request, const GivenUp& given_up);
  // Errors: those of BackgroundLaunch::Create(), and the others of
  // LaunchKernel(); DataLoss GPU_LOST.
  absl::StatusOr<LaunchResult> Copy(const v1::CopyRequest& request,
                                    const GivenUp& given_up);

  // Tells the device whether gpud traces, so that the device stamps, too.
  void TellTracing() const;
  // To be called every few hundred milliseconds. Gives the device a sign of
  // life, looks for one of the device, and publishes telemetry. `was_away` says
  // that gpud has not looked for long, which counts as a sign of life.
  void Tick(Nanoseconds now, bool was_away);
  // The time since the last Tick() that found a new sign of life.
  Nanoseconds SilentFor(Nanoseconds now) const;
  // How much of its lease it has used: that time, or less since RenewLease().
  Nanoseconds LeaseUsed(Nanoseconds now) const;
  void RenewLease(Nanoseconds now);

  // Ends the session: nothing is launched any more, everything unfinished is
  // aborted with `why`, or left in the rings if gpud restarts for `close`, and
  // everything that it had is freed. Returns how many events were aborted. Only
  // the first call has an effect.
  uint64_t End(shm::CloseReason close, shm::EventStatus why);
  // After End(): tells the device. Whoever sees the word has seen every
  // completion that there will be.
  void Close(shm::CloseReason close);

 private:
  // Those that the request names. Errors: Unimplemented NO_CHAINS,
  // InvalidArgument BAD_NAME.
  absl::Status FindChains(const v1::RegisterEventRequest& request,
                          std::shared_ptr<Chain>* hands_to,
                          std::shared_ptr<Chain>* takes_from);
  // What LaunchKernel() and Copy() have in common.
  template <class Request>
  absl::StatusOr<LaunchResult> Launch(const Request& request,
                                      const GivenUp& given_up);
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Errors: FailedPrecondition BUFFER_IN_USE.
  absl::Status CheckUnused(uint32_t buffer_id, const Buffer& buffer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Identity identity_;
  const std::shared_ptr<DeviceSpace> space_;
  SessionContext* const context_;

  // Held by a call that changes what the device has, to its end: the device's
  // calls of this kind come one after the other. Such a call may wait for the
  // machine's memory, so nothing else takes this mutex, and End() does not wait
  // for it. Taken before mutex_.
  Mutex changes_mutex_;
  // The main loop takes it, too: nobody waits for memory under it.
  mutable Mutex mutex_;
  SessionState state_ ABSL_GUARDED_BY(mutex_) = SessionState::kAttaching;
  std::string note_ ABSL_GUARDED_BY(mutex_);
  UniqueFd connection_ ABSL_GUARDED_BY(mutex_);
  std::optional<EventLoop::WatchId> connection_watch_ ABSL_GUARDED_BY(mutex_);
  BufferTable buffers_ ABSL_GUARDED_BY(mutex_);
  RegistrationTable registrations_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<BackgroundLaunch>> launches_
      ABSL_GUARDED_BY(mutex_);
  // The device's heartbeat, as Tick() saw it last.
  uint64_t heartbeat_ ABSL_GUARDED_BY(mutex_) = 0;
  Nanoseconds heard_ns_ ABSL_GUARDED_BY(mutex_);
  Nanoseconds lease_renewed_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_SESSION_H_
