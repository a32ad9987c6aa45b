// The devices of a host that relays them, and their calls: what they say goes to
// the GPU's host, and what that says is done here.
#ifndef CARILLON_GPU_DAEMON_RELAY_RELAYED_SESSIONS_H_
#define CARILLON_GPU_DAEMON_RELAY_RELAYED_SESSIONS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/net/event_loop.h"
#include "gpu_daemon/control/net/refusal_log.h"
#include "gpu_daemon/relay/relayed_session.h"
#include "proto/admin.pb.h"
#include "proto/link.pb.h"

namespace carillon::gpud {

// All but Devices() is of the loop's thread. The other host is taken to be
// hostile.
class RelayedSessions {
 public:
  using Send = RelayedSession::Send;

  // `peer`: the GPU's host. `first_id`: of connections and sessions; a later
  // relay's are others. `send` is called by any thread; `on_said` by the
  // loop's, after it.
  RelayedSessions(EventLoop* loop, std::string peer, uint64_t first_id,
                  Send send, std::function<void()> on_said);

  // Of one process, beside one for each device that it has.
  static constexpr int kMaxConnectionsBesideDevices = 32;
  // Connections of one process for a hand-over.
  static constexpr int kMaxPending = 8;

  // Connections to the control socket, and to the hand-over socket, of process
  // `pid`. Those that are too many are closed.
  void AddCalls(UniqueFd connection, pid_t pid);
  void AddDevice(UniqueFd connection, pid_t pid);
  // Closes the connections for a hand-over whose time for a ticket is over.
  void Expire(Nanoseconds now);
  // What the other host says.
  void Take(const v1::SessionStep& step);
  // Nothing is read of calls until GoOn().
  void Pause();
  void GoOn();
  void EndAll(shm::CloseReason why);

  // As the other host has them, but for their processes, which are here.
  v1::ListDevicesResponse Devices();

 private:
  struct Calls {
    UniqueFd connection;
    EventLoop::WatchId watch = 0;
    pid_t pid = 0;
    bool answered = false;  // the other host has said something
  };
  struct Device {
    UniqueFd connection;  // of the hand-over
    EventLoop::WatchId watch = 0;
    pid_t pid = 0;
    Nanoseconds ticket_until = 0;
    bool asked = false;                       // it has presented its ticket
    std::unique_ptr<RelayedSession> session;  // null: not handed over yet
  };

  void Say(const v1::SessionStep& step);
  void Refuse(const std::string& too_many, pid_t pid);
  void ReadCalls(uint64_t id);
  void WriteCalls(const v1::CallBytes& bytes);
  // The other host has closed it.
  void EndCalls(uint64_t id);
  void CloseCalls(uint64_t id, bool tell);
  void ReadDevice(uint64_t id);
  absl::Status Fetch(uint64_t id, Device& device);
  absl::Status HandOver(const v1::FetchedSession& fetched, Device& device);
  void EndDevice(uint64_t id, shm::CloseReason why, bool tell);

  EventLoop* const loop_;
  const std::string peer_;
  const Send send_;
  const std::function<void()> on_said_;
  uint64_t next_id_;
  RefusalLog refusals_;
  std::map<uint64_t, Calls> calls_;
  std::map<uint64_t, Device> devices_;
  Mutex mutex_;
  v1::ListDevicesResponse listed_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, pid_t> pids_ ABSL_GUARDED_BY(mutex_);  // by device id
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_RELAY_RELAYED_SESSIONS_H_
