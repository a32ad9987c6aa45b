// The events that put packets into ESP tunnels, or those that take them out: a
// device submits frames in batches, and takes verdicts and other packets.
#ifndef CARILLON_DEVICES_ROUTER_ESP_CHANNEL_H_
#define CARILLON_DEVICES_ROUTER_ESP_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "devices/router/packet_events.h"
#include "devices/sdk/edge.h"
#include "kernels/ipsec/wire.h"

namespace carillon::router {

// What became of a packet.
struct EspResult {
  Packet packet;
  ipsec::Verdict verdict;
  uint32_t spi;       // 0: none was found
  uint32_t sequence;  // 0: it has none
  // With kDone, until the next Submit(): the other packet.
  std::span<const std::byte> bytes;
};

// Not thread safe.
class EspChannel {
 public:
  struct Options {
    ipsec::Direction direction;
    uint32_t batch;
    uint32_t ring;
    uint32_t priority;
    uint32_t first_bits;
    const edge::Buffer* frames;  // of the FramePool
    const edge::Buffer* sas;
    const edge::Buffer* policies4;
    const edge::Buffer* policies6;
  };
  using Sink = std::function<void(const EspResult&)>;

  // The room that it needs in the apertures, rings included.
  static uint64_t SubmissionBytes(uint32_t batch, uint32_t ring);
  static uint64_t CompletionBytes(uint32_t batch, uint32_t ring);

  // `device` must outlive it. Errors: those of PacketEvents::Make().
  static absl::StatusOr<std::unique_ptr<EspChannel>> Make(
      edge::Device* device, const Options& options);

  PacketEvents& events() { return *events_; }
  // As ForwardChannel's.
  uint32_t TakeResults(const Sink& sink);

 private:
  explicit EspChannel(const Options& options) : options_(options) {}

  EspResult ResultOf(uint64_t at, const Packet& packet, bool done) const;

  const Options options_;
  edge::Buffer out_;
  edge::Buffer results_;
  edge::Buffer counts_;
  std::unique_ptr<PacketEvents> events_;
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ESP_CHANNEL_H_
