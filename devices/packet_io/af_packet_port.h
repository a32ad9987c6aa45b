// Frames of a network interface, by AF_PACKET sockets.
#ifndef CARILLON_DEVICES_PACKET_IO_AF_PACKET_PORT_H_
#define CARILLON_DEVICES_PACKET_IO_AF_PACKET_PORT_H_

#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "devices/packet_io/packet_port.h"

namespace carillon::packet_io {

// Takes the frames that are addressed to the interface itself, and none of a
// VLAN; those to all and to groups are left to Linux, which shares the
// interface and answers ARP and neighbour solicitations. Checksums that a sender
// of this machine has left to its interface are completed. Not thread safe.
class AfPacketPort : public PacketPort {
 public:
  // `pool` must outlive the port. Errors: PermissionDenied (CAP_NET_RAW),
  // NotFound (no such interface), FailedPrecondition (it is no Ethernet
  // interface, or this Linux lacks an option).
  static absl::StatusOr<std::unique_ptr<AfPacketPort>> Open(
      const std::string& interface, FramePool* pool);
  ~AfPacketPort() override;

  int fd() const override { return receiver_.get(); }
  bool Receive(std::vector<Frame>* frames) override;
  void Send(std::span<const OutgoingFrame> frames) override;
  std::string Describe() const override { return "af_packet " + interface_; }
  const PortCounts& counts() override;

 private:
  static constexpr uint32_t kBurst = 64;
  // What Linux puts before each frame (PACKET_VNET_HDR): struct virtio_net_hdr,
  // whose header is not C++.
  struct OffloadHeader {
    uint8_t flags;
    uint8_t segmentation;  // 0: none
    uint16_t header_bytes;
    uint16_t segment_bytes;
    uint16_t checksum_start;
    uint16_t checksum_offset;
  };
  static_assert(sizeof(OffloadHeader) == 10);
  static constexpr uint8_t kNeedsChecksum = 1;
  // The slot has a buffer, at which its message points.
  struct Slot {
    BufferIndex buffer;
    OffloadHeader offload;
    std::array<iovec, 2> parts;
  };

  AfPacketPort(std::string interface, FramePool* pool)
      : interface_(std::move(interface)), pool_(pool) {}
  absl::Status OpenReceiver(int index);
  absl::Status OpenSender(int index);
  // False: no buffer is free.
  bool Arm(uint32_t slot);
  void Arm(uint32_t slot, BufferIndex buffer);
  // What has arrived in a slot is counted and appended, or dropped.
  void Take(uint32_t slot, uint32_t length, std::vector<Frame>* frames);

  const std::string interface_;
  FramePool* const pool_;
  UniqueFd receiver_;
  UniqueFd sender_;
  uint32_t armed_ = 0;  // slots [0, armed_) have a buffer
  std::array<Slot, kBurst> slots_{};
  std::array<mmsghdr, kBurst> messages_{};
  std::array<mmsghdr, kBurst> outgoing_{};
  std::array<std::array<iovec, 2>, kBurst> outgoing_parts_{};
};

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_AF_PACKET_PORT_H_
