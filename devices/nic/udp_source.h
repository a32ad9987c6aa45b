// Receives packets and sends replies: recvmmsg stores datagrams in the pool's
// buffers, sendmmsg takes replies from where they were built. This process
// copies nothing.
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
#include "shm/faults/point.h"

namespace carillon::nic {

// A packet in a buffer of the pool; its owner gives the buffer back. Of one that
// is longer than the buffer, PacketPool::Whole() has all.
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
  uint64_t oversized = 0;       // dropped: too many long ones wait
  uint64_t datagrams_sent = 0;  // handed to the kernel
  uint64_t bytes_received = 0;  // of packets that found a buffer
  uint64_t bytes_sent = 0;      // of datagrams_sent
  uint64_t send_failed = 0;     // datagrams that the kernel did not take
  uint64_t send_calls = 0;
};

// Replies of one length to one receiver leave as one message that the kernel
// splits (UDP_SEGMENT: up to 64 datagrams pass the stack at once); where that
// is not supported, each leaves as its own message. Not thread safe.
class UdpSource {
 public:
  struct Options {
    bool segmentation = true;  // used where the system supports it
  };

  // `pool` must outlive the source. Port 0: any. Errors: AlreadyExists (the
  // port is in use) and the others of BindSocket.
  static absl::StatusOr<std::unique_ptr<UdpSource>> Open(
      const SocketAddress& address, PacketPool* pool, const Options& options);
  ~UdpSource();
  UdpSource(const UdpSource&) = delete;
  UdpSource& operator=(const UdpSource&) = delete;

  const SocketAddress& address() const { return address_; }
  // Whether replies are segmented now; an interface may turn out not to support
  // it.
  bool segmentation() const { return segmentation_; }

  // Readable while packets wait.
  int fd() const { return fd_.get(); }
  // Where it listens, for people: "udp 127.0.0.1:11211".
  std::string Describe() const;

  // Appends waiting packets, a burst at most; never blocks. Returns false if no
  // more are waiting.
  bool Receive(std::vector<Packet>* packets);

  // A datagram that came another way, from that IPv4 address and port: as if it
  // had been received. Nothing if no buffer is free, or it is longer than one.
  std::optional<Packet> Adopt(std::span<const std::byte> datagram,
                              uint32_t address, uint16_t port);

  // Sends all datagrams in any order, but keeps the order to each receiver. If
  // the kernel's queue is full, blocks for a few milliseconds at most and then
  // drops the rest. The data must not change meanwhile.
  void Send(std::span<const ReplyDatagram> datagrams);

  const SourceCounts& counts() const { return counts_; }

 private:
  static constexpr uint32_t kReceiveBurst = 64;
  static constexpr uint32_t kMaxMessages = 64;  // per sendmmsg
  // UDP_MAX_SEGMENTS in old kernels.
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

  // Datagrams to one receiver that leave together; all but the last one are
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

  // Gives the receive slot a buffer: this one, or a fresh one (false: none is
  // free).
  bool Arm(uint32_t slot);
  void Arm(uint32_t slot, BufferIndex buffer);
  // Fault point nic.receive: loses, copies, corrupts and holds back packets,
  // from the one at `begin` on.
  void PassReceive(std::vector<Packet>* packets, size_t begin);
  void Corrupt(const faults::Struck& struck, const Packet& packet);
  std::optional<Packet> CopyOf(const Packet& packet);
  // Has the pool keep what slot `slot` has received. False: it cannot.
  bool KeepLong(uint32_t slot, uint32_t length);
  // Fault point nic.send: returns what leaves instead of `datagrams`.
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

  // For receiving: slots [0, armed_) have a buffer each.
  uint32_t armed_ = 0;
  std::array<BufferIndex, kReceiveBurst> slot_buffer_{};
  // The buffer, and room for the rest of a long packet. (Memory that is never
  // written takes none.)
  static constexpr uint32_t kRestBytes = kMaxDatagramBytes - kPacketBytes;
  std::array<std::array<iovec, 2>, kReceiveBurst> slot_part_{};
  const std::unique_ptr<std::byte[]> rest_;
  std::array<mmsghdr, kReceiveBurst> slot_message_{};
  std::vector<Peer> peers_;     // indexed by buffer
  std::optional<Packet> held_;  // held back by a fault until the next packet

  std::vector<Message> messages_;
  uint32_t message_count_ = 0;
  std::array<mmsghdr, kMaxMessages> send_header_{};
  std::array<uint16_t, kPeerTable>
      open_message_{};                  // index + 1, by Peer::Hash()
  std::vector<ReplyDatagram> changed_;  // changed by faults, with their bytes
  std::deque<std::vector<std::byte>> changed_bytes_;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_UDP_SOURCE_H_
