// A port: where a device's frames come from, and where they go to.
//
//   pcap       frames of a file, at once or at the times that it has; to a file
//   af_packet  those of a network interface (CAP_NET_RAW)
//   af_xdp     those of one queue of it, where a kernel reads them (CAP_NET_RAW,
//              CAP_NET_ADMIN, CAP_BPF)
//   udp        datagrams of a socket, with the headers that they would have had
//   tap        those of a TAP device, whose other side is an interface of this
//              machine (CAP_NET_ADMIN)
#ifndef CARILLON_DEVICES_PACKET_IO_PACKET_PORT_H_
#define CARILLON_DEVICES_PACKET_IO_PACKET_PORT_H_

#include <sys/time.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devices/packet_io/frame_pool.h"

namespace carillon::packet_io {

// An Ethernet frame in a buffer of the pool; its owner gives the buffer back.
struct Frame {
  BufferIndex buffer = 0;
  uint32_t length = 0;
  std::optional<timeval> time;  // as a file has it
};

// A frame that leaves, in two parts. The parts must not change until Send() has
// returned.
struct OutgoingFrame {
  std::span<const std::byte> head;
  std::span<const std::byte> rest;
  std::optional<timeval> time;  // for a file; none: now
};

struct PortCounts {
  uint64_t received = 0;
  // Dropped: longer than a buffer, or a segment that the sender's interface
  // should have cut (docs/workloads.md).
  uint64_t oversized = 0;
  // Dropped by the operating system before this process could take them, as far
  // as it counts them: af_packet.
  uint64_t overrun = 0;
  uint64_t sent = 0;
  uint64_t send_failed = 0;  // the operating system did not take them
};

// Not thread safe.
class PacketPort {
 public:
  virtual ~PacketPort() = default;

  // Readable while frames wait.
  virtual int fd() const = 0;
  // Appends waiting frames, a burst at most, in buffers that it takes from the
  // port's pool; never blocks. Returns false if no more are waiting or no buffer
  // is free.
  virtual bool Receive(std::vector<Frame>* frames) = 0;
  // Sends all frames in order. If the operating system has no room, waits for a
  // few milliseconds at most and drops the rest.
  virtual void Send(std::span<const OutgoingFrame> frames) = 0;

  // No frame will come any more: a file ends.
  virtual bool ended() const { return false; }
  // Error: DataLoss (a file is broken, or was not written). What was received
  // before counts.
  virtual absl::Status Finish() { return absl::OkStatus(); }
  // For people: "af_packet eth0".
  virtual std::string Describe() const = 0;

  // Asks the operating system for what it counts itself.
  virtual const PortCounts& counts() { return counts_; }

 protected:
  PortCounts counts_;
};

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_PACKET_PORT_H_
