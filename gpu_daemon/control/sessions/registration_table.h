// The event kernels that a device has registered, by event id. The id is the
// index of the event kernel's doorbell.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_REGISTRATION_TABLE_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_REGISTRATION_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu_daemon/control/sessions/device_space.h"
#include "gpu_daemon/control/sessions/event_kernel_table.h"
#include "gpu_daemon/control/sessions/number_pool.h"
#include "gpu_daemon/control/sessions/registered_event.h"
#include "gpu_daemon/control/telemetry_bus.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/launch_path.h"
#include "shm/types.h"

namespace carillon::gpud {

struct Registration {
  std::shared_ptr<RegisteredEvent> event;
  EventKernelTable::Slot slot;
  LaunchPath* path = nullptr;  // the back-end's, which serves the event kernel
  bool closing = false;        // UnregisterEvent waits for its events
};

// Not thread safe: its session guards it.
class RegistrationTable {
 public:
  // Each holds one of gRPC's threads in UnregisterEvent.
  static constexpr size_t kMaxClosing = 8;

  // `device` names the device in errors.
  RegistrationTable(std::string device, uint32_t doorbells)
      : device_(std::move(device)), doorbells_(doorbells) {}

  // The lowest doorbell that is free. Errors: ResourceExhausted EKT_FULL.
  absl::StatusOr<shm::DoorbellIndex> FreeDoorbell() const;
  // The doorbell that the device had before gpud's death. Errors:
  // FailedPrecondition EKT_FULL (it is taken, or there is none).
  absl::StatusOr<shm::DoorbellIndex> SameDoorbell(uint32_t event_id) const;

  void Add(shm::DoorbellIndex doorbell, Registration registration) {
    registrations_[doorbell.value()] = std::move(registration);
    doorbells_.Take(doorbell.value());
  }

  // OK if there is such an event kernel, even one that is closing. Errors:
  // NotFound UNKNOWN_EVENT.
  absl::Status Check(uint32_t event_id) const;
  // Errors: NotFound UNKNOWN_EVENT, which one that is closing is, too.
  absl::StatusOr<const Registration*> Find(uint32_t event_id) const;

  // Nobody else finds the registration from here on, but its doorbell stays
  // taken until Remove(). Errors: as Find(); ResourceExhausted TOO_MANY.
  absl::StatusOr<const Registration*> StartClosing(uint32_t event_id);
  // Ends what StartClosing() began; nothing if TakeAll() came first.
  std::optional<Registration> Remove(uint32_t event_id,
                                     const RegisteredEvent& event);
  // Removes all of them, so that the caller can end them without the lock.
  std::map<uint32_t, Registration> TakeAll() {
    doorbells_ = NumberPool(doorbells_.count());
    return std::exchange(registrations_, {});
  }

  std::vector<std::shared_ptr<EventKernel>> events() const;
  // The id of an event kernel that has the buffer as a parameter, if any.
  std::optional<uint32_t> UserOf(const Buffer& buffer) const;
  void PublishFailures(TelemetryBus* bus) const;

 private:
  absl::Status UnknownEvent(uint32_t event_id) const;

  const std::string device_;
  NumberPool doorbells_;  // taken: those of registrations_
  std::map<uint32_t, Registration> registrations_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_REGISTRATION_TABLE_H_
