#include "devices/router/forward_channel.h"

#include <cstring>

#include "base/status.h"

namespace carillon::router {
namespace {

using forwarding::Family;
using forwarding::Header;
using forwarding::Result;
using forwarding::Verdict;
using packet_io::FramePool;

constexpr uint32_t kWarp = 32;

uint32_t HeaderBytes(Family family) {
  return family == Family::kIpv4 ? forwarding::kIpv4HeaderBytes
                                 : forwarding::kIpv6HeaderBytes;
}

}  // namespace

uint64_t ForwardChannel::SubmissionBytes(uint32_t batch, uint32_t ring) {
  return PacketEvents::SubmissionBytes(batch, ring);
}

uint64_t ForwardChannel::CompletionBytes(uint32_t batch, uint32_t ring) {
  return PacketEvents::CompletionBytes(ring) +
         uint64_t{ring} * batch * (sizeof(Header) + sizeof(Result));
}

absl::StatusOr<std::unique_ptr<ForwardChannel>> ForwardChannel::Make(
    edge::Device* device, const Options& options) {
  using edge::Place;
  std::unique_ptr<ForwardChannel> channel(new ForwardChannel(options));
  const uint64_t packets = uint64_t{options.ring} * options.batch;
  ASSIGN_OR_RETURN(
      channel->headers_,
      device->AllocateBuffer(Place::kOutput, packets * sizeof(Header)));
  ASSIGN_OR_RETURN(
      channel->results_,
      device->AllocateBuffer(Place::kOutput, packets * sizeof(Result)));
  const uint32_t warps = (options.batch + kWarp - 1) / kWarp;
  const edge::EventSpec spec = {
      .kernel =
          options.family == Family::kIpv4 ? "ipv4_forward" : "ipv6_forward",
      .block = {warps * kWarp, 1, 1},
      .priority = options.priority,
      .label = options.family == Family::kIpv4 ? "IPv4" : "IPv6",
      .parameters = {edge::Fixed("table", *options.table),
                     edge::Fixed("next_hops", *options.next_hops),
                     PacketEvents::BySlot("headers", channel->headers_,
                                          sizeof(Header), options.batch),
                     PacketEvents::BySlot("results", channel->results_,
                                          sizeof(Result), options.batch),
                     edge::Constant("first_bits", options.first_bits)}};
  ASSIGN_OR_RETURN(channel->events_,
                   PacketEvents::Make(device, spec,
                                      {.batch = options.batch,
                                       .ring = options.ring,
                                       .frames = options.frames}));
  return channel;
}

Forwarded ForwardChannel::ResultOf(uint64_t at, const Packet& packet,
                                   bool done) const {
  Forwarded forwarded{.packet = packet,
                      .verdict = Verdict::kNone,
                      .port = 0,
                      .header = {},
                      .rest = {}};
  if (!done) return forwarded;
  Result result;
  std::memcpy(&result, results_.bytes.data() + at * sizeof(result),
              sizeof(result));
  const packet_io::Frame& frame = packet.frame;
  const uint32_t ip_bytes = HeaderBytes(options_.family);
  if (result.verdict != Verdict::kForward) {
    forwarded.verdict = result.verdict;
    return forwarded;
  }
  if (result.length < ip_bytes ||
      result.length > frame.length - packet_io::kEthernetBytes) {
    return forwarded;
  }
  forwarded.verdict = Verdict::kForward;
  const auto header = headers_.bytes.subspan(at * sizeof(Header));
  forwarded.port = std::to_integer<uint32_t>(header[0]) << 8 |
                   std::to_integer<uint32_t>(header[1]);
  forwarded.header = header.subspan(
      forwarding::kEthernetOffset,
      forwarding::kIpOffset - forwarding::kEthernetOffset + ip_bytes);
  forwarded.rest = options_.frames->bytes.subspan(
      FramePool::OffsetOf(frame.buffer) + packet_io::kIpOffset + ip_bytes,
      result.length - ip_bytes);
  return forwarded;
}

uint32_t ForwardChannel::TakeResults(const Sink& sink) {
  return events_->Take([&](uint64_t at, const Packet& packet, bool done) {
    sink(ResultOf(at, packet, done));
  });
}

}  // namespace carillon::router
