// Datagrams of a UDP socket as frames: each gets the headers that it would have
// had on a wire. It takes no privilege.
#ifndef CARILLON_DEVICES_PACKET_IO_UDP_PORT_H_
#define CARILLON_DEVICES_PACKET_IO_UDP_PORT_H_

#include <netinet/in.h>
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

// IPv4. A frame comes from and to Ethernet address 0, without UDP's checksum,
// which Linux has looked at; of one that goes out, only the datagram and where
// its headers send it count. Not thread safe.
class UdpPort : public PacketPort {
 public:
  // `address`: "192.0.2.1:7", one of this machine. `pool` must outlive the port.
  // Errors: InvalidArgument (the address), FailedPrecondition (it cannot be
  // bound).
  static absl::StatusOr<std::unique_ptr<UdpPort>> Open(
      const std::string& address, FramePool* pool);

  int fd() const override { return fd_.get(); }
  bool Receive(std::vector<Frame>* frames) override;
  void Send(std::span<const OutgoingFrame> frames) override;
  std::string Describe() const override { return "udp " + address_; }

 private:
  static constexpr uint32_t kBurst = 64;
  // Ethernet, IPv4, UDP.
  static constexpr uint32_t kHeaderBytes = kEthernetBytes + 20 + 8;

  UdpPort(std::string address, const sockaddr_in& local, UniqueFd fd,
          FramePool* pool);
  void WriteHeaders(std::span<std::byte> frame, const sockaddr_in& from) const;
  // Makes message `i` of a frame. False: it is no UDP in IPv4.
  bool Prepare(size_t i, const OutgoingFrame& frame);

  const std::string address_;
  const sockaddr_in local_;
  const UniqueFd fd_;
  FramePool* const pool_;
  std::array<mmsghdr, kBurst> messages_{};
  std::array<sockaddr_in, kBurst> peers_{};
  std::array<std::array<iovec, 2>, kBurst> parts_{};
};

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_UDP_PORT_H_
