// What a NIC and the memcached event kernels (memc_get, memc_set) say to each
// other about a batch of requests, beside the packets themselves.
//
// Concepts
//   request   one memcached ASCII command: a UDP datagram with its 8-byte frame
//             header, or, for a stream, one command line with its data block,
//             as the NIC cut it out of the byte stream.
//   batch     up to kMaxBatch requests, which one event answers.
//   stride    room for the reply of one request: request i owns the bytes
//             [i * stride, (i + 1) * stride) of the event's reply buffer.
//
// The kernels copy every Request once and bound every access by the
// buffers' sizes: whatever a device writes there costs only its own requests.
#ifndef CARILLON_KERNELS_MEMCACHED_WIRE_H_
#define CARILLON_KERNELS_MEMCACHED_WIRE_H_

#include <cstddef>
#include <cstdint>

namespace carillon::memcached {

// The requests of one event: 32 fill one warp, 512 is GNoM's batch (thesis
// 4.1).
inline constexpr uint32_t kWarpBatch = 32;
inline constexpr uint32_t kMaxBatch = 512;

// protocol.txt, "UDP protocol": request id, sequence, total, reserved; 16 bits
// each, big endian.
inline constexpr uint32_t kFrameBytes = 8;
// The largest datagram of a reply, including its frame header.
inline constexpr uint32_t kDatagramBytes = 1400;
inline constexpr uint32_t kDatagramPayload = kDatagramBytes - kFrameBytes;

inline constexpr uint32_t kMaxKeyBytes = 250;
inline constexpr uint32_t kMaxValueBytes = 1u << 20;

// Replies of one datagram, in whole cache lines.
inline constexpr uint32_t kSmallReplyStride = 1408;
// One value of kMaxValueBytes with the longest key, in 754 datagrams.
inline constexpr uint32_t kLargeReplyStride = 1055616;

// The hash table: 16-way sets behind a header (thesis 4.2.2).
inline constexpr uint32_t kTableWays = 16;
inline constexpr uint64_t kTableHeaderBytes = 1280;
inline constexpr uint64_t kTableSetBytes = 128;
// The size of the buffer `table` for `entries` keys.
constexpr uint64_t TableBytes(uint64_t entries) {
  return kTableHeaderBytes +
         (entries + kTableWays - 1) / kTableWays * kTableSetBytes;
}

enum RequestFlags : uint32_t {
  // The request is part of a stream: neither it nor its reply has a frame
  // header.
  kStream = 1,
  // The sender has no larger stride to try again with: a reply that does not
  // fit is answered with SERVER_ERROR instead of kTooLarge.
  kLargestStride = 2,
};

// Writer: the device (input buffer). Reader: the kernel.
//
//   0        4        8       12         16
//   +--------+--------+-------+----------+
//   | offset | length | flags | reserved |
//   +--------+--------+-------+----------+
struct alignas(16) Request {
  uint32_t offset;  // where the request begins in the packet buffer
  uint32_t length;  // bytes, frame header included
  uint32_t flags;   // RequestFlags
  uint32_t reserved;
};
static_assert(sizeof(Request) == 16);
static_assert(offsetof(Request, flags) == 8);

// What `stats` says of the device that serves the clients. Writer: the device,
// at any time. Reader: the kernel.
struct alignas(64) ServerStats {
  uint64_t pid;
  uint64_t started_s;  // seconds since 1970
  uint64_t threads;    // of the device, that serve clients
  uint64_t max_connections;
  uint64_t curr_connections;
  uint64_t total_connections;
  uint64_t rejected_connections;
  uint64_t bytes_read;  // of requests and replies
  uint64_t bytes_written;
  uint64_t reserved[7];
};
static_assert(sizeof(ServerStats) == 128);
static_assert(offsetof(ServerStats, bytes_written) == 64);

// What memc_recover has found. Writer: the kernel (output buffer).
struct alignas(64) Recovered {
  uint64_t kept;     // 0: there was nothing to take over; the store is empty
  uint64_t items;    // that are in the table now
  uint64_t bytes;    // their keys, values and headers
  uint64_t dropped;  // references to what was no whole item of their set
  uint64_t locks;    // sets that a kernel had locked when it was cut short
  uint64_t last_cas;
  uint64_t reserved[2];
};
static_assert(sizeof(Recovered) == 64);

// The size of memc_recover's buffer `marks` for a store.
constexpr uint64_t RecoveryMarkBytes(uint64_t store_bytes) {
  return (store_bytes / 64 + 31) / 32 * 4;
}

enum class Outcome : uint8_t {
  kNone = 0,      // the kernel did not get to it
  kAnswered = 1,  // send the reply
  kSilent = 2,    // done; nothing to send (noreply)
  // No reply is due for this datagram: it is shorter than its header, part of a
  // larger request (total != 1), or lacks the end of the command line.
  kDropped = 3,
  // The reply needs `length` bytes of stride; nothing was changed. Send the
  // request again through a registration with a larger stride.
  kTooLarge = 4,
  // memc_get was given a command that it does not answer; give it to memc_set.
  kWrongKernel = 5,
  // The descriptor leaves the packet buffer, or its stride leaves the reply
  // buffer.
  kBadDescriptor = 6,
  // The table or store does not hold what these kernels wrote; the event fails,
  // too.
  kCorrupt = 7,
};

enum ReplyFlags : uint8_t {
  kQuit = 1,  // the client said quit: close the stream after the reply
};

// Writer: the kernel (output buffer). Reader: the device. results[i] belongs to
// requests[i].
//
//   0        4        8           10        11      12     14       16
//   +--------+--------+-----------+---------+-------+------+--------+
//   | offset | length | datagrams | outcome | flags | hits | misses |
//   +--------+--------+-----------+---------+-------+------+--------+
//
// Datagram i of a UDP reply is [offset + i * kDatagramBytes, +
// kDatagramBytes), the last one ends at offset + length; frame headers are
// in place. A stream's reply is [offset, offset + length), in `datagrams` = 1
// piece.
struct alignas(16) Reply {
  uint32_t offset;     // where the reply begins in the event's reply buffer
  uint32_t length;     // bytes, frame headers included; with kTooLarge: needed
  uint16_t datagrams;  // 0 unless kAnswered
  Outcome outcome;
  uint8_t flags;    // ReplyFlags
  uint16_t hits;    // keys found by get, gets, gat, gats, mg; at most 65535
  uint16_t misses;  // keys not found by these
};
static_assert(sizeof(Reply) == 16);
static_assert(offsetof(Reply, datagrams) == 8);
static_assert(offsetof(Reply, outcome) == 10);
static_assert(offsetof(Reply, hits) == 12);

}  // namespace carillon::memcached

#endif  // CARILLON_KERNELS_MEMCACHED_WIRE_H_
