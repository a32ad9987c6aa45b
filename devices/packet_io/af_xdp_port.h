// Frames of one queue of a network interface, by AF_XDP: Linux copies a frame
// once, to where the kernels read it.
#ifndef CARILLON_DEVICES_PACKET_IO_AF_XDP_PORT_H_
#define CARILLON_DEVICES_PACKET_IO_AF_XDP_PORT_H_

#include <xdp/xsk.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "devices/packet_io/packet_port.h"

namespace carillon::packet_io {

// A program in Linux takes the IPv4 and IPv6 frames that are addressed to the
// interface itself, and lets Linux have the rest: ARP, neighbour discovery, those
// to all and to groups, those of other queues. Unlike AfPacketPort it takes them
// away from Linux, and does not complete checksums that a sender of this machine
// has left to its interface. The program goes with the process. Not thread safe.
class AfXdpPort : public PacketPort {
 public:
  // `pool` must outlive the port, and its memory be shared with nobody who must
  // not write there: Linux does. `sharers`: the ports, with this one, that are
  // opened with the pool; together they hold a quarter of it for frames that
  // come. Errors: PermissionDenied, which names the privilege; NotFound (no such
  // interface), AlreadyExists (another program is there), Unimplemented (this
  // Linux has no AF_XDP), FailedPrecondition.
  static absl::StatusOr<std::unique_ptr<AfXdpPort>> Open(
      const std::string& interface, uint32_t queue, FramePool* pool,
      uint32_t sharers);
  ~AfXdpPort() override;

  int fd() const override;
  bool Receive(std::vector<Frame>* frames) override;
  void Send(std::span<const OutgoingFrame> frames) override;
  std::string Describe() const override;
  const PortCounts& counts() override;

  // Longer frames do not fit into a page with what Linux puts before them.
  static constexpr uint32_t kMostFrameBytes = 4096 - 256;

 private:
  static constexpr uint32_t kBurst = 64;

  AfXdpPort(std::string interface, uint32_t queue, FramePool* pool)
      : interface_(std::move(interface)), queue_(queue), pool_(pool) {}
  absl::Status OpenMemory(uint32_t sharers);
  absl::Status OpenSocket();
  absl::Status LoadProgram(int index);
  absl::Status Failed(int error, const char* step) const;

  // Where a buffer's frame lies in the memory that Linux knows.
  uint64_t AddressOf(BufferIndex buffer) const {
    return lead_ + FramePool::OffsetOf(buffer) + kFrameOffset;
  }
  // Gives Linux buffers for frames that come.
  void Fill();
  // Takes the buffers of frames that have left.
  void Reap();
  // Tells Linux that frames wait.
  void Kick();

  const std::string interface_;
  const uint32_t queue_;
  FramePool* const pool_;
  std::byte* memory_ = nullptr;  // at a page's begin
  uint64_t lead_ = 0;            // bytes there before the pool's
  xsk_umem* umem_ = nullptr;
  xsk_socket* socket_ = nullptr;
  xsk_ring_prod fill_{};
  xsk_ring_cons completed_{};
  xsk_ring_cons received_{};
  xsk_ring_prod outgoing_{};
  UniqueFd map_;
  UniqueFd program_;
  UniqueFd link_;
  uint32_t filled_ = 0;  // buffers that Linux has for frames that come
  uint32_t most_filled_ = 0;
  std::vector<bool>
      sending_;  // by buffer: Linux has it for a frame that leaves
  uint32_t in_sending_ = 0;
};

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_AF_XDP_PORT_H_
