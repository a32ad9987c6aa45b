#include "devices/router/forward_channel.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/status.h"

namespace carillon::router {
namespace {

using forwarding::Family;
using forwarding::Header;
using forwarding::Result;
using forwarding::Verdict;
using packet_io::FramePool;

constexpr uint32_t kWarp = 32;
// An ESQ or ECQ entry with everything that belongs to it takes less.
constexpr uint64_t kRingBytesPerSlot = 256;
// Room for the alignment of allocations.
constexpr uint64_t kSlack = 4096;

uint32_t HeaderBytes(Family family) {
  return family == Family::kIpv4 ? forwarding::kIpv4HeaderBytes
                                 : forwarding::kIpv6HeaderBytes;
}

}  // namespace

uint64_t ForwardChannel::SubmissionBytes(uint32_t batch, uint32_t ring) {
  return ring * (uint64_t{batch} * sizeof(forwarding::Packet) +
                 kRingBytesPerSlot) +
         kSlack;
}

uint64_t ForwardChannel::CompletionBytes(uint32_t batch, uint32_t ring) {
  return ring * (uint64_t{batch} * (sizeof(Header) + sizeof(Result)) +
                 kRingBytesPerSlot) +
         kSlack;
}

absl::StatusOr<std::unique_ptr<ForwardChannel>> ForwardChannel::Make(
    edge::Device* device, const Options& options) {
  using edge::Place;
  std::unique_ptr<ForwardChannel> channel(new ForwardChannel(options));
  const uint64_t packets = uint64_t{options.ring} * options.batch;
  ASSIGN_OR_RETURN(channel->descriptors_,
                   device->AllocateBuffer(
                       Place::kInput, packets * sizeof(forwarding::Packet)));
  ASSIGN_OR_RETURN(
      channel->headers_,
      device->AllocateBuffer(Place::kOutput, packets * sizeof(Header)));
  ASSIGN_OR_RETURN(
      channel->results_,
      device->AllocateBuffer(Place::kOutput, packets * sizeof(Result)));
  const auto by_slot = [&](std::string name, const edge::Buffer& buffer,
                           uint64_t packet_bytes) {
    const uint64_t bytes = options.batch * packet_bytes;
    return edge::Fixed(std::move(name), buffer,
                       {.offset = 0, .length = bytes, .slot_stride = bytes});
  };
  const uint32_t warps = (options.batch + kWarp - 1) / kWarp;
  const edge::EventSpec spec = {
      .kernel =
          options.family == Family::kIpv4 ? "ipv4_forward" : "ipv6_forward",
      .block = {warps * kWarp, 1, 1},
      .max_in_flight = options.ring,
      .priority = options.priority,
      .label = options.family == Family::kIpv4 ? "IPv4" : "IPv6",
      .parameters = {by_slot("descriptors", channel->descriptors_,
                             sizeof(forwarding::Packet)),
                     edge::Fixed("packets", *options.frames),
                     edge::Fixed("table", *options.table),
                     edge::Fixed("next_hops", *options.next_hops),
                     by_slot("headers", channel->headers_, sizeof(Header)),
                     by_slot("results", channel->results_, sizeof(Result)),
                     edge::Writable("count"),
                     edge::Constant("first_bits", options.first_bits)}};
  ASSIGN_OR_RETURN(channel->queue_, edge::edgeRegisterEvent(*device, spec));
  ASSIGN_OR_RETURN(channel->count_offset_,
                   channel->queue_->ParameterOffset("count"));
  channel->counts_.resize(options.ring);
  channel->packets_.resize(packets);
  return channel;
}

void ForwardChannel::Submit(std::span<const Packet> packets) {
  const uint32_t slot = queue_->next_slot();
  const uint64_t first = uint64_t{slot} * options_.batch;
  for (size_t i = 0; i < packets.size(); ++i) {
    const packet_io::Frame& frame = packets[i].frame;
    const forwarding::Packet descriptor = {
        .offset = static_cast<uint32_t>(FramePool::OffsetOf(frame.buffer) +
                                        packet_io::kIpOffset),
        .length = frame.length - packet_io::kEthernetBytes};
    std::memcpy(descriptors_.bytes.data() + (first + i) * sizeof(descriptor),
                &descriptor, sizeof(descriptor));
    packets_[first + i] = packets[i];
  }
  const auto count = static_cast<uint32_t>(packets.size());
  counts_[slot] = count;
  queue_->Set<uint32_t>(count_offset_, count);
  queue_->RingDoorbell();
}

Forwarded ForwardChannel::ResultOf(uint32_t slot, uint32_t i, bool done) const {
  const uint64_t at = uint64_t{slot} * options_.batch + i;
  Forwarded forwarded{.packet = packets_[at],
                      .verdict = Verdict::kNone,
                      .port = 0,
                      .header = {},
                      .rest = {}};
  if (!done) return forwarded;
  Result result;
  std::memcpy(&result, results_.bytes.data() + at * sizeof(result),
              sizeof(result));
  const packet_io::Frame& frame = forwarded.packet.frame;
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
  uint32_t ended = 0;
  while (const auto event = queue_->Poll()) {
    const uint32_t slot = queue_->SlotOf(event->sequence);
    const bool done = event->state == edge::EventState::kDone;
    if (!done) ++events_failed_;
    for (uint32_t i = 0; i < counts_[slot]; ++i) sink(ResultOf(slot, i, done));
    queue_->Free();
    ++ended;
  }
  return ended;
}

}  // namespace carillon::router
