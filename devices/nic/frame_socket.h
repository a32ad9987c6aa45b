// The frames of GET requests, straight from an interface into GRXBs, and frames
// of replies back: what GNoM-ND, the network driver, does (thesis 4.1.2). It
// takes UDP datagrams to one port that begin with "get "; all else is Linux'.
#ifndef CARILLON_DEVICES_NIC_FRAME_SOCKET_H_
#define CARILLON_DEVICES_NIC_FRAME_SOCKET_H_

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "devices/nic/grxb_ring.h"

namespace carillon::nic {

// A datagram with more bytes is no GET of one key, and left to Linux.
inline constexpr uint32_t kMaxGnomDatagram = 512;

struct FrameSocketCounts {
  uint64_t received = 0;
  uint64_t no_buffer = 0;  // dropped: no GRXB was registered
  uint64_t overrun = 0;    // dropped by Linux before this process took them
  uint64_t sent = 0;
  uint64_t send_failed = 0;  // Linux did not take them
};

// Not thread safe.
class FrameSocket {
 public:
  struct Options {
    std::string interface;
    uint16_t port = 0;
    // The GRXBs of `ring`, kGrxbBytes each; must outlive the socket.
    std::span<std::byte> memory;
  };
  // `ring` must outlive the socket. Errors: PermissionDenied (CAP_NET_RAW),
  // NotFound (the interface), FailedPrecondition.
  static absl::StatusOr<std::unique_ptr<FrameSocket>> Open(
      const Options& options, GrxbRing* ring);

  // Readable while frames wait.
  int fd() const { return receiver_.get(); }

  // Fills registered GRXBs, a burst at most; never blocks. Returns false if no
  // more frames are waiting.
  bool Receive();
  // Sends all frames in order. If Linux has no room, waits for a few
  // milliseconds at most and drops the rest.
  void Send(std::span<const std::span<const std::byte>> frames);

  // Asks Linux for what it counts itself.
  const FrameSocketCounts& counts();

 private:
  static constexpr uint32_t kBurst = 64;
  // What Linux puts before each frame: struct virtio_net_hdr.
  using OffloadHeader = std::array<std::byte, 10>;

  FrameSocket(const Options& options, GrxbRing* ring)
      : options_(options), ring_(ring) {}
  absl::Status OpenReceiver(int index);
  absl::Status OpenSender(int index);
  std::span<std::byte> grxb(GrxbIndex index) const;
  // Writes the length of a frame, and its checksum where Linux left that to the
  // interface.
  void Complete(GrxbIndex index, const OffloadHeader& offload, uint32_t length);
  bool Discard();

  const Options options_;
  GrxbRing* const ring_;
  UniqueFd receiver_;
  UniqueFd sender_;
  FrameSocketCounts counts_;
  std::array<mmsghdr, kBurst> messages_{};
  std::array<std::array<iovec, 2>, kBurst> parts_{};
  std::array<OffloadHeader, kBurst> offloads_{};
};

// Has a UDP socket refuse the datagrams that a FrameSocket at that interface
// takes. It cannot tell how one came, so it also refuses those that Linux put
// together, decrypted or sent to another port on their way: such GETs are lost.
// Error: FailedPrecondition.
absl::Status LeaveGetsToFrames(int udp_socket, const std::string& interface);

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_FRAME_SOCKET_H_
