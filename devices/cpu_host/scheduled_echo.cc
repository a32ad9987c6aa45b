#include "devices/cpu_host/scheduled_echo.h"

#include <spdlog/spdlog.h>

#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::cpu_host {

absl::StatusOr<std::unique_ptr<ScheduledEcho>> ScheduledEcho::Make(
    edge::Device* device, std::chrono::milliseconds period,
    const Telemetry& telemetry) {
  ASSIGN_OR_RETURN(const auto in,
                   device->AllocateBuffer(edge::Place::kInput, kMessageBytes));
  ASSIGN_OR_RETURN(const auto out,
                   device->AllocateBuffer(edge::Place::kOutput, kMessageBytes));
  edge::EventSpec spec;
  spec.kernel = "echo";
  spec.max_in_flight = 1;
  spec.label = "scheduled";
  spec.parameters = {edge::Fixed("in", in), edge::Fixed("out", out)};
  ASSIGN_OR_RETURN(const auto queue, edge::edgeRegisterEvent(*device, spec));
  return std::unique_ptr<ScheduledEcho>(
      new ScheduledEcho(device, period, telemetry, in, out, queue));
}

ScheduledEcho::ScheduledEcho(edge::Device* device,
                             std::chrono::milliseconds period,
                             const Telemetry& telemetry, const edge::Buffer& in,
                             const edge::Buffer& out, edge::EventQueue* queue)
    : device_(device),
      period_(period),
      telemetry_(telemetry),
      in_(in),
      out_(out),
      queue_(queue),
      thread_([this](std::stop_token stop) { Run(std::move(stop)); }) {}

void ScheduledEcho::Run(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  for (uint64_t number = 1;
       !wake_.wait_for(lock, stop, period_, [] { return false; }); ++number) {
    if (stop.stop_requested()) return;
    const absl::Status status = Echo(number);
    if (status.ok()) continue;
    if (!device_->status().ok()) return;  // the main thread reports that
    device_->AddToCounter(telemetry_.failures, 1);
    spdlog::error("scheduled event {}: {}", number, status.message());
    // It is unknown whether the event is still in flight, so its slot cannot be
    // reused.
    if (queue_->free_slots() == 0) return;
  }
}

absl::Status ScheduledEcho::Echo(uint64_t number) {
  std::string message = fmt::format("scheduled event {}", number);
  message.resize(kMessageBytes);
  std::memcpy(in_.bytes.data(), message.data(), kMessageBytes);
  const Nanoseconds start = NowNs();
  queue_->Commit();
  RETURN_IF_ERROR(edge::edgeScheduleEvent(*device_, queue_));
  ASSIGN_OR_RETURN(const auto done, queue_->Wait(std::chrono::seconds(10)));
  device_->histogram(telemetry_.histogram).Add(NowNs() - start);
  device_->AddToCounter(telemetry_.events, 1);
  absl::Status result;
  if (done.state != edge::EventState::kDone) {
    result =
        absl::InternalError(fmt::format("failed with status {}", done.status));
  } else if (std::memcmp(out_.bytes.data(), message.data(), kMessageBytes) !=
             0) {
    queue_->NoteMismatch();
    result = absl::DataLossError("the echo is not what was sent");
  }
  queue_->Free();
  return result;
}

}  // namespace carillon::cpu_host
