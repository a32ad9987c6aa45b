// Who has changed what: a line in gpud's log for each call that changes the
// testbed.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_CHANGE_LOG_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_CHANGE_LOG_H_

#include <grpcpp/server_context.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/control/net/peer.h"
#include "gpu_daemon/control/net/refusal_log.h"

namespace carillon::gpud {

// Thread safe.
class ChangeLog {
 public:
  explicit ChangeLog(const PeerTable* peers) : peers_(peers) {}

  // Logs "METHOD: WHAT (process 4711 of uid 0)", or "(CN=anna at
  // ipv4:10.0.0.3:4711)" of a call over TCP. Each method has
  // RefusalLog::kMaxASecond lines a second: a flood of one hides no other.
  // `method` lives as long as the program.
  void Tell(const grpc::ServerContext& context, std::string_view method,
            const std::string& what);
  // Logs how many lines were left out, if any were.
  void Tick(Nanoseconds now);

 private:
  std::string CallerOf(const grpc::ServerContext& context) const;

  const PeerTable* const peers_;
  Mutex mutex_;
  std::map<std::string_view, RefusalLog> by_method_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_CHANGE_LOG_H_
