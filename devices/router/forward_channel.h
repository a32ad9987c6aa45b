// The forwarding events of one version of IP: a device submits frames in
// batches, and takes verdicts and new headers.
#ifndef CARILLON_DEVICES_ROUTER_FORWARD_CHANNEL_H_
#define CARILLON_DEVICES_ROUTER_FORWARD_CHANNEL_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "devices/packet_io/packet_port.h"
#include "devices/sdk/edge.h"
#include "kernels/forwarding/prefix.h"
#include "kernels/forwarding/wire.h"

namespace carillon::router {

// A frame with an IP packet in it.
struct Packet {
  packet_io::Frame frame;
  Nanoseconds arrived_ns = 0;
};

// What became of a packet.
struct Forwarded {
  Packet packet;
  forwarding::Verdict verdict;
  // With kForward:
  uint32_t port;                      // the next hop's
  std::span<const std::byte> header;  // the new one, until the next Submit()
  std::span<const std::byte> rest;    // behind it
};

// Not thread safe.
class ForwardChannel {
 public:
  struct Options {
    forwarding::Family family;
    uint32_t batch;
    uint32_t ring;
    uint32_t priority;
    uint32_t first_bits;
    const edge::Buffer* frames;  // of the FramePool
    const edge::Buffer* table;
    const edge::Buffer* next_hops;
  };
  using Sink = std::function<void(const Forwarded&)>;

  // The room that it needs in the apertures, rings included.
  static uint64_t SubmissionBytes(uint32_t batch, uint32_t ring);
  static uint64_t CompletionBytes(uint32_t batch, uint32_t ring);

  // `device` must outlive it. Errors: those of AllocateBuffer() and
  // edgeRegisterEvent().
  static absl::StatusOr<std::unique_ptr<ForwardChannel>> Make(
      edge::Device* device, const Options& options);

  bool CanSubmit() const { return queue_->free_slots() > 0; }
  // Rings for these packets, a batch at most. Requires CanSubmit().
  void Submit(std::span<const Packet> packets);

  // Gives the packets of all events that have ended to `sink`, in the order in
  // which they were submitted. Those of an event that failed have verdict kNone.
  // Returns how many events have ended.
  uint32_t TakeResults(const Sink& sink);
  bool HasResults() const { return queue_->Poll().has_value(); }
  uint32_t in_flight() const { return queue_->in_flight(); }
  uint64_t events_failed() const { return events_failed_; }
  // Until an event has ended. Errors: those of EventQueue::Wait().
  absl::Status Wait(std::chrono::nanoseconds timeout) const {
    return queue_->Wait(timeout).status();
  }

 private:
  explicit ForwardChannel(const Options& options) : options_(options) {}

  Forwarded ResultOf(uint32_t slot, uint32_t i, bool done) const;

  const Options options_;
  edge::Buffer descriptors_;
  edge::Buffer headers_;
  edge::Buffer results_;
  edge::EventQueue* queue_ = nullptr;
  uint32_t count_offset_ = 0;
  uint64_t events_failed_ = 0;
  std::vector<uint32_t> counts_;  // packets, by slot
  std::vector<Packet> packets_;   // by slot, a batch for each
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_FORWARD_CHANNEL_H_
