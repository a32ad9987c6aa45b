#include "devices/sdk/peer_watch.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "fmt/format.h"
#include "shm/faults/point.h"
#include "shm/load_shared.h"
#include "shm/waiting.h"

namespace carillon::edge {
namespace {

using shm::CloseReason;

// Newer than Debian 12's headers.
constexpr int kSoPeerPidfd = 77;             // Linux 6.5
constexpr uint64_t kPidfdInfoExit = 1 << 3;  // Linux 6.15
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup_id;
  uint32_t ids[11];
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

// A dying process closes its sockets shortly before its pidfd says so.
constexpr int kDeathAfterHangUpMs = 200;

UniqueFd PidfdOfPeer(int connection, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(connection, SOL_SOCKET, kSoPeerPidfd, &fd, &size) == 0)
    return UniqueFd(fd);
  // The hand-over has just been answered, so the pid is not yet somebody
  // else's.
  return UniqueFd(pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0))
                          : -1);
}

bool Ended(int pidfd, int timeout_ms) {
  pollfd waiter{.fd = pidfd, .events = POLLIN, .revents = 0};
  int ready;
  do {
    ready = poll(&waiter, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0 && (waiter.revents & POLLIN) != 0;
}

}  // namespace

std::string HowItEnded(int pidfd) {
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  if (pidfd < 0 || ioctl(pidfd, kPidfdGetInfo, &info) != 0 ||
      (info.mask & kPidfdInfoExit) == 0) {
    return "";
  }
  if (WIFSIGNALED(info.exit_code)) {
    const char* name = sigabbrev_np(WTERMSIG(info.exit_code));
    return name != nullptr
               ? fmt::format("killed by SIG{}", name)
               : fmt::format("killed by signal {}", WTERMSIG(info.exit_code));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(info.exit_code));
}

absl::StatusOr<std::unique_ptr<PeerWatch>> PeerWatch::Start(
    const Session& session) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(session.connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) !=
      0) {
    return absl::InternalError(fmt::format(
        "cannot tell whose the hand-over connection is: {}", strerror(errno)));
  }
  UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) {
    return absl::InternalError(fmt::format(
        "eventfd: {}; raise the descriptor limit", strerror(errno)));
  }
  if (session.recorder != nullptr) {
    session.recorder->Record(shm::Step::kAttached, 0, session.generation,
                             peer.pid);
  }
  return std::unique_ptr<PeerWatch>(new PeerWatch(
      session, peer.pid, PidfdOfPeer(session.connection, peer.pid),
      std::move(stop)));
}

PeerWatch::PeerWatch(const Session& session, int32_t pid, UniqueFd pidfd,
                     UniqueFd stop)
    : session_(session),
      started_ns_(NowNs()),
      pid_(pid),
      pidfd_(std::move(pidfd)),
      stop_(std::move(stop)),
      thread_([this] { Run(); }) {}

PeerWatch::~PeerWatch() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written =
      write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void PeerWatch::Run() {
  sigset_t all;  // signals are for the device's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (true) {
    if (!faults::At(faults::Point::kDeviceLease, {.device = session_.device})) {
      std::atomic_ref<uint64_t>(*session_.heartbeat_ns)
          .store(NowNs(), std::memory_order_relaxed);
    }
    std::array<pollfd, 3> watched = {
        pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0},
        // Not POLLIN: whatever gpud sends here, only the end counts.
        pollfd{.fd = session_.connection, .events = POLLRDHUP, .revents = 0},
        pollfd{.fd = pidfd_.get(), .events = POLLIN, .revents = 0}};
    const int ready =
        poll(watched.data(), watched.size(), kLeasePeriod.count());
    if (ready <= 0) continue;
    if (watched[0].revents != 0) return;
    const bool died = gpuds_reason() == CloseReason::kOpen && pidfd_ &&
                      Ended(pidfd_.get(), kDeathAfterHangUpMs);
    if (session_.recorder != nullptr) {
      session_.recorder->Record(shm::Step::kClosed, 0, session_.generation,
                                pid_, shm::EventState::kNone,
                                static_cast<uint32_t>(gpuds_reason()));
    }
    end_.store(died ? End::kDied : End::kHungUp, std::memory_order_release);
    closed_.Close();
    return;
  }
}

CloseReason PeerWatch::gpuds_reason() const {
  return static_cast<CloseReason>(
      shm::LoadShared(session_.control->closed, std::memory_order_seq_cst));
}

std::string PeerWatch::SilenceOfGpud() const {
  // Writer: gpud, not at once.
  const Nanoseconds heard =
      std::max(shm::LoadShared(session_.control->heartbeat_ns,
                               std::memory_order_relaxed),
               started_ns_);
  const Nanoseconds now = NowNs();
  if (now < heard + kGpudIsSilentNs) return "";
  return fmt::format(
      "; gpud (pid {}) has been silent for {:.1f} s: is it stopped?", pid_,
      static_cast<double>(now - heard) / 1e9);
}

absl::Status PeerWatch::status() const {
  switch (gpuds_reason()) {
    case CloseReason::kOpen:
      break;
    case CloseReason::kDetached:
      return absl::UnavailableError(
          "DETACHED: this device's session has been ended");
    case CloseReason::kEvicted:
      return absl::UnavailableError(
          fmt::format("EVICTED: gpud (pid {}) closed this device because it "
                      "broke the protocol of "
                      "the rings; gpud's log says how (carillon logs gpud)",
                      pid_));
    case CloseReason::kShutdown:
      return absl::UnavailableError(
          fmt::format("SHUTDOWN: gpud (pid {}) takes the testbed down", pid_));
    case CloseReason::kRestarting:
      return absl::UnavailableError(fmt::format(
          "RESTARTING: gpud (pid {}) makes way for another one", pid_));
    case CloseReason::kPeerDied:
      return absl::UnavailableError(fmt::format(
          "EVICTED: gpud (pid {}) took this process for dead", pid_));
    case CloseReason::kSilent:
      return absl::UnavailableError(
          fmt::format("SILENT: gpud (pid {}) closed this device because it had "
                      "given no sign of life for longer than the testbed "
                      "allows (gpud --lease-timeout); attach again",
                      pid_));
    case CloseReason::kLinkLost:
      return absl::UnavailableError(
          fmt::format("LINK_LOST: gpud (pid {}) closed this device because the "
                      "GPU's host carries it no more: the link is lost, or "
                      "that host has ended the device; gpud's log says which "
                      "(carillon logs gpud); attach again once `carillon "
                      "links` shows the link up",
                      pid_));
  }
  switch (end_.load(std::memory_order_acquire)) {
    case End::kNone:
      return absl::OkStatus();
    case End::kDied: {
      const std::string how = HowItEnded(pidfd_.get());
      return absl::UnavailableError(fmt::format(
          "PEER_DEAD: gpud (pid {}) died, {}", pid_,
          how.empty() ? "how is known only to the process that started it"
                      : how));
    }
    case End::kHungUp:
      return absl::UnavailableError(fmt::format(
          "PEER_DEAD: gpud (pid {}) closed the session without a reason",
          pid_));
  }
  return absl::InternalError("unknown end of the session");
}

bool PeerWatch::WaitForEnd(std::chrono::milliseconds timeout) const {
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(timeout).count();
  while (!closed_.closed() && gpuds_reason() == CloseReason::kOpen) {
    const Nanoseconds now = NowNs();
    if (now >= deadline) return false;
    const std::array<shm::FutexWord, 1> words = {closed_.AsFutex()};
    shm::FutexWait(words, std::chrono::nanoseconds(deadline - now));
  }
  return true;
}

}  // namespace carillon::edge
