// Where packets come from and where replies go: recvmmsg puts datagrams into
// the pool's buffers, sendmmsg takes replies from wherever they were built.
// Nothing is copied in this process.
#ifndef CARILLON_DEVICES_NIC_UDP_SOURCE_H_
#define CARILLON_DEVICES_NIC_UDP_SOURCE_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "devices/nic/packet_pool.h"
#include "devices/nic/request.h"
#include "devices/nic/socket_address.h"

namespace carillon::nic {

// A packet in a buffer of the pool; whoever has it gives the buffer back.
struct Packet {
  BufferIndex buffer = 0;
  uint32_t length = 0;
};

// One datagram of a reply to the sender of the packet in `buffer`, which must
// not have been given back.
struct ReplyDatagram {
  BufferIndex buffer = 0;
  const std::byte* data = nullptr;
  uint32_t length = 0;
};

struct SourceCounts {
  uint64_t no_buffer = 0;       // dropped: every buffer was in use
  uint64_t oversized = 0;       // dropped: longer than a buffer
  uint64_t datagrams_sent = 0;  // handed to the kernel
  uint64_t send_failed = 0;     // datagrams that the kernel did not take
  uint64_t send_calls = 0;
};

// Replies of one length to one receiver leave as one message that the kernel
// cuts up (UDP_SEGMENT: the stack is walked once for up to 64 datagrams); where
// that is not to be had, as one message each. Not thread safe.
class UdpSource {
 public:
  struct Options {
    bool segmentation = true;  // where the system has it
  };

  // `pool` must outlive the source. Port 0: any. Errors: AlreadyExists (the
  // port is in use) and the others of BindSocket.
  static absl::StatusOr<std::unique_ptr<UdpSource>> Open(
      const SocketAddress& address, PacketPool* pool, const Options& options);
  ~UdpSource();
  UdpSource(const UdpSource&) = delete;
  UdpSource& operator=(const UdpSource&) = delete;

  const SocketAddress& address() const { return address_; }
  // Whether replies leave that way now: an interface may turn out to lack it.
  bool segmentation() const { return segmentation_; }

  // Readable while packets wait.
  int fd() const { return fd_.get(); }
  // Where it listens, for people: "udp 127.0.0.1:11211".
  std::string Describe() const;

  // Appends packets that wait, a burst at most; never blocks. False: none is
  // waiting any more.
  bool Receive(std::vector<Packet>* packets);

  // Sends all, in any order; what has the same receiver keeps its order. Blocks
  // for a few milliseconds at most when the kernel's queue is full, then drops
  // the rest. The data must not change meanwhile.
  void Send(std::span<const ReplyDatagram> datagrams);

  const SourceCounts& counts() const { return counts_; }

 private:
  static constexpr uint32_t kReceiveBurst = 64;
  static constexpr uint32_t kMaxMessages = 64;  // of one sendmmsg
  // UDP_MAX_SEGMENTS of old kernels.
  static constexpr uint32_t kMaxSegments = 64;
  static constexpr uint32_t kMaxMessageBytes = 65000;
  static constexpr uint32_t kPeerTable = 256;
  static constexpr BufferIndex kNoBuffer = ~BufferIndex{0};

  // The sender of the packet in a buffer.
  struct Peer {
    union {
      sockaddr_in v4;
      sockaddr_in6 v6;
    };
    socklen_t bytes;
    bool operator==(const Peer& other) const;
    uint32_t Hash() const;
  };

  // Datagrams to one receiver that go out together: all but the last one are
  // `segment` bytes long.
  struct Message {
    const Peer* peer;
    uint32_t segment;
    uint32_t parts;
    uint32_t bytes;
    bool open;
    std::array<iovec, kMaxSegments> part;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(uint16_t))> control;
  };

  UdpSource(UniqueFd fd, const SocketAddress& address, PacketPool* pool,
            const Options& options);

  // Gives receive slot a buffer: a fresh one (false: there is none), or this.
  bool Arm(uint32_t slot);
  void Arm(uint32_t slot, BufferIndex buffer);
  // Point nic.receive: loses, copies, corrupts and holds back packets, from
  // the one at `begin` on.
  void PassReceive(std::vector<Packet>* packets, size_t begin);
  std::optional<Packet> CopyOf(const Packet& packet);
  // Point nic.send: what leaves instead of `datagrams`.
  std::span<const ReplyDatagram> PassSend(
      std::span<const ReplyDatagram> datagrams);
  // Receives without a buffer.
  bool Discard();
  Message* MessageFor(const Peer& peer, uint32_t length);
  void Flush();
  bool WaitForRoom(int* attempts) const;
  void SendParts(const Message& message);
  void FillHeader(Message* message, msghdr* header);

  const UniqueFd fd_;
  const SocketAddress address_;
  PacketPool* const pool_;
  bool segmentation_ = false;
  SourceCounts counts_;

  // Receiving: slots [0, armed_) have a buffer each.
  uint32_t armed_ = 0;
  std::array<BufferIndex, kReceiveBurst> slot_buffer_{};
  std::array<iovec, kReceiveBurst> slot_part_{};
  std::array<mmsghdr, kReceiveBurst> slot_message_{};
  std::vector<Peer> peers_;     // by buffer
  std::optional<Packet> held_;  // by a fault, until the next one

  // Sending.
  std::vector<Message> messages_;
  uint32_t message_count_ = 0;
  std::array<mmsghdr, kMaxMessages> send_header_{};
  std::array<uint16_t, kPeerTable>
      open_message_{};                  // index + 1, by Peer::Hash()
  std::vector<ReplyDatagram> changed_;  // by faults, and their bytes
  std::deque<std::vector<std::byte>> changed_bytes_;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_UDP_SOURCE_H_
