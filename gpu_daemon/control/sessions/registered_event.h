// One registered event kernel with everything that it holds: its ring's memory,
// the buffers that its parameters name, and the EventKernel that the front-end
// polls.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_REGISTERED_EVENT_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_REGISTERED_EVENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/control/sessions/device_space.h"
#include "gpu_daemon/control/sessions/parameter_bindings.h"
#include "gpu_daemon/control/telemetry_bus.h"
#include "gpu_daemon/dispatch/chain.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "proto/events.pb.h"
#include "shm/ring_layout.h"

namespace carillon::gpud {

class RegisteredEvent : public std::enable_shared_from_this<RegisteredEvent> {
 public:
  // Where the control plane puts a new event kernel.
  struct Placement {
    shm::DoorbellIndex doorbell;
    shm::Generation generation;
    uint32_t ekt_index = 0;
    std::string_view launch_path;  // a LaunchPathInfo's
    // Of the chains that the request names; null: none.
    std::shared_ptr<Chain> hands_to;
    std::shared_ptr<Chain> takes_from;
  };

  // Makes it from a checked or unchecked request; takes nothing when it fails.
  // An aperture may grow for it, which can take long.
  // Errors: NotFound (kernel, buffer), InvalidArgument (everything about the
  // request), FailedPrecondition (the back-end cannot run
  // the kernel), ResourceExhausted (no room for the ring).
  static absl::StatusOr<std::shared_ptr<RegisteredEvent>> Create(
      const v1::RegisterEventRequest& request, const Placement& placement,
      const std::shared_ptr<DeviceSpace>& space, const FindBuffer& find_buffer,
      const KernelCatalog& kernels, const Backend& backend);

  // To be called before a launch path gets it. Errors: those of Chain::AddSource()
  // and AddFollower(); then it is the end of none.
  absl::Status JoinChains();
  // To be called once no launch path has it. `stays` as in Chain::Leave().
  void LeaveChains(bool stays);

  // To be called before a launch path gets it, and not after its session has
  // ended: the device may still read there what it has had of an earlier ring.
  void ClearCompletions();

  // Shares the ownership of all of this object: a launch that holds the event
  // kernel keeps the memory that it may write to.
  std::shared_ptr<EventKernel> event() { return {shared_from_this(), &event_}; }
  bool Uses(const Buffer& buffer) const;
  v1::RegisterEventResponse Describe() const;

  // Publishes what failed since the last call, as one message. Thread safe.
  void PublishFailures(TelemetryBus* bus);

 private:
  struct Memory {
    HeapRange esq;
    HeapRange completions;  // ECQ, then EventLife array
    std::vector<std::shared_ptr<Buffer>> buffers;
  };

  RegisteredEvent(Memory memory, EventKernel::Registration registration,
                  std::shared_ptr<DeviceMemory> device,
                  const shm::RingLayout& layout, const Placement& placement);

  const Memory memory_;
  const std::shared_ptr<Chain> hands_to_;
  const std::shared_ptr<Chain> takes_from_;
  EventKernel event_;
  // Writers and readers: callers of PublishFailures(). Relaxed, because it only
  // decides which of them publishes how many.
  std::atomic<uint64_t> published_failures_{0};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_REGISTERED_EVENT_H_
