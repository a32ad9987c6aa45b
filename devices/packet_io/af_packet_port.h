// Frames of a network interface, by AF_PACKET sockets.
#ifndef CARILLON_DEVICES_PACKET_IO_AF_PACKET_PORT_H_
#define CARILLON_DEVICES_PACKET_IO_AF_PACKET_PORT_H_

#include <sys/socket.h>

#include <array>
#include <memory>
#include <span>
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

  AfPacketPort(std::string interface, FramePool* pool)
      : interface_(std::move(interface)), pool_(pool) {}
  absl::Status OpenReceiver(int index);
  absl::Status OpenSender(int index);
  absl::Status MapRing();
  std::byte* slot() const;

  const std::string interface_;
  FramePool* const pool_;
  UniqueFd receiver_;
  UniqueFd sender_;
  // Linux puts frames into the slots of a ring that both share (TPACKET_V2): no
  // call for a burst, and no block that TPACKET_V3 would keep for a millisecond.
  std::span<std::byte> ring_;
  uint32_t next_ = 0;  // slot
  std::array<mmsghdr, kBurst> outgoing_{};
  std::array<std::array<iovec, 2>, kBurst> outgoing_parts_{};
};

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_AF_PACKET_PORT_H_
