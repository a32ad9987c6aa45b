// The files in a testbed's directory that keep users' kernels for the next
// gpud, after this one's death or restart.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MODULE_STORE_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MODULE_STORE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "proto/admin.pb.h"

namespace carillon::gpud {

// Thread safe.
class ModuleStore {
 public:
  // Of all images together.
  static constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

  // `folder` need not exist.
  explicit ModuleStore(std::string folder) : folder_(std::move(folder)) {}

  // Removes what an earlier testbed has left.
  void Clear();
  // Keeps a module behind those that are there. If its image cannot be kept,
  // only its declarations are, so that the next gpud can name what it has not.
  // Errors: ResourceExhausted (kMaxBytes, the disk).
  absl::Status Keep(const v1::RegisterModuleRequest& module);
  // Calls `load` with every module, in the order of Keep(), or with the error
  // that keeps it from being read.
  void ForEach(const std::function<
               void(const std::string& file,
                    const absl::StatusOr<v1::RegisterModuleRequest>& module)>&
                   load) const;

 private:
  absl::Status Write(const v1::RegisterModuleRequest& module)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  mutable Mutex mutex_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MODULE_STORE_H_
