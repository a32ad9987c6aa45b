// The events that answer pings: a device submits requests in batches, and takes
// replies.
#ifndef CARILLON_DEVICES_ROUTER_ECHO_CHANNEL_H_
#define CARILLON_DEVICES_ROUTER_ECHO_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "devices/router/packet_events.h"
#include "devices/sdk/edge.h"
#include "kernels/forwarding/echo_wire.h"

namespace carillon::router {

// What became of a request.
struct Echoed {
  Packet packet;
  forwarding::EchoVerdict verdict;
  // With kReply, until the next Submit(): the frame that goes out.
  std::span<const std::byte> head;
  std::span<const std::byte> rest;
};

// Not thread safe.
class EchoChannel {
 public:
  struct Options {
    uint32_t batch;
    uint32_t ring;
    uint32_t priority;
    const edge::Buffer* frames;  // of the FramePool
  };
  using Sink = std::function<void(const Echoed&)>;

  // The room that it needs in the apertures, rings included.
  static uint64_t SubmissionBytes(uint32_t batch, uint32_t ring);
  static uint64_t CompletionBytes(uint32_t batch, uint32_t ring);

  // `device` must outlive it. Errors: those of PacketEvents::Make().
  static absl::StatusOr<std::unique_ptr<EchoChannel>> Make(
      edge::Device* device, const Options& options);

  PacketEvents& events() { return *events_; }
  // As ForwardChannel's.
  uint32_t TakeResults(const Sink& sink);

 private:
  explicit EchoChannel(const Options& options) : options_(options) {}

  Echoed ResultOf(uint64_t at, const Packet& packet, bool done) const;

  const Options options_;
  edge::Buffer headers_;
  edge::Buffer results_;
  std::unique_ptr<PacketEvents> events_;
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ECHO_CHANNEL_H_
