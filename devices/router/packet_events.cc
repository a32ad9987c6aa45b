#include "devices/router/packet_events.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/status.h"
#include "kernels/forwarding/wire.h"

namespace carillon::router {
namespace {

// An ESQ or ECQ entry with everything that belongs to it takes less.
constexpr uint64_t kRingBytesPerSlot = 256;
// Room for the alignment of allocations.
constexpr uint64_t kSlack = 4096;

}  // namespace

uint64_t PacketEvents::SubmissionBytes(uint32_t batch, uint32_t ring) {
  return ring * (uint64_t{batch} * sizeof(forwarding::Packet) +
                 kRingBytesPerSlot) +
         kSlack;
}

uint64_t PacketEvents::CompletionBytes(uint32_t ring) {
  return ring * kRingBytesPerSlot + kSlack;
}

edge::Parameter PacketEvents::BySlot(std::string name,
                                     const edge::Buffer& buffer,
                                     uint64_t packet_bytes, uint32_t batch) {
  const uint64_t bytes = batch * packet_bytes;
  return edge::Fixed(std::move(name), buffer,
                     {.offset = 0, .length = bytes, .slot_stride = bytes});
}

absl::StatusOr<std::unique_ptr<PacketEvents>> PacketEvents::Make(
    edge::Device* device, edge::EventSpec spec, const Shape& shape) {
  std::unique_ptr<PacketEvents> events(new PacketEvents(shape));
  const uint64_t packets = uint64_t{shape.ring} * shape.batch;
  ASSIGN_OR_RETURN(
      events->descriptors_,
      device->AllocateBuffer(edge::Place::kInput,
                             packets * sizeof(forwarding::Packet)));
  spec.max_in_flight = shape.ring;
  spec.parameters.push_back(BySlot("descriptors", events->descriptors_,
                                   sizeof(forwarding::Packet), shape.batch));
  spec.parameters.push_back(edge::Fixed("packets", *shape.frames));
  spec.parameters.push_back(edge::Writable("count"));
  ASSIGN_OR_RETURN(events->queue_, edge::edgeRegisterEvent(*device, spec));
  ASSIGN_OR_RETURN(events->count_offset_,
                   events->queue_->ParameterOffset("count"));
  events->counts_.resize(shape.ring);
  events->packets_.resize(packets);
  return events;
}

void PacketEvents::Submit(std::span<const Packet> packets) {
  const uint32_t slot = queue_->next_slot();
  const uint64_t first = uint64_t{slot} * shape_.batch;
  for (size_t i = 0; i < packets.size(); ++i) {
    const packet_io::Frame& frame = packets[i].frame;
    const forwarding::Packet descriptor = {
        .offset =
            static_cast<uint32_t>(packet_io::FramePool::OffsetOf(frame.buffer) +
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

}  // namespace carillon::router
