#include "devices/router/esp_channel.h"

#include <cstring>

#include "base/status.h"

namespace carillon::router {
namespace {

using ipsec::Direction;
using ipsec::Result;
using ipsec::Verdict;

constexpr uint32_t kWarp = 32;
// As long a packet as a frame buffer takes, where it goes next.
constexpr uint32_t kStride = (packet_io::kBufferBytes - packet_io::kIpOffset) /
                             sizeof(ipsec::Unit) * sizeof(ipsec::Unit);

}  // namespace

uint64_t EspChannel::SubmissionBytes(uint32_t batch, uint32_t ring) {
  return PacketEvents::SubmissionBytes(batch, ring);
}

uint64_t EspChannel::CompletionBytes(uint32_t batch, uint32_t ring) {
  return PacketEvents::CompletionBytes(ring) +
         uint64_t{ring} * batch * (kStride + sizeof(Result));
}

absl::StatusOr<std::unique_ptr<EspChannel>> EspChannel::Make(
    edge::Device* device, const Options& options) {
  using edge::Place;
  std::unique_ptr<EspChannel> channel(new EspChannel(options));
  const uint64_t packets = uint64_t{options.ring} * options.batch;
  ASSIGN_OR_RETURN(channel->out_,
                   device->AllocateBuffer(Place::kOutput, packets * kStride));
  ASSIGN_OR_RETURN(
      channel->results_,
      device->AllocateBuffer(Place::kOutput, packets * sizeof(Result)));
  ASSIGN_OR_RETURN(channel->counts_,
                   device->AllocateBuffer(Place::kGpuMemory,
                                          ipsec::kVerdicts * sizeof(uint64_t)));
  const bool encrypt = options.direction == Direction::kOutbound;
  const edge::EventSpec spec = {
      .kernel = encrypt ? "esp_encrypt" : "esp_decrypt",
      .grid = {(options.batch + kWarp - 1) / kWarp, 1, 1},
      .block = {kWarp, 1, 1},
      .priority = options.priority,
      .label = encrypt ? "ESP out" : "ESP in",
      .parameters = {
          edge::Fixed("sas", *options.sas),
          edge::Fixed("policies4", *options.policies4),
          edge::Fixed("policies6", *options.policies6),
          PacketEvents::BySlot("out", channel->out_, kStride, options.batch),
          PacketEvents::BySlot("results", channel->results_, sizeof(Result),
                               options.batch),
          edge::Fixed("counts", channel->counts_),
          edge::Constant("stride", kStride),
          edge::Constant("first_bits", options.first_bits)}};
  ASSIGN_OR_RETURN(channel->events_,
                   PacketEvents::Make(device, spec,
                                      {.batch = options.batch,
                                       .ring = options.ring,
                                       .frames = options.frames}));
  return channel;
}

EspResult EspChannel::ResultOf(uint64_t at, const Packet& packet,
                               bool done) const {
  EspResult made{.packet = packet,
                 .verdict = Verdict::kNone,
                 .spi = 0,
                 .sequence = 0,
                 .bytes = {}};
  if (!done) return made;
  Result result;
  std::memcpy(&result, results_.bytes.data() + at * sizeof(result),
              sizeof(result));
  if (result.verdict == Verdict::kDone && result.length > kStride) return made;
  made.verdict = result.verdict;
  made.spi = result.spi;
  made.sequence = result.sequence;
  if (result.verdict == Verdict::kDone) {
    made.bytes = out_.bytes.subspan(at * kStride, result.length);
  }
  return made;
}

uint32_t EspChannel::TakeResults(const Sink& sink) {
  return events_->Take([&](uint64_t at, const Packet& packet, bool done) {
    sink(ResultOf(at, packet, done));
  });
}

}  // namespace carillon::router
