#include "devices/router/echo_channel.h"

#include <cstring>

#include "base/status.h"

namespace carillon::router {
namespace {

using forwarding::EchoHeader;
using forwarding::EchoResult;
using forwarding::EchoVerdict;

constexpr uint32_t kWarp = 32;
static_assert(packet_io::kIpOffset == forwarding::kEthernetRoom);

}  // namespace

uint64_t EchoChannel::SubmissionBytes(uint32_t batch, uint32_t ring) {
  return PacketEvents::SubmissionBytes(batch, ring);
}

uint64_t EchoChannel::CompletionBytes(uint32_t batch, uint32_t ring) {
  return PacketEvents::CompletionBytes(ring) +
         uint64_t{ring} * batch * (sizeof(EchoHeader) + sizeof(EchoResult));
}

absl::StatusOr<std::unique_ptr<EchoChannel>> EchoChannel::Make(
    edge::Device* device, const Options& options) {
  using edge::Place;
  std::unique_ptr<EchoChannel> channel(new EchoChannel(options));
  const uint64_t packets = uint64_t{options.ring} * options.batch;
  ASSIGN_OR_RETURN(
      channel->headers_,
      device->AllocateBuffer(Place::kOutput, packets * sizeof(EchoHeader)));
  ASSIGN_OR_RETURN(
      channel->results_,
      device->AllocateBuffer(Place::kOutput, packets * sizeof(EchoResult)));
  const edge::EventSpec spec = {
      .kernel = "echo_reply",
      .block = {(options.batch + kWarp - 1) / kWarp * kWarp, 1, 1},
      .priority = options.priority,
      .label = "pings",
      .parameters = {PacketEvents::BySlot("headers", channel->headers_,
                                          sizeof(EchoHeader), options.batch),
                     PacketEvents::BySlot("results", channel->results_,
                                          sizeof(EchoResult), options.batch)}};
  ASSIGN_OR_RETURN(channel->events_,
                   PacketEvents::Make(device, spec,
                                      {.batch = options.batch,
                                       .ring = options.ring,
                                       .frames = options.frames}));
  return channel;
}

Echoed EchoChannel::ResultOf(uint64_t at, const Packet& packet,
                             bool done) const {
  Echoed echoed{
      .packet = packet, .verdict = EchoVerdict::kNone, .head = {}, .rest = {}};
  if (!done) return echoed;
  EchoResult result;
  std::memcpy(&result, results_.bytes.data() + at * sizeof(result),
              sizeof(result));
  const uint32_t head = result.head;
  // Bytes of the packet that the head stands for.
  const uint32_t replaced = head - packet_io::kIpOffset;
  if (result.verdict == EchoVerdict::kReply &&
      (head < packet_io::kIpOffset || head > sizeof(EchoHeader) ||
       result.length < replaced ||
       result.length > packet.frame.length - packet_io::kEthernetBytes)) {
    return echoed;
  }
  echoed.verdict = result.verdict;
  if (result.verdict != EchoVerdict::kReply) return echoed;
  echoed.head =
      headers_.bytes.subspan(at * sizeof(EchoHeader) + packet_io::kFrameOffset,
                             head - packet_io::kFrameOffset);
  echoed.rest = options_.frames->bytes.subspan(
      packet_io::FramePool::OffsetOf(packet.frame.buffer) + head,
      result.length - replaced);
  return echoed;
}

uint32_t EchoChannel::TakeResults(const Sink& sink) {
  return events_->Take([&](uint64_t at, const Packet& packet, bool done) {
    sink(ResultOf(at, packet, done));
  });
}

}  // namespace carillon::router
