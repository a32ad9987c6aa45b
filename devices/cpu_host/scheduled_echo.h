// An event that the host starts from time to time through the control plane
// (edgeScheduleEvent). It echoes a message, and the answer is checked.
#ifndef CARILLON_DEVICES_CPU_HOST_SCHEDULED_ECHO_H_
#define CARILLON_DEVICES_CPU_HOST_SCHEDULED_ECHO_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "devices/sdk/edge.h"

namespace carillon::cpu_host {

// Works on a thread of its own from Make() to its destruction, but for the time
// between Pause() and GoOn().
class ScheduledEcho {
 public:
  struct Telemetry {
    uint32_t events;  // counter of those that ended
    // The counter of events that failed or gave a wrong answer.
    uint32_t failures;
    uint32_t histogram;  // from the call to the completion seen
  };
  static constexpr uint64_t kMessageBytes = 64;
  // The room that it needs in each aperture.
  static constexpr uint64_t kApertureBytes = 4096;

  // `device` must outlive it. Errors: those of edgeRegisterEvent.
  static absl::StatusOr<std::unique_ptr<ScheduledEcho>> Make(
      edge::Device* device, std::chrono::milliseconds period,
      const Telemetry& telemetry);

  // Takes what has ended and touches the device no more, so that it can resume
  // with another gpud.
  void Pause();
  // First waits for the event that was on its way.
  void GoOn();

 private:
  ScheduledEcho(edge::Device* device, std::chrono::milliseconds period,
                const Telemetry& telemetry, const edge::Buffer& in,
                const edge::Buffer& out, edge::EventQueue* queue);
  void Run(std::stop_token stop);
  absl::Status FinishLast();
  bool CanGoOnAfter(const absl::Status& status);
  absl::Status Echo();

  edge::Device* const device_;
  const std::chrono::milliseconds period_;
  const Telemetry telemetry_;
  const edge::Buffer in_;
  const edge::Buffer out_;
  edge::EventQueue* const queue_;
  uint64_t number_ = 0;  // of the last event
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace carillon::cpu_host

#endif  // CARILLON_DEVICES_CPU_HOST_SCHEDULED_ECHO_H_
