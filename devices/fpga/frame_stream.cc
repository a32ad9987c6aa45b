#include "devices/fpga/frame_stream.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/clock.h"
#include "base/status.h"
#include "devices/fpga/frame_tag.h"
#include "fmt/format.h"
#include "shm/layout.h"

namespace carillon::fpga {
namespace {

using std::chrono::milliseconds;

// The longest sleep, and so the longest delay before a stop request is seen.
constexpr milliseconds kMaxSleep{50};
// How long the last events may take.
// Shorter than what a supervisor waits for the end of a device.
constexpr milliseconds kDrainTime{2'000};
// How many wrong frames the log describes.
constexpr uint64_t kMismatchesLogged = 5;

// Frames and results begin on cache lines of their own.
uint64_t Stride(uint64_t bytes) { return shm::AlignUp(bytes, 128); }

}  // namespace

std::vector<std::string> FrameStream::CounterNames() {
  return {"frames_sent",       "frames_done", "mismatches",
          "events_failed",     "dropped",     "activations",
          "activation_errors", "late",        "not_taken"};
}

std::vector<std::string> FrameStream::HistogramNames() {
  return {"frame_latency", "tardiness", "jitter"};
}

uint64_t FrameStream::SubmissionBytes(const FrameKernel& kernel,
                                      uint64_t frame_bytes, uint32_t ring) {
  // The ESQ has no writable parameters, so an entry takes a line.
  return ring * (Stride(frame_bytes + sizeof(FrameTag)) + shm::kCacheLine) +
         Stride(kernel.extra_input_bytes()) + shm::kPageSize;
}

uint64_t FrameStream::CompletionBytes(const FrameKernel& kernel,
                                      uint32_t ring) {
  return ring * (Stride(kernel.result_bytes()) + sizeof(shm::EcqEntry) +
                 sizeof(shm::EventLife)) +
         shm::kPageSize;
}

FrameStream::FrameStream(edge::Device* device, FrameSource* source,
                         FrameKernel* kernel, const StreamOptions& options)
    : device_(device),
      source_(source),
      kernel_(kernel),
      options_(options),
      in_flight_(options.ring),
      counts_(CounterNames().size()) {
  if (options.check && source->wave() != nullptr) map_.emplace(source->wave());
}

absl::StatusOr<std::unique_ptr<FrameStream>> FrameStream::Make(
    edge::Device* device, FrameSource* source, FrameKernel* kernel,
    const StreamOptions& options) {
  auto stream = std::unique_ptr<FrameStream>(
      new FrameStream(device, source, kernel, options));
  FrameBuffers& buffers = stream->buffers_;
  buffers.frame_bytes = uint64_t{source->width()} * source->height();
  if (!options.hand_to.empty()) buffers.frame_bytes += sizeof(FrameTag);
  buffers.frame_stride = Stride(buffers.frame_bytes);
  buffers.result_stride = Stride(kernel->result_bytes());
  ASSIGN_OR_RETURN(buffers.frames,
                   device->AllocateBuffer(edge::Place::kInput,
                                          options.ring * buffers.frame_stride));
  ASSIGN_OR_RETURN(buffers.results, device->AllocateBuffer(
                                        edge::Place::kOutput,
                                        options.ring * buffers.result_stride));

  edge::EventSpec spec;
  spec.max_in_flight = options.ring;
  spec.priority = options.priority;
  spec.label = fmt::format("frames {}x{}", source->width(), source->height());
  spec.hands_to = options.hand_to;
  RETURN_IF_ERROR(kernel->Prepare(*device, buffers, &spec));
  ASSIGN_OR_RETURN(stream->queue_, edge::edgeRegisterEvent(*device, spec));
  return stream;
}

void FrameStream::Count(Counter counter, uint64_t n) {
  counts_[counter] += n;
  device_->SetCounter(counter, counts_[counter]);
}

Nanoseconds FrameStream::NextDue() const {
  return punctuality_ ? punctuality_->Due(next_frame_) : 0;
}

void FrameStream::JudgeTime(uint64_t frame) {
  if (!punctuality_) return;
  const Punctuality::Figures figures = punctuality_->Add(frame, device_->Now());
  if (figures.tardiness > 0) Count(kLate);
  device_->histogram(kTardiness).Add(figures.tardiness);
  if (figures.jitter) device_->histogram(kJitter).Add(*figures.jitter);
}

void FrameStream::Send(uint64_t frame) {
  const uint32_t slot = queue_->next_slot();
  const auto at = buffers_.frames.bytes.subspan(slot * buffers_.frame_stride);
  source_->Render(frame, {reinterpret_cast<uint8_t*>(at.data()),
                          uint64_t{source_->width()} * source_->height()});
  if (!options_.hand_to.empty()) {
    const bool at_a_rate = punctuality_.has_value();
    const FrameTag tag{
        .stream = start_ns_,
        .number = frame,
        .exposed_ns = at_a_rate ? punctuality_->Due(frame) : device_->Now(),
        .deadline_ns = at_a_rate ? punctuality_->Due(frame + 1) : 0,
        .width = source_->width(),
        .height = source_->height()};
    std::memcpy(at.data() + buffers_.frame_bytes - sizeof(tag), &tag,
                sizeof(tag));
  }
  in_flight_[slot] = {.frame = frame, .rung_ns = device_->Now()};
  queue_->RingDoorbell();
  Count(kFramesSent);
}

void FrameStream::SendDue() {
  while (!AllSent()) {
    if (options_.fps == 0) {
      if (queue_->free_slots() == 0) return;
      Send(next_frame_++);
      // Results wait while frames are made, so look at them in between.
      if (queue_->Poll()) return;
      continue;
    }
    if (NextDue() > device_->Now()) return;
    if (queue_->free_slots() > 0) {
      Send(next_frame_);
    } else {
      // A camera does not wait, so the frame is lost.
      Count(kDropped);
    }
    ++next_frame_;
  }
}

absl::Status FrameStream::TakeResult(const InFlight& sent, uint32_t slot) {
  const std::span<const std::byte> result = buffers_.results.bytes.subspan(
      slot * buffers_.result_stride, kernel_->result_bytes());
  if (options_.check) {
    GreyImage frame{
        .width = source_->width(), .height = source_->height(), .pixels = {}};
    const auto* pixels = reinterpret_cast<const uint8_t*>(
        buffers_.frames.bytes.subspan(slot * buffers_.frame_stride).data());
    frame.pixels.assign(pixels, pixels + uint64_t{frame.width} * frame.height);
    if (const std::string wrong = kernel_->Check(frame, result);
        !wrong.empty()) {
      Count(kMismatches);
      queue_->NoteMismatch();
      if (counts_[kMismatches] <= kMismatchesLogged) {
        spdlog::error("frame {}: {}", sent.frame, wrong);
      }
    }
  }
  if (map_) {
    const uint64_t activations = map_->activations();
    const uint64_t errors = map_->errors();
    map_->Add(sent.frame, kernel_->ToImage(result).pixels);
    Count(kActivations, map_->activations() - activations);
    Count(kActivationErrors, map_->errors() - errors);
  }
  if (!options_.store.empty()) {
    return WritePgm(
        fmt::format("{}/frame_{:06}.pgm", options_.store, sent.frame),
        options_.store_picture ? kernel_->ToPicture(result)
                               : kernel_->ToImage(result));
  }
  return absl::OkStatus();
}

absl::Status FrameStream::TakeResults() {
  while (const auto done = queue_->Poll()) {
    const uint32_t slot = queue_->SlotOf(done->sequence);
    const InFlight sent = in_flight_[slot];
    device_->histogram(kFrameLatency).Add(device_->Now() - sent.rung_ns);
    absl::Status taken;
    if (done->state == edge::EventState::kDone) {
      JudgeTime(sent.frame);
      if (done->status == static_cast<uint32_t>(shm::EventStatus::kNotTaken)) {
        Count(kNotTaken);
      }
      taken = TakeResult(sent, slot);
    } else {
      Count(kEventsFailed);
      if (counts_[kEventsFailed] <= kMismatchesLogged) {
        spdlog::error("frame {}: its event {} with status {}", sent.frame,
                      done->state == edge::EventState::kAborted ? "was aborted"
                                                                : "failed",
                      done->status);
      }
    }
    queue_->Free();
    Count(kFramesDone);
    if (!taken.ok()) return taken;
  }
  return absl::OkStatus();
}

absl::Status FrameStream::Drain() {
  while (queue_->in_flight() > 0) {
    RETURN_IF_ERROR(queue_->Wait(kDrainTime).status());
    RETURN_IF_ERROR(TakeResults());
  }
  return absl::OkStatus();
}

absl::Status FrameStream::StreamFrames(const edge::StopRequest& stop) {
  while (!stop.requested() && !AllSent()) {
    SendDue();
    RETURN_IF_ERROR(TakeResults());
    if (AllSent()) break;
    const Nanoseconds now = device_->Now();
    const Nanoseconds due = NextDue();
    if (options_.fps == 0 ? queue_->free_slots() > 0 : due <= now) continue;
    auto sleep = std::chrono::nanoseconds(kMaxSleep);
    if (options_.fps != 0)
      sleep = std::min(sleep, std::chrono::nanoseconds(due - now));
    device_->WaitForCompletion(
        [&] { return queue_->Poll().has_value() || stop.requested(); }, sleep);
    RETURN_IF_ERROR(device_->status());
  }
  return Drain();
}

absl::Status FrameStream::Run(const edge::DeviceContext& context) {
  start_ns_ = device_->Now();
  if (options_.fps != 0) punctuality_.emplace(start_ns_, options_.fps);
  absl::Status status = StreamFrames(context.stop);
  while (!status.ok() && device_->may_resume()) {
    RETURN_IF_ERROR(TakeResults());
    status = edge::GoOnAfter(device_->status(), *device_, context);
    if (absl::IsCancelled(status)) break;  // what it has is judged all the same
    RETURN_IF_ERROR(status);
    status = StreamFrames(context.stop);
  }
  if (!absl::IsCancelled(status)) RETURN_IF_ERROR(status);

  const double seconds = static_cast<double>(device_->Now() - start_ns_) * 1e-9;
  spdlog::info(
      "{} frames in {:.3f} s ({:.1f} a second), {} dropped, {} failed{}{}",
      counts_[kFramesDone], seconds,
      static_cast<double>(counts_[kFramesDone]) / std::max(seconds, 1e-9),
      counts_[kDropped], counts_[kEventsFailed],
      options_.check ? fmt::format(", {} wrong", counts_[kMismatches]) : "",
      options_.hand_to.empty()
          ? ""
          : fmt::format(", {} not taken by '{}'", counts_[kNotTaken],
                        options_.hand_to));
  if (map_) {
    spdlog::info(
        "{} activations recovered, {} wrong, largest error {:.2f} frames",
        map_->activations(), map_->errors(), map_->largest_error());
  }
  return Verdict();
}

absl::Status FrameStream::Verdict() const {
  if (counts_[kMismatches] + counts_[kEventsFailed] +
          counts_[kActivationErrors] ==
      0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      fmt::format("of {} frames {} were wrong and {} failed; {} activation "
                  "times were wrong",
                  counts_[kFramesDone], counts_[kMismatches],
                  counts_[kEventsFailed], counts_[kActivationErrors]));
}

}  // namespace carillon::fpga
