// Which of a sweep's workers runs what: keys in etcd, each with the lease of its
// worker. Those of a worker that dies are free again when its lease ends.
#ifndef CARILLON_TOOLS_CLI_SWEEP_CLAIMS_H_
#define CARILLON_TOOLS_CLI_SWEEP_CLAIMS_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "mesh/etcd/etcd.h"

namespace carillon::cli {

inline constexpr std::chrono::seconds kLeaseLength{5};

// "/carillon/v1/sweeps/SWEEP/claims/"
std::string ClaimPrefix(std::string_view sweep);

// Of one worker. A thread keeps its lease alive; where etcd lost it, the next
// claim takes a new one, and what ran under the old one may run twice. One
// thread.
class Claims {
 public:
  // `worker`: what others read of it.
  Claims(std::unique_ptr<mesh::Etcd> etcd, std::string_view sweep,
         std::string worker);
  // Its claims are free.
  ~Claims();

  // Whether this worker may run it. Waits up to `patience` for an etcd that
  // does not answer. Errors: those of Etcd.
  absl::StatusOr<bool> Take(std::string_view run,
                            std::chrono::seconds patience);
  void Release(std::string_view run);

 private:
  absl::StatusOr<bool> TryTake(std::string_view run);
  void KeepAlive();

  const std::unique_ptr<mesh::Etcd> etcd_;
  const std::string prefix_;
  const std::string worker_;
  Mutex mutex_;
  CondVar ended_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  mesh::Etcd::LeaseId lease_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none
  std::thread keeper_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SWEEP_CLAIMS_H_
