// Events of a kernel that takes packets in batches: what all such kernels of a
// router have in common.
#ifndef CARILLON_DEVICES_ROUTER_PACKET_EVENTS_H_
#define CARILLON_DEVICES_ROUTER_PACKET_EVENTS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "devices/packet_io/packet_port.h"
#include "devices/sdk/edge.h"

namespace carillon::router {

// A frame with an IP packet in it.
struct Packet {
  packet_io::Frame frame;
  Nanoseconds arrived_ns = 0;
  uint32_t port = 0;  // where it came from
  uint32_t sa = 0;    // to be encrypted: the place of its SA
};

// Not thread safe.
class PacketEvents {
 public:
  struct Shape {
    uint32_t batch;
    uint32_t ring;
    const edge::Buffer* frames;  // of the FramePool
  };

  // The room that it needs in the submission aperture, the ring included; and the
  // ring's in the completion aperture.
  static uint64_t SubmissionBytes(uint32_t batch, uint32_t ring);
  static uint64_t CompletionBytes(uint32_t ring);

  // Registers `spec`, to whose parameters come `descriptors`, `packets` and
  // `count`. `device` must outlive it. Errors: those of AllocateBuffer() and
  // edgeRegisterEvent().
  static absl::StatusOr<std::unique_ptr<PacketEvents>> Make(
      edge::Device* device, edge::EventSpec spec, const Shape& shape);
  // For its other parameters: each slot has its own part of `buffer`, with
  // `packet_bytes` for each packet of a batch.
  static edge::Parameter BySlot(std::string name, const edge::Buffer& buffer,
                                uint64_t packet_bytes, uint32_t batch);

  bool CanSubmit() const { return queue_->free_slots() > 0; }
  // Rings for these packets, a batch at most. Requires CanSubmit().
  void Submit(std::span<const Packet> packets);

  // Takes all events that have ended, in the order in which they were submitted,
  // and calls sink(at, packet, done) for each packet. `at`: its place in buffers
  // by slot, which are free afterwards; `done`: the event has not failed. Returns
  // how many events have ended.
  template <class Sink>
  uint32_t Take(const Sink& sink) {
    uint32_t ended = 0;
    while (const auto event = queue_->Poll()) {
      const uint32_t slot = queue_->SlotOf(event->sequence);
      const bool done = event->state == edge::EventState::kDone;
      if (!done) ++failed_;
      for (uint32_t i = 0; i < counts_[slot]; ++i) {
        const uint64_t at = uint64_t{slot} * shape_.batch + i;
        sink(at, packets_[at], done);
      }
      queue_->Free();
      ++ended;
    }
    return ended;
  }
  bool HasResults() const { return queue_->Poll().has_value(); }
  uint32_t in_flight() const { return queue_->in_flight(); }
  uint64_t failed() const { return failed_; }
  // Until an event has ended. Errors: those of EventQueue::Wait().
  absl::Status Wait(std::chrono::nanoseconds timeout) const {
    return queue_->Wait(timeout).status();
  }

 private:
  explicit PacketEvents(const Shape& shape) : shape_(shape) {}

  const Shape shape_;
  edge::Buffer descriptors_;
  edge::EventQueue* queue_ = nullptr;
  uint32_t count_offset_ = 0;
  uint64_t failed_ = 0;
  std::vector<uint32_t> counts_;  // packets, by slot
  std::vector<Packet> packets_;   // by slot, a batch for each
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_PACKET_EVENTS_H_
