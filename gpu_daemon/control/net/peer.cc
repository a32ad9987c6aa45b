#include "gpu_daemon/control/net/peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/net/accept.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace carillon::gpud {
namespace {

bool IsDead(int pidfd) {
  pollfd look{.fd = pidfd, .events = POLLIN, .revents = 0};
  return poll(&look, 1, 0) != 0;
}

// Field 22 of /proc/<pid>/stat, counted from behind the command's name, which
// may hold anything.
std::optional<uint64_t> StartTime(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  size_t at = line.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) {
    at = line.find(' ', at + 1);
  }
  if (at == std::string::npos) return std::nullopt;
  uint64_t ticks = 0;
  const char* const begin = line.data() + at + 1;
  const auto parsed = std::from_chars(begin, line.data() + line.size(), ticks);
  if (parsed.ec != std::errc()) return std::nullopt;
  return ticks;
}

// Returns N of a peer that gRPC calls "fd:N", or -1 if it has another name.
int NumberOf(std::string_view grpc_peer) {
  constexpr std::string_view kPrefix = "fd:";
  if (!grpc_peer.starts_with(kPrefix)) return -1;
  int connection = -1;
  const char* const end = grpc_peer.data() + grpc_peer.size();
  const auto parsed =
      std::from_chars(grpc_peer.data() + kPrefix.size(), end, connection);
  return parsed.ec == std::errc() && parsed.ptr == end ? connection : -1;
}

absl::Status Gone(pid_t pid) {
  return absl::UnavailableError(
      fmt::format("process {} connected and is gone", pid));
}

}  // namespace

bool Peer::alive() const { return !IsDead(pidfd.get()); }

pid_t Peer::tracer() const {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  pid_t tracer = 0;
  for (std::string line; std::getline(file, line);) {
    if (std::sscanf(line.c_str(), "TracerPid: %d", &tracer) == 1) break;
  }
  return tracer;
}

absl::StatusOr<PeerCredentials> CredentialsOf(int connection) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) !=
      0) {
    return absl::InternalError(
        fmt::format("SO_PEERCRED: {}", std::strerror(errno)));
  }
  return PeerCredentials{credentials.pid, credentials.uid};
}

absl::Status CheckUser(uid_t peer, uid_t own, std::span<const uid_t> also) {
  if (peer == own || peer == 0 || std::ranges::count(also, peer) != 0) {
    return absl::OkStatus();
  }
  return Error(
      absl::StatusCode::kPermissionDenied,
      fmt::format("this testbed belongs to uid {}; uid {} may not use it", own,
                  peer),
      reason::kUnknownPeer);
}

absl::StatusOr<UniqueFd> PidfdOf(int connection, pid_t pid) {
  int raw = -1;
  socklen_t size = sizeof(raw);
  UniqueFd pidfd;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &raw, &size) == 0) {
    pidfd.reset(raw);
  } else if (errno == EMFILE || errno == ENFILE) {
    return absl::ResourceExhaustedError(fmt::format(
        "no descriptor is left for process {}: raise gpud's limit (ulimit -n)",
        pid));
  } else if (errno == ENOPROTOOPT) {
    const auto before = StartTime(pid);
    pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!before || !pidfd || StartTime(pid) != before) return Gone(pid);
  }
  if (!pidfd || IsDead(pidfd.get())) return Gone(pid);
  return pidfd;
}

// gRPC owns the connections and does not say when it closes one, so the table
// looks for closed ones when it is full.
absl::Status PeerTable::CheckRoom(pid_t pid) {
  const auto count = [&] {
    mutex_.AssertHeld();
    return static_cast<size_t>(std::count_if(
        by_connection_.begin(), by_connection_.end(),
        [&](const auto& entry) { return entry.second.peer->pid == pid; }));
  };
  if (count() < connections_of_a_process_) return absl::OkStatus();
  std::erase_if(by_connection_, [](const auto& entry) {
    return InodeOf(entry.first) != entry.second.inode;
  });
  const size_t open = count();
  if (open < connections_of_a_process_) return absl::OkStatus();
  return Error(
      absl::StatusCode::kResourceExhausted,
      fmt::format("process {} has {} connections to the control socket: that "
                  "is the limit; use one for many calls",
                  pid, open),
      reason::kTooMany, "connections");
}

absl::StatusOr<std::shared_ptr<const Peer>> PeerTable::Admit(
    int connection, int served, bool* is_new, std::span<const uid_t> also) {
  *is_new = false;
  ASSIGN_OR_RETURN(auto credentials, CredentialsOf(connection));
  RETURN_IF_ERROR(CheckUser(credentials.uid, geteuid(), also));
  if (credentials.pid == 0) {
    return Error(absl::StatusCode::kPermissionDenied,
                 "the caller lives in another PID namespace, where gpud cannot "
                 "tell one process from another: run it in gpud's",
                 reason::kUnknownPeer);
  }
  ASSIGN_OR_RETURN(auto pidfd, PidfdOf(connection, credentials.pid));

  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckRoom(credentials.pid));
  auto& peer = by_pid_[credentials.pid];
  if (peer == nullptr || !peer->alive()) {
    *is_new = true;
    peer = std::make_shared<const Peer>(
        Peer{credentials.pid, credentials.uid, std::move(pidfd)});
  }
  by_connection_[served] = {peer, InodeOf(served)};
  return peer;
}

void PeerTable::Forget(const Peer& peer) {
  MutexLock lock(mutex_);
  std::erase_if(by_connection_, [&](const auto& entry) {
    return entry.second.peer.get() == &peer;
  });
  std::erase_if(by_pid_,
                [&](const auto& entry) { return entry.second.get() == &peer; });
}

std::shared_ptr<const Peer> PeerTable::Find(std::string_view grpc_peer) const {
  MutexLock lock(mutex_);
  const auto found = by_connection_.find(NumberOf(grpc_peer));
  return found == by_connection_.end() ? nullptr : found->second.peer;
}

void PeerTable::Cut(std::string_view grpc_peer) {
  MutexLock lock(mutex_);
  const auto found = by_connection_.find(NumberOf(grpc_peer));
  if (found == by_connection_.end()) return;
  if (InodeOf(found->first) == found->second.inode) {
    shutdown(found->first, SHUT_RDWR);
  }
}

void PeerTable::CutAll() {
  MutexLock lock(mutex_);
  for (const auto& [connection, entry] : by_connection_) {
    if (InodeOf(connection) == entry.inode) shutdown(connection, SHUT_RDWR);
  }
}

size_t PeerTable::size() const {
  MutexLock lock(mutex_);
  return by_pid_.size();
}

}  // namespace carillon::gpud
