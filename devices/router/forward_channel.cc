#include "devices/router/forward_channel.h"

#include <cstring>

#include "base/status.h"

namespace carillon::router {
namespace {

using forwarding::Family;
using forwarding::Header;
using forwarding::Packet;
using forwarding::Result;
using forwarding::Verdict;

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
  return ring * (uint64_t{batch} * (kPacketBytes + sizeof(Packet)) +
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
  ASSIGN_OR_RETURN(
      channel->packets_,
      device->AllocateBuffer(Place::kInput, packets * kPacketBytes));
  ASSIGN_OR_RETURN(
      channel->descriptors_,
      device->AllocateBuffer(Place::kInput, packets * sizeof(Packet)));
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
      .parameters = {
          by_slot("packets", channel->packets_, kPacketBytes),
          by_slot("descriptors", channel->descriptors_, sizeof(Packet)),
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
  channel->times_.resize(packets);
  return channel;
}

void ForwardChannel::Place(std::span<const std::byte> packet,
                           const timeval& time) {
  const uint64_t at = uint64_t{queue_->next_slot()} * options_.batch + placed_;
  std::memcpy(packets_.bytes.data() + at * kPacketBytes, packet.data(),
              packet.size());
  const Packet descriptor = {.offset = placed_ * kPacketBytes,
                             .length = static_cast<uint32_t>(packet.size())};
  std::memcpy(descriptors_.bytes.data() + at * sizeof(descriptor), &descriptor,
              sizeof(descriptor));
  times_[at] = time;
  if (++placed_ == options_.batch) Ring();
}

void ForwardChannel::Ring() {
  if (placed_ == 0) return;
  counts_[queue_->next_slot()] = placed_;
  queue_->Set<uint32_t>(count_offset_, placed_);
  queue_->RingDoorbell();
  placed_ = 0;
}

Forwarded ForwardChannel::ResultOf(uint32_t slot, uint32_t i, bool done) const {
  const uint64_t at = uint64_t{slot} * options_.batch + i;
  Forwarded packet{
      .verdict = Verdict::kNone, .header = {}, .rest = {}, .time = times_[at]};
  if (!done) return packet;
  Result result;
  std::memcpy(&result, results_.bytes.data() + at * sizeof(result),
              sizeof(result));
  packet.verdict = result.verdict;
  if (result.verdict != Verdict::kForward) return packet;
  const uint32_t ip_bytes = HeaderBytes(options_.family);
  packet.header = headers_.bytes.subspan(
      at * sizeof(Header) + forwarding::kEthernetOffset,
      forwarding::kIpOffset - forwarding::kEthernetOffset + ip_bytes);
  packet.rest = packets_.bytes.subspan(at * kPacketBytes, result.length)
                    .subspan(ip_bytes);
  return packet;
}

uint32_t ForwardChannel::TakeResults(const Sink& sink) {
  uint32_t failed = 0;
  while (const auto event = queue_->Poll()) {
    const uint32_t slot = queue_->SlotOf(event->sequence);
    const bool done = event->state == edge::EventState::kDone;
    if (!done) ++failed;
    for (uint32_t i = 0; i < counts_[slot]; ++i) sink(ResultOf(slot, i, done));
    queue_->Free();
  }
  return failed;
}

}  // namespace carillon::router
