// The processes at the other ends of the control socket: their credentials, and
// whether they are alive.
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_PEER_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_PEER_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace carillon::gpud {

// One process of a user who may talk to gpud. Immutable.
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  // Readable once the process is dead. Until then, no other process has this
  // pid.
  UniqueFd pidfd;

  bool alive() const;
  // The process that traces it, as a debugger does; 0 if none is known.
  pid_t tracer() const;
};

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};

// Returns the process that connected (SO_PEERCRED). Errors: Internal.
absl::StatusOr<PeerCredentials> CredentialsOf(int connection);

// Lets gpud's own user, root, and the users in `also` in. Errors:
// PermissionDenied.
absl::Status CheckUser(uid_t peer, uid_t own, std::span<const uid_t> also = {});

// Returns a pidfd of the process that connected, by SO_PEERPIDFD (Linux 6.5) or
// else by pidfd_open. In the second case it compares start times, so that a pid
// that was used again is not taken for the process. Errors: Unavailable when
// the process is gone.
absl::StatusOr<UniqueFd> PidfdOf(int connection, pid_t pid);

// The processes that are connected to the control socket, by process and by
// connection. Thread safe.
class PeerTable {
 public:
  // Of one process, beside one for each device that it may have.
  static constexpr size_t kConnectionsBesideDevices = 32;

  explicit PeerTable(size_t devices_of_a_process = 0)
      : connections_of_a_process_(devices_of_a_process +
                                  kConnectionsBesideDevices) {}

  // Adds a connection and returns its process. gRPC gets `served` in its place
  // (http2_guard.h), or the connection itself. `is_new` says that this is the
  // process's first connection, so that its pidfd must be watched. `also` is as
  // for CheckUser(). Errors: PermissionDenied, Unavailable, ResourceExhausted
  // (too many connections of that process are open, or gpud is out of
  // descriptors).
  absl::StatusOr<std::shared_ptr<const Peer>> Admit(
      int connection, int served, bool* is_new,
      std::span<const uid_t> also = {});
  // Forgets a dead process.
  void Forget(const Peer& peer);

  // Returns the caller of an RPC, or null if it is not known. `grpc_peer` is
  // grpc::ServerContext::peer() ("fd:N"): gRPC has no place for credentials, so
  // they are found by the connection's number.
  std::shared_ptr<const Peer> Find(std::string_view grpc_peer) const;

  // Ends the connection of an RPC, or all connections. gRPC waits for ever for
  // a peer that is stopped and takes no more bytes. Only this ends its pending
  // writes and the calls that wait for them.
  void Cut(std::string_view grpc_peer);
  void CutAll();

  size_t size() const;

 private:
  struct Connection {
    std::shared_ptr<const Peer> peer;
    // The socket's. Once gRPC has closed the socket, its number may be another
    // file's, which has another inode.
    ino_t inode = 0;
  };
  absl::Status CheckRoom(pid_t pid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t connections_of_a_process_;
  mutable Mutex mutex_;
  std::map<pid_t, std::shared_ptr<const Peer>> by_pid_ ABSL_GUARDED_BY(mutex_);
  // Numbers are reused: each accept overwrites what its number meant before.
  std::map<int, Connection> by_connection_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_PEER_H_
