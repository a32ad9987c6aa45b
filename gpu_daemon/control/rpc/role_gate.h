// Judges every call that comes over TCP before gpud reads its message: one
// place for all services, streams included (these at their start).
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_ROLE_GATE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_ROLE_GATE_H_

#include <grpcpp/security/auth_metadata_processor.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/control/net/refusal_log.h"

namespace carillon::gpud {

// Thread safe.
class RoleGate final : public grpc::AuthMetadataProcessor {
 public:
  // So many refusals are remembered, so that each is logged only once.
  static constexpr size_t kMaxRemembered = 256;

  bool IsBlocking() const override { return false; }
  // Called by gRPC, with the connection's certificate in `context`. Status:
  // as CheckRole().
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context,
                       OutputMetadata* consumed_metadata,
                       OutputMetadata* response_metadata) override;

  // Calls refused so far.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  // Logs how many refusals were left out of the log, if any were.
  void Tick(Nanoseconds now);

 private:
  void WarnOnce(const std::string& line);

  // Writers: gRPC's threads; readers: anybody. Relaxed: only the number counts.
  std::atomic<uint64_t> refused_{0};
  Mutex mutex_;
  RefusalLog refusals_ ABSL_GUARDED_BY(mutex_);
  // A caller that asks again and again is logged once.
  std::set<std::string> warned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_ROLE_GATE_H_
