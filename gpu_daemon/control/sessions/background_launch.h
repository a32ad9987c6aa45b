// One background kernel or copy on its way through the back-end, and the call
// that waits for it.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_BACKGROUND_LAUNCH_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_BACKGROUND_LAUNCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/control/sessions/buffer_table.h"
#include "gpu_daemon/control/sessions/device_space.h"
#include "gpu_daemon/control/sessions/session_context.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "gpu_daemon/event/memory_copy.h"
#include "proto/events.pb.h"

namespace carillon::gpud {

// The waiting call and the back-end share it, so its buffers stay until the last
// block has run or the last chunk is copied, even if the caller has given up by
// then.
class BackgroundLaunch : public std::enable_shared_from_this<BackgroundLaunch> {
 public:
  // Checks the request and makes the launch. Errors: NotFound (kernel, buffer),
  // InvalidArgument (dimensions, parameters, priority).
  static absl::StatusOr<std::shared_ptr<BackgroundLaunch>> Create(
      const v1::LaunchKernelRequest& request,
      const std::shared_ptr<DeviceSpace>& space, const BufferTable& buffers,
      SessionContext* context);

  // Errors: NotFound (buffer), InvalidArgument BAD_COPY (no bytes; not from an
  // input buffer to GPU memory or from there to an output buffer), OutOfRange
  // BAD_COPY (it leaves a buffer).
  static absl::StatusOr<std::shared_ptr<BackgroundLaunch>> Create(
      const v1::CopyRequest& request, const std::shared_ptr<DeviceSpace>& space,
      const BufferTable& buffers, SessionContext* context);

  // Hands it to the back-end. To be called once.
  void Submit();
  // Waits for the end. When `given_up` turns true first, takes it back from the
  // back-end (running blocks and chunks run to their end) and returns nothing.
  std::optional<LaunchResult> Wait(const std::function<bool()>& given_up);

  bool ended() const;
  bool Uses(const Buffer& buffer) const;

 private:
  BackgroundLaunch(SessionContext* context,
                   std::vector<std::shared_ptr<Buffer>> buffers)
      : context_(context),
        buffers_(std::move(buffers)),
        token_(context->NextLaunchToken()) {}
  void End(const LaunchResult& result);

  SessionContext* const context_;
  const std::vector<std::shared_ptr<Buffer>> buffers_;
  const uint64_t token_;
  // One of them, until Submit().
  std::unique_ptr<KernelLaunch> launch_;
  std::unique_ptr<MemoryCopy> copy_;

  mutable Mutex mutex_;
  CondVar ended_;
  std::optional<LaunchResult> result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_BACKGROUND_LAUNCH_H_
