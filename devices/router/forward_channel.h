// The forwarding events of one version of IP: a device submits frames in
// batches, and takes verdicts and new headers.
#ifndef CARILLON_DEVICES_ROUTER_FORWARD_CHANNEL_H_
#define CARILLON_DEVICES_ROUTER_FORWARD_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "devices/router/packet_events.h"
#include "devices/sdk/edge.h"
#include "kernels/forwarding/prefix.h"
#include "kernels/forwarding/wire.h"

namespace carillon::router {

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

  // `device` must outlive it. Errors: those of PacketEvents::Make().
  static absl::StatusOr<std::unique_ptr<ForwardChannel>> Make(
      edge::Device* device, const Options& options);

  PacketEvents& events() { return *events_; }

  // Gives the packets of all events that have ended to `sink`, in the order in
  // which they were submitted. Those of an event that failed have verdict kNone.
  // Returns how many events have ended.
  uint32_t TakeResults(const Sink& sink);

 private:
  explicit ForwardChannel(const Options& options) : options_(options) {}

  Forwarded ResultOf(uint64_t at, const Packet& packet, bool done) const;

  const Options options_;
  edge::Buffer headers_;
  edge::Buffer results_;
  std::unique_ptr<PacketEvents> events_;
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_FORWARD_CHANNEL_H_
