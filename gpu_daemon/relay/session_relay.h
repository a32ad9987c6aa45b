// gpud of a host without the GPU, in simulated time: there is nothing to launch
// here and no clock. Its devices' calls and memory go to the GPU's host, where
// linkd (devices/link) is the device, so that gpud there sees what it would see
// of a device of its own (docs/mesh.md).
//
//   control.sock   bytes of gRPC, which linkd says to its gpud
//   handover.sock  apertures, which are the same as linkd's at each turn
//   operator.sock  GetStatus, ListDevices, health
#ifndef CARILLON_GPU_DAEMON_RELAY_SESSION_RELAY_H_
#define CARILLON_GPU_DAEMON_RELAY_SESSION_RELAY_H_

#include <grpcpp/server.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "gpu_daemon/control/net/daemon_lock.h"
#include "gpu_daemon/control/net/event_loop.h"
#include "gpu_daemon/control/net/unix_listener.h"
#include "gpu_daemon/options/gpud_options.h"
#include "gpu_daemon/relay/relay_admin.h"
#include "gpu_daemon/relay/relayed_sessions.h"
#include "mesh/session/step_link.h"
#include "proto/admin.pb.h"

namespace carillon::gpud {

// All but Status() is of the thread that is in Run().
class SessionRelay {
 public:
  // Waits a while for the other host, which is to say the same `simulation`.
  // Errors: AlreadyExists, FailedPrecondition
  // (directory), InvalidArgument (options), Unavailable: why there is no link;
  // Cancelled: told to end.
  static absl::StatusOr<std::unique_ptr<SessionRelay>> Start(
      const GpudOptions& options, const std::string& simulation);
  ~SessionRelay();

  // Until stop_fd is readable. Errors: Unavailable: the link is lost, and with
  // it the time of its devices.
  absl::Status Run();
  // Ends the sessions of all devices.
  void ShutDown();

 private:
  SessionRelay(const GpudOptions& options, const std::string& simulation)
      : options_(options), simulation_(simulation) {}
  absl::Status Open();
  absl::Status Connect();
  absl::Status WatchUsers();

  void Pause();
  void GoOn();
  void AcceptCalls();
  void AcceptDevice();
  void AcceptOperator();
  void TakeNews();
  v1::GetStatusResponse Status();

  const GpudOptions options_;
  const std::string simulation_;
  std::vector<uid_t> users_;  // who may be devices beside gpud's own
  const Nanoseconds started_ns_ = NowNs();
  std::optional<DaemonLock> lock_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<mesh::NearStepLink> link_;
  std::optional<RelayedSessions> sessions_;
  bool paused_ = false;
  std::optional<std::string> lost_;
  std::optional<RelayAdmin> admin_;
  std::unique_ptr<grpc::Server> operator_server_;
  std::vector<EventLoop::WatchId> users_watches_;  // of control_, handover_
  EventLoop::WatchId operator_watch_ = 0;
  UnixListener control_;
  UnixListener handover_;
  UnixListener operator_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_RELAY_SESSION_RELAY_H_
