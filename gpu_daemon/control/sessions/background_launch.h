// One background kernel on its way through the KMU, and the call that waits for
// it.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_BACKGROUND_LAUNCH_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_BACKGROUND_LAUNCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/control/sessions/device_space.h"
#include "gpu_daemon/control/sessions/parameter_bindings.h"
#include "gpu_daemon/control/sessions/session_context.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "proto/events.pb.h"

namespace carillon::gpud {

// The waiting call and the KMU share it, so its buffers stay until the last
// block has run, even if the caller has given up by then.
class BackgroundLaunch : public std::enable_shared_from_this<BackgroundLaunch> {
 public:
  // Checks the request and makes the launch. Errors: NotFound (kernel, buffer),
  // InvalidArgument (dimensions, parameters, priority).
  static absl::StatusOr<std::shared_ptr<BackgroundLaunch>> Create(
      const v1::LaunchKernelRequest& request,
      const std::shared_ptr<DeviceSpace>& space, const FindBuffer& find_buffer,
      SessionContext* context);

  // Hands the launch to the KMU. To be called once.
  void Submit();
  // Waits for the end. When `given_up` turns true first, takes the launch back
  // from the KMU (running blocks run to their end) and returns nothing.
  std::optional<LaunchResult> Wait(const std::function<bool()>& given_up);

  bool Uses(const Buffer& buffer) const;

 private:
  explicit BackgroundLaunch(SessionContext* context) : context_(context) {}
  void End(const LaunchResult& result);

  SessionContext* const context_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::unique_ptr<KernelLaunch> launch_;  // until Submit()
  uint64_t token_ = 0;

  mutable Mutex mutex_;
  CondVar ended_;
  std::optional<LaunchResult> result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_BACKGROUND_LAUNCH_H_
