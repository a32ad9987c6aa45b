// Streams frames from a source to an event kernel, one event per frame, and
// takes the results.
#ifndef CARILLON_DEVICES_FPGA_FRAME_STREAM_H_
#define CARILLON_DEVICES_FPGA_FRAME_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "devices/fpga/activation_map.h"
#include "devices/fpga/fpga_options.h"
#include "devices/fpga/frame_kernel.h"
#include "devices/fpga/frame_source.h"
#include "devices/fpga/punctuality.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"

namespace carillon::fpga {

// Not thread safe.
class FrameStream {
 public:
  // Indices into the device's telemetry; CounterNames() and HistogramNames()
  // have their names.
  enum Counter : uint32_t {
    kFramesSent,
    kFramesDone,
    kMismatches,
    kEventsFailed,
    kDropped,      // the ring was full at the frame's time
    kActivations,  // counted by the map, with --check and cardiac frames
    kActivationErrors,
    kLate,      // results that came after the next frame was due
    kNotTaken,  // done, and no event of the next device took them on
  };
  // The last two of results at a rate, and none of failed events.
  enum Histogram : uint32_t {
    kFrameLatency,  // rung to completion seen
    kTardiness,
    kJitter,
  };
  static std::vector<std::string> CounterNames();
  static std::vector<std::string> HistogramNames();

  // The room that a device needs in its apertures.
  static uint64_t SubmissionBytes(const FrameKernel& kernel,
                                  uint64_t frame_bytes, uint32_t ring);
  static uint64_t CompletionBytes(const FrameKernel& kernel, uint32_t ring);

  // Allocates and registers. All arguments must outlive the stream. Errors:
  // those of edgeRegisterEvent.
  static absl::StatusOr<std::unique_ptr<FrameStream>> Make(
      edge::Device* device, FrameSource* source, FrameKernel* kernel,
      const StreamOptions& options);

  // Streams until all frames are done or a stop is requested, and then waits
  // for the events in flight. Errors: Unavailable (testbed gone, and no other
  // gpud in time), DataLoss (mismatches, failed events, wrong activation times:
  // how many), DeadlineExceeded (events in flight did not end within 10 s of
  // the last one), Internal (a result cannot be stored).
  absl::Status Run(const edge::DeviceContext& context);

 private:
  struct InFlight {
    uint64_t frame = 0;
    Nanoseconds rung_ns = 0;
  };

  FrameStream(edge::Device* device, FrameSource* source, FrameKernel* kernel,
              const StreamOptions& options);
  bool AllSent() const {
    return options_.frames != 0 && next_frame_ >= options_.frames;
  }
  // When frame `next_frame_` is due; 0 means now, if there is no rate.
  Nanoseconds NextDue() const;
  void SendDue();
  void Send(uint64_t frame);
  absl::Status TakeResults();
  absl::Status TakeResult(const InFlight& sent, uint32_t slot);
  absl::Status StreamFrames(const edge::StopRequest& stop);
  absl::Status Drain();
  absl::Status Verdict() const;
  void JudgeTime(uint64_t frame);
  void Count(Counter counter, uint64_t n = 1);

  edge::Device* const device_;
  FrameSource* const source_;
  FrameKernel* const kernel_;
  const StreamOptions options_;
  FrameBuffers buffers_;
  edge::EventQueue* queue_ = nullptr;
  std::vector<InFlight> in_flight_;  // indexed by slot
  std::optional<ActivationMap> map_;
  std::optional<Punctuality> punctuality_;  // at a rate, from Run() on
  Nanoseconds start_ns_ = 0;
  uint64_t next_frame_ = 0;
  std::vector<uint64_t> counts_;
};

}  // namespace carillon::fpga

#endif  // CARILLON_DEVICES_FPGA_FRAME_STREAM_H_
