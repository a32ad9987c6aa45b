#include "devices/cpu_host/frame_taker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "devices/cpu_host/frame_judge.h"
#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "shm/layout.h"

namespace carillon::cpu_host {
namespace {

// The longest sleep, and so the longest delay before a stop request is seen.
constexpr std::chrono::milliseconds kMaxSleep{50};
// How many wrong frames the log describes.
constexpr uint64_t kWrongLogged = 5;
constexpr uint32_t kThreads = 64;

enum Counter : uint32_t {
  kFrames,
  kWrong,
  kMissing,
  kTwice,
  kLate,
  kFailed,
  kActivations,
  kActivationErrors,
};
const std::vector<std::string> kCounterNames = {
    "frames", "wrong",         "missing",     "twice",
    "late",   "events_failed", "activations", "activation_errors"};
enum Histogram : uint32_t { kLatency, kTardiness, kJitter };
const std::vector<std::string> kHistogramNames = {"frame_latency", "tardiness",
                                                  "jitter"};

class FrameTaker {
 public:
  FrameTaker(const CpuHostOptions& options, uint32_t width, uint32_t height)
      : options_(options),
        width_(width),
        height_(height),
        result_bytes_(FrameJudge::CoefficientsOf(width, height) *
                      sizeof(float)),
        result_stride_(shm::AlignUp(result_bytes_, 128)),
        judge_(width, height, options.frames) {}

  absl::Status Open(const edge::DeviceContext& context) {
    const uint64_t ring = options_.ring;
    edge::AttachOptions attach;
    attach.testbed_directory = context.directory;
    attach.name = context.name;
    attach.kind = "cpu_host";
    attach.submission_bytes = ring * shm::kCacheLine + shm::kPageSize;
    attach.completion_bytes =
        ring * (result_stride_ + kTagStride + sizeof(shm::EcqEntry) +
                sizeof(shm::EventLife)) +
        shm::kPageSize;
    attach.counter_names = kCounterNames;
    attach.histogram_names = kHistogramNames;
    ASSIGN_OR_RETURN(device_, edge::Device::Attach(attach));
    ASSIGN_OR_RETURN(tags_, device_->AllocateBuffer(edge::Place::kOutput,
                                                    ring * kTagStride));
    ASSIGN_OR_RETURN(results_, device_->AllocateBuffer(edge::Place::kOutput,
                                                       ring * result_stride_));
    edge::EventSpec spec;
    spec.kernel = "frame_dct8x8";
    spec.grid = {static_cast<uint32_t>(
        (FrameJudge::CoefficientsOf(width_, height_) / 64 + kThreads - 1) /
        kThreads)};
    spec.block = {kThreads};
    spec.max_in_flight = options_.ring;
    spec.priority = options_.workload.priority;
    spec.label = fmt::format("frames of {}", options_.take_from);
    spec.takes_from = options_.take_from;
    spec.parameters = {
        edge::Taken("frame", "image"),
        edge::Taken("image", "out"),
        edge::Fixed(
            "tag", tags_,
            {.length = sizeof(fpga::FrameTag), .slot_stride = kTagStride}),
        edge::Fixed("coefficients", results_,
                    {.length = result_bytes_, .slot_stride = result_stride_}),
        edge::Constant("width", width_),
        edge::Constant("height", height_)};
    ASSIGN_OR_RETURN(queue_, edge::edgeRegisterEvent(*device_, spec));
    Post();
    const std::string note = fmt::format("frames {}x{} of '{}'", width_,
                                         height_, options_.take_from);
    RETURN_IF_ERROR(device_->ReportReady(note));
    spdlog::info("taking {}", note);
    return absl::OkStatus();
  }

  absl::Status Run(const edge::DeviceContext& context) {
    absl::Status status = Take(context.stop);
    while (!status.ok() && device_->may_resume()) {
      TakeCompleted();
      status = edge::GoOnAfter(device_->status(), *device_, context);
      if (absl::IsCancelled(status)) break;  // what it has is judged below
      RETURN_IF_ERROR(status);
      status = Take(context.stop);
    }
    if (!absl::IsCancelled(status)) RETURN_IF_ERROR(status);
    return Verdict();
  }

 private:
  static constexpr uint64_t kTagStride = 128;

  // Rings for every frame that there is room for.
  void Post() {
    bool any = false;
    for (; queue_->free_slots() > 0; any = true) queue_->Commit();
    if (any) queue_->RingCommitted();
  }

  void TakeCompleted() {
    while (const auto done = queue_->Poll()) {
      const uint32_t slot = queue_->SlotOf(done->sequence);
      if (done->state == edge::EventState::kDone) {
        Judge(slot);
      } else if (++failed_ <= kWrongLogged) {
        spdlog::error("event {} {} with status {}", done->sequence.value(),
                      done->state == edge::EventState::kAborted ? "was aborted"
                                                                : "failed",
                      done->status);
      }
      queue_->Free();
    }
    Publish();
  }

  void Judge(uint32_t slot) {
    fpga::FrameTag tag;
    std::memcpy(&tag, tags_.bytes.data() + slot * kTagStride, sizeof(tag));
    const std::span<const float> coefficients(
        reinterpret_cast<const float*>(results_.bytes.data() +
                                       slot * result_stride_),
        result_bytes_ / sizeof(float));
    const FrameJudge::Finding finding =
        judge_.Take(tag, coefficients, device_->Now());
    if (!finding.wrong.empty()) {
      queue_->NoteMismatch();
      if (judge_.counts().wrong <= kWrongLogged) {
        spdlog::error("frame {}: {}", tag.number, finding.wrong);
      }
      return;
    }
    if (finding.twice) return;
    device_->histogram(kLatency).Add(finding.latency);
    if (finding.tardiness) {
      device_->histogram(kTardiness).Add(*finding.tardiness);
    }
    if (finding.jitter) device_->histogram(kJitter).Add(*finding.jitter);
  }

  void Publish() {
    const FrameJudge::Counts& counts = judge_.counts();
    device_->SetCounter(kFrames, counts.frames);
    device_->SetCounter(kWrong, counts.wrong);
    device_->SetCounter(kMissing, judge_.missing());
    device_->SetCounter(kTwice, counts.twice);
    device_->SetCounter(kLate, counts.late);
    device_->SetCounter(kFailed, failed_);
    device_->SetCounter(kActivations, judge_.map().activations());
    device_->SetCounter(kActivationErrors, judge_.map().errors());
  }

  absl::Status Take(const edge::StopRequest& stop) {
    while (!stop.requested() && !judge_.complete()) {
      TakeCompleted();
      Post();
      if (judge_.complete()) break;
      device_->WaitForCompletion(
          [&] { return queue_->Poll().has_value() || stop.requested(); },
          kMaxSleep);
      RETURN_IF_ERROR(device_->status());
    }
    TakeCompleted();
    return absl::OkStatus();
  }

  absl::Status Verdict() const {
    const FrameJudge::Counts& counts = judge_.counts();
    spdlog::info(
        "{} frames: {} wrong, {} missing, {} twice, {} late; {} events failed",
        counts.frames, counts.wrong, judge_.missing(), counts.twice,
        counts.late, failed_);
    spdlog::info(
        "{} activations recovered, {} wrong, largest error {:.2f} frames",
        judge_.map().activations(), judge_.map().errors(),
        judge_.map().largest_error());
    if (counts.wrong + judge_.missing() + failed_ + judge_.map().errors() ==
        0) {
      return absl::OkStatus();
    }
    return absl::DataLossError(fmt::format(
        "of {} frames {} were wrong, {} are missing and {} events failed; {} "
        "activation times were wrong",
        counts.frames, counts.wrong, judge_.missing(), failed_,
        judge_.map().errors()));
  }

  const CpuHostOptions& options_;
  const uint32_t width_;
  const uint32_t height_;
  const uint64_t result_bytes_;
  const uint64_t result_stride_;
  FrameJudge judge_;
  std::unique_ptr<edge::Device> device_;
  edge::Buffer tags_;
  edge::Buffer results_;
  edge::EventQueue* queue_ = nullptr;
  uint64_t failed_ = 0;
};

}  // namespace

absl::Status TakeFrames(const edge::DeviceContext& context,
                        const CpuHostOptions& options) {
  uint32_t width = 0;
  uint32_t height = 0;
  // The table has checked the form.
  std::sscanf(options.frame_size.c_str(), "%ux%u", &width, &height);
  FrameTaker taker(options, width, height);
  RETURN_IF_ERROR(taker.Open(context));
  return taker.Run(context);
}

}  // namespace carillon::cpu_host
