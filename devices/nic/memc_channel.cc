#include "devices/nic/memc_channel.h"

#include <time.h>

#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "shm/layout.h"

namespace carillon::nic {
namespace {

constexpr uint32_t kWarp = 32;
// An ESQ or ECQ entry with everything that belongs to it takes less.
constexpr uint64_t kRingBytesPerSlot = 256;
// Room for the alignment of allocations.
constexpr uint64_t kSlack = 4096;

uint64_t SecondsSinceEpoch() {
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec);
}

uint64_t DescriptorBytes(const MemcChannel::Options& options) {
  return uint64_t{options.batch} * sizeof(memcached::Request);
}
uint64_t ResultBytes(const MemcChannel::Options& options) {
  return uint64_t{options.batch} * sizeof(memcached::Reply);
}
uint64_t ReplyBytes(const MemcChannel::Options& options) {
  return uint64_t{options.batch} * options.reply_stride;
}

}  // namespace

uint64_t MemcChannel::SubmissionBytes(const Options& options) {
  return options.ring * (DescriptorBytes(options) + options.slot_packet_bytes +
                         kRingBytesPerSlot) +
         kSlack;
}

uint64_t MemcChannel::CompletionBytes(const Options& options) {
  return options.ring *
             (ResultBytes(options) + ReplyBytes(options) + kRingBytesPerSlot) +
         kSlack;
}

absl::StatusOr<std::unique_ptr<MemcChannel>> MemcChannel::Open(
    edge::Device* device, const Options& options) {
  std::unique_ptr<MemcChannel> channel(new MemcChannel(options));
  RETURN_IF_ERROR(channel->Register(device));
  return channel;
}

absl::Status MemcChannel::Register(edge::Device* device) {
  using edge::Place;
  const uint64_t ring = options_.ring;
  if (options_.packets == nullptr) {
    ASSIGN_OR_RETURN(slot_packets_,
                     device->AllocateBuffer(Place::kInput,
                                            ring * options_.slot_packet_bytes));
  }
  ASSIGN_OR_RETURN(
      descriptors_,
      device->AllocateBuffer(Place::kInput, ring * DescriptorBytes(options_)));
  ASSIGN_OR_RETURN(replies_, device->AllocateBuffer(
                                 Place::kOutput, ring * ReplyBytes(options_)));
  ASSIGN_OR_RETURN(results_, device->AllocateBuffer(
                                 Place::kOutput, ring * ResultBytes(options_)));

  const auto by_slot = [](uint64_t bytes) {
    return edge::BufferPart{.offset = 0, .length = bytes, .slot_stride = bytes};
  };
  const uint32_t warps = (options_.batch + kWarp - 1) / kWarp;
  const edge::EventSpec spec = {
      .kernel = options_.kernel,
      .block = {options_.batch == 1 ? 1 : warps * kWarp, 1, 1},
      .max_in_flight = options_.ring,
      .priority = options_.priority,
      .label = options_.label,
      .parameters = {
          options_.packets != nullptr
              ? edge::Fixed("packets", *options_.packets)
              : edge::Fixed("packets", slot_packets_,
                            by_slot(options_.slot_packet_bytes)),
          edge::Fixed("requests", descriptors_,
                      by_slot(DescriptorBytes(options_))),
          edge::Fixed("replies", replies_, by_slot(ReplyBytes(options_))),
          edge::Fixed("results", results_, by_slot(ResultBytes(options_))),
          edge::Fixed("table", *options_.table),
          edge::Fixed("store", *options_.store),
          edge::Fixed("server", *options_.server), edge::Writable("now_s"),
          edge::Writable("count"),
          edge::Constant("reply_stride", options_.reply_stride)}};
  ASSIGN_OR_RETURN(queue_, edge::edgeRegisterEvent(*device, spec));
  for (const auto& [name, offset] :
       {std::pair("now_s", &now_offset_), std::pair("count", &count_offset_)}) {
    ASSIGN_OR_RETURN(*offset, queue_->ParameterOffset(name));
  }
  slots_.resize(options_.ring);
  requests_.resize(ring * options_.batch);
  return absl::OkStatus();
}

void MemcChannel::WriteRequest(uint32_t slot, uint32_t i,
                               const Request& request, uint32_t offset) {
  const uint64_t at = uint64_t{slot} * options_.batch + i;
  requests_[at] = request;
  const bool stream = request.origin == Request::Origin::kStream;
  const memcached::Request descriptor = {
      .offset = offset,
      .length = request.length,
      // A stream's reply that does not fit can be asked for again in pieces.
      .flags = stream             ? uint32_t{memcached::kStream}
               : options_.largest ? uint32_t{memcached::kLargestStride}
                                  : 0,
      .reserved = 0};
  std::memcpy(descriptors_.bytes.data() + at * sizeof(descriptor), &descriptor,
              sizeof(descriptor));
}

void MemcChannel::RingDoorbell(uint32_t slot, uint32_t count, Nanoseconds now) {
  slots_[slot] = {count, now};
  queue_->Set<uint64_t>(now_offset_, SecondsSinceEpoch());
  queue_->Set<uint32_t>(count_offset_, count);
  queue_->RingDoorbell();
}

void MemcChannel::Submit(std::span<const PlacedRequest> requests,
                         Nanoseconds now) {
  const uint32_t slot = queue_->next_slot();
  for (uint32_t i = 0; i < requests.size(); ++i) {
    WriteRequest(slot, i, requests[i].request, requests[i].offset);
  }
  RingDoorbell(slot, static_cast<uint32_t>(requests.size()), now);
}

void MemcChannel::SubmitCopy(const Request& request, std::string_view bytes,
                             Nanoseconds now) {
  const uint32_t slot = queue_->next_slot();
  std::memcpy(
      slot_packets_.bytes.data() + uint64_t{slot} * options_.slot_packet_bytes,
      bytes.data(), bytes.size());
  Request copied = request;
  copied.length = static_cast<uint32_t>(bytes.size());
  WriteRequest(slot, 0, copied, 0);
  RingDoorbell(slot, 1, now);
}

std::optional<FinishedBatch> MemcChannel::Poll() const {
  const std::optional<edge::Completion> done = queue_->Poll();
  if (!done) return std::nullopt;
  const uint32_t slot = queue_->SlotOf(done->sequence);
  return FinishedBatch{
      .state = done->state,
      .status = done->status,
      .requests = std::span(requests_).subspan(size_t{slot} * options_.batch,
                                               slots_[slot].count),
      .rung_ns = slots_[slot].rung_ns,
      .finished_ns = queue_->tracing() ? queue_->life().finished_ns : 0,
      .slot = slot};
}

RequestResult MemcChannel::ResultOf(const FinishedBatch& batch,
                                    uint32_t i) const {
  memcached::Reply reply;
  std::memcpy(&reply,
              results_.bytes.data() +
                  (uint64_t{batch.slot} * options_.batch + i) * sizeof(reply),
              sizeof(reply));
  RequestResult result = {.outcome = reply.outcome,
                          .quit = (reply.flags & memcached::kQuit) != 0,
                          .hits = reply.hits,
                          .misses = reply.misses,
                          .reply = {}};
  if (reply.outcome != memcached::Outcome::kAnswered) return result;
  const uint64_t room = ReplyBytes(options_);
  if (reply.offset > room || reply.length > room - reply.offset) {
    result.outcome = memcached::Outcome::kCorrupt;
    return result;
  }
  result.reply = replies_.bytes.subspan(
      uint64_t{batch.slot} * room + reply.offset, reply.length);
  return result;
}

}  // namespace carillon::nic
