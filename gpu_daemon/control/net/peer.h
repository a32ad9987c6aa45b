// Who is at the other end of a Unix socket, and is it still there?
#ifndef CARILLON_GPU_DAEMON_CONTROL_NET_PEER_H_
#define CARILLON_GPU_DAEMON_CONTROL_NET_PEER_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace carillon::gpud {

// One process of a user who may talk to gpud. Immutable.
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  // Readable once the process is dead. As long as it is not, no other process
  // has this pid.
  UniqueFd pidfd;

  bool alive() const;
};

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};

// SO_PEERCRED: who connected. Errors: Internal.
absl::StatusOr<PeerCredentials> CredentialsOf(int connection);

// gpud's own user and root are let in. Errors: PermissionDenied.
absl::Status CheckUser(uid_t peer, uid_t own);

// A pidfd of the process that connected: SO_PEERPIDFD (Linux 6.5), else
// pidfd_open with a second look at the start time, so that a recycled pid is
// not taken for it. Errors: Unavailable when the process is gone.
absl::StatusOr<UniqueFd> PidfdOf(int connection, pid_t pid);

// The processes that are connected to the control socket, by process and by
// connection. Thread safe.
class PeerTable {
 public:
  // A device has one; a process may have several devices.
  static constexpr size_t kMaxConnectionsOfAProcess = 64;

  // Who may not come in gets an error: PermissionDenied, Unavailable or
  // ResourceExhausted (too many connections of that process are open, or gpud
  // is out of descriptors).
  // `is_new` says that this is the process's first connection: its pidfd must
  // be watched.
  absl::StatusOr<std::shared_ptr<const Peer>> Admit(int connection,
                                                    bool* is_new);
  // Forgets a dead process.
  void Forget(const Peer& peer);

  // The caller of an RPC, from grpc::ServerContext::peer() ("fd:N"); null if
  // unknown. gRPC has no place for credentials, so they are found by the
  // connection's number.
  std::shared_ptr<const Peer> Find(std::string_view grpc_peer) const;

  // Ends the connection of an RPC, or all. gRPC itself waits for ever for a
  // peer that is stopped and takes no more bytes: its pending writes, and what
  // waits for them, end only so.
  void Cut(std::string_view grpc_peer);
  void CutAll();

  size_t size() const;

 private:
  struct Connection {
    std::shared_ptr<const Peer> peer;
    // Of the socket: once gRPC has closed it, its number means another file.
    ino_t inode = 0;
  };
  absl::Status CheckRoom(pid_t pid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<pid_t, std::shared_ptr<const Peer>> by_pid_ ABSL_GUARDED_BY(mutex_);
  // Numbers are reused: each accept overwrites what its number meant before.
  std::map<int, Connection> by_connection_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_NET_PEER_H_
