#include "devices/cpu_host/scheduled_echo.h"

#include <spdlog/spdlog.h>

#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::cpu_host {

namespace {

std::string Message(uint64_t number) {
  std::string message = fmt::format("scheduled event {}", number);
  message.resize(ScheduledEcho::kMessageBytes);
  return message;
}

}  // namespace

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
      queue_(queue) {
  GoOn();
}

void ScheduledEcho::Pause() {
  thread_.request_stop();
  thread_.join();
  while (queue_->Poll()) queue_->Free();
}

void ScheduledEcho::GoOn() {
  thread_ =
      std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
}

void ScheduledEcho::Run(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  if (queue_->free_slots() == 0) {
    // gpud died with an event, perhaps before it was scheduled.
    queue_->RingCommitted();
    if (!CanGoOnAfter(FinishLast())) return;
  }
  while (!wake_.wait_for(lock, stop, period_, [] { return false; }) &&
         !stop.stop_requested()) {
    if (!CanGoOnAfter(Echo())) return;
  }
}

bool ScheduledEcho::CanGoOnAfter(const absl::Status& status) {
  if (status.ok()) return true;
  if (!device_->status().ok()) return false;  // the main thread reports that
  device_->AddToCounter(telemetry_.failures, 1);
  spdlog::error("scheduled event {}: {}", number_, status.message());
  // If it is unknown whether the event is still in flight, its slot cannot be
  // reused.
  return queue_->free_slots() != 0;
}

absl::Status ScheduledEcho::Echo() {
  const std::string message = Message(++number_);
  std::memcpy(in_.bytes.data(), message.data(), kMessageBytes);
  const Nanoseconds start = NowNs();
  queue_->Commit();
  RETURN_IF_ERROR(edge::edgeScheduleEvent(*device_, queue_));
  RETURN_IF_ERROR(FinishLast());
  device_->histogram(telemetry_.histogram).Add(NowNs() - start);
  return absl::OkStatus();
}

absl::Status ScheduledEcho::FinishLast() {
  ASSIGN_OR_RETURN(const auto done, queue_->Wait(std::chrono::seconds(10)));
  device_->AddToCounter(telemetry_.events, 1);
  absl::Status result;
  if (done.state != edge::EventState::kDone) {
    result =
        absl::InternalError(fmt::format("failed with status {}", done.status));
  } else if (std::memcmp(out_.bytes.data(), Message(number_).data(),
                         kMessageBytes) != 0) {
    queue_->NoteMismatch();
    result = absl::DataLossError("the echo is not what was sent");
  }
  queue_->Free();
  return result;
}

}  // namespace carillon::cpu_host
