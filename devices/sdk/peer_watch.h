// Notices the end of gpud, or of this device's session with it, and ends every
// wait of the process then. One small thread a session: it also keeps the
// device's lease fresh.
#ifndef CARILLON_DEVICES_SDK_PEER_WATCH_H_
#define CARILLON_DEVICES_SDK_PEER_WATCH_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "shm/layout.h"
#include "shm/recorder/flight_recorder.h"
#include "shm/types.h"
#include "shm/wakeups.h"

namespace carillon::edge {

// How a process ended, as "killed by SIGKILL" or "exited with status 1"; empty
// while it runs and where this kernel does not say it to anyone but the parent
// (before Linux 6.15, or while nobody has reaped it).
std::string HowItEnded(int pidfd);

// Thread safe after Start().
class PeerWatch {
 public:
  // How often the lease is renewed.
  static constexpr std::chrono::milliseconds kLeasePeriod{100};

  struct Session {
    int connection = -1;  // hand-over connection; its end of file is the notice
    uint64_t* heartbeat_ns = nullptr;
    const shm::CompletionControl* control = nullptr;
    shm::Generation generation;
    std::string_view device;
    // Gets the session's beginning and its end by gpud; null: off.
    shm::FlightRecorder* recorder = nullptr;
  };

  // Everything in `session` must outlive the watch. Errors: Internal (out of
  // descriptors).
  static absl::StatusOr<std::unique_ptr<PeerWatch>> Start(
      const Session& session);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // 0 if it runs in a PID namespace that cannot be seen from here.
  int32_t gpud_pid() const { return pid_; }
  const shm::ClosedWord& closed() const { return closed_; }

  // OK while the session stands. Unavailable otherwise: "PEER_DEAD: gpud (pid
  // N) died, ...", or the reason that gpud gave before it closed the session.
  absl::Status status() const;

  // Words for the end of a sentence about something that gpud has not done in
  // time; empty while it gives signs of life.
  std::string SilenceOfGpud() const;

  // Whether gpud has gone for another one that takes its place.
  bool gpud_restarts() const {
    return gpuds_reason() == shm::CloseReason::kRestarting;
  }
  // Whether another gpud may go on: this one restarts, or is gone and has given
  // no reason.
  bool may_resume() const {
    return gpud_restarts() ||
           (gpuds_reason() == shm::CloseReason::kOpen &&
            end_.load(std::memory_order_acquire) != End::kNone);
  }

  // Whether the session has ended; waits for that for at most `timeout`.
  bool WaitForEnd(std::chrono::milliseconds timeout) const;

 private:
  enum class End : uint32_t { kNone, kDied, kHungUp };
  // It gives a sign of life five times a second.
  static constexpr Nanoseconds kGpudIsSilentNs = 1'000'000'000;

  PeerWatch(const Session& session, int32_t pid, UniqueFd pidfd, UniqueFd stop);
  void Run();
  shm::CloseReason gpuds_reason() const;

  const Session session_;
  const Nanoseconds started_ns_;
  const int32_t pid_;
  const UniqueFd pidfd_;              // may be none
  const UniqueFd stop_;               // eventfd
  std::atomic<End> end_{End::kNone};  // writer: the thread, before closed_
  shm::ClosedWord closed_;
  std::thread thread_;
};

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_PEER_WATCH_H_
