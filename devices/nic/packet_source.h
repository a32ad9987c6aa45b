// Where packets come from and where replies go: a UDP socket now, frames of a
// network interface later.
#ifndef CARILLON_DEVICES_NIC_PACKET_SOURCE_H_
#define CARILLON_DEVICES_NIC_PACKET_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "devices/nic/request.h"

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

// Not thread safe.
class PacketSource {
 public:
  virtual ~PacketSource() = default;

  // Readable while packets wait.
  virtual int fd() const = 0;
  // Where it listens, for people: "udp 127.0.0.1:11211".
  virtual std::string Describe() const = 0;

  // Appends packets that wait, a burst at most; never blocks. False: none is
  // waiting any more.
  virtual bool Receive(std::vector<Packet>* packets) = 0;

  // Sends all, in any order; what has the same receiver keeps its order. Blocks
  // for a few milliseconds at most when the kernel's queue is full, then drops
  // the rest. The data must not change meanwhile.
  virtual void Send(std::span<const ReplyDatagram> datagrams) = 0;

  virtual const SourceCounts& counts() const = 0;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_PACKET_SOURCE_H_
