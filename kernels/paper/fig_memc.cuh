// fig_memc: answers memcached GETs over UDP, one a thread, as MemcachedGPU
// does: checks the headers, looks the key up in sets of 8 ways, and builds the
// whole reply frame. An event kernel of EDGE's figures, of one warp. (memc_get
// is the memcached that real clients talk to.)
//
// Requests and replies lie in slots of 128 bytes, each a whole frame that is
// placed so that the text starts at byte 64:
//
//   0    14         28          48         56             64           128
//   +----+----------+-----------+----------+--------------+-------------+
//   | -- | Ethernet | IPv4 (20) | UDP (8)  | memcached (8)| text        |
//   +----+----------+-----------+----------+--------------+-------------+
//
// The text is "get KEY\r\n" with one key of 1..32 bytes. A reply has the value
// or just END. What is no such request gets no reply.
#ifndef CARILLON_KERNELS_PAPER_FIG_MEMC_CUH_
#define CARILLON_KERNELS_PAPER_FIG_MEMC_CUH_

#include <cstddef>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kFigMemcSlot = 128;
inline constexpr uint32_t kFigMemcFrame = 14;  // where in the slot it starts
inline constexpr uint32_t kFigMemcText = 64;
inline constexpr uint32_t kFigMemcMaxKey = 32;
inline constexpr uint32_t kFigMemcMaxValue = 8;
inline constexpr uint32_t kFigMemcWays = 8;
inline constexpr uint16_t kFigMemcPort = 9960;
// The event's status when an entry of the table is impossible.
inline constexpr uint32_t kFigMemcBadTable = 16;

// Writer: the program that fills the table; the kernel only sets last_access.
struct alignas(16) FigMemcEntry {
  uint32_t hash;  // lookup3 of the key
  uint32_t last_access;
  uint32_t key_length;  // 0: no entry
  uint32_t value_length;
  uint8_t value[kFigMemcMaxValue];
  uint8_t reserved[8];
  uint8_t key[kFigMemcMaxKey];
};
static_assert(sizeof(FigMemcEntry) == 64);
static_assert(offsetof(FigMemcEntry, value) == 16);
static_assert(offsetof(FigMemcEntry, key) == 32);

struct FigMemcArgs {
  simt::Span<const uint8_t> requests;  // slots
  simt::Span<uint8_t> replies;         // slots
  simt::Span<uint32_t> lengths;
  simt::Span<FigMemcEntry> table;  // a set after the other
  uint32_t now;
  uint32_t count;
};

CARILLON_HOST_DEVICE bool FigMemcFits(const FigMemcArgs& args) {
  const uint64_t sets = args.table.size / kFigMemcWays;
  return args.requests.size / kFigMemcSlot >= args.count &&
         args.replies.size / kFigMemcSlot >= args.count &&
         args.lengths.size >= args.count && sets != 0 &&
         args.table.size % kFigMemcWays == 0 && (sets & (sets - 1)) == 0;
}

namespace fig_memc {

CARILLON_DEVICE uint32_t Load16(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) << 8 | p[1];
}
CARILLON_DEVICE void Store16(uint8_t* p, uint32_t half) {
  p[0] = static_cast<uint8_t>(half >> 8);
  p[1] = static_cast<uint8_t>(half);
}

// The length of the key that the request asks for; 0 if it is no valid request.
CARILLON_DEVICE uint32_t KeyLength(const uint8_t* slot) {
  const uint8_t* ip = slot + 28;
  const uint8_t* udp = slot + 48;
  const uint8_t* frame = slot + 56;
  const uint8_t* text = slot + kFigMemcText;
  const uint32_t udp_length = Load16(udp + 4);
  // IPv4 without options, not a fragment, UDP to our port, one datagram.
  if (Load16(slot + 26) != 0x0800 || ip[0] != 0x45 || ip[9] != 17 ||
      (Load16(ip + 6) & 0x3fff) != 0 || Load16(ip + 2) != udp_length + 20 ||
      Load16(udp + 2) != kFigMemcPort || Load16(frame + 4) != 1) {
    return 0;
  }
  // 16 bytes of headers, "get " and the line's end.
  if (udp_length < 16 + 4 + 1 + 2 || udp_length > 16 + 4 + kFigMemcMaxKey + 2) {
    return 0;
  }
  const uint32_t length = udp_length - (16 + 4 + 2);
  if (text[0] != 'g' || text[1] != 'e' || text[2] != 't' || text[3] != ' ') {
    return 0;
  }
  const uint8_t* key = text + 4;
  for (uint32_t i = 0; i < length; ++i) {
    if (key[i] <= ' ' || key[i] == 0x7f) return 0;
  }
  return key[length] == '\r' && key[length + 1] == '\n' ? length : 0;
}

CARILLON_DEVICE FigMemcEntry* Find(const FigMemcArgs& args, const uint8_t* key,
                                   uint32_t length) {
  const uint32_t hash = memc::HashKey(key, length);
  const uint64_t sets = args.table.size / kFigMemcWays;
  FigMemcEntry* set = args.table.data + (hash & (sets - 1)) * kFigMemcWays;
  for (uint32_t way = 0; way < kFigMemcWays; ++way) {
    FigMemcEntry* entry = set + way;
    if (entry->hash != hash || entry->key_length != length) continue;
    uint32_t i = 0;
    while (i < length && entry->key[i] == key[i]) ++i;
    if (i == length) return entry;
  }
  return nullptr;
}

// Writes everything in front of a text of that length.
CARILLON_DEVICE void PutHeaders(const uint8_t* request, uint8_t* reply,
                                uint32_t text_length) {
  for (uint32_t i = 0; i < 6; ++i) {
    reply[14 + i] = request[20 + i];
    reply[20 + i] = request[14 + i];
  }
  Store16(reply + 26, 0x0800);
  const uint32_t udp_length = 16 + text_length;
  uint8_t* ip = reply + 28;
  Store16(ip, 0x4500);
  Store16(ip + 2, 20 + udp_length);
  Store16(ip + 4, 0);
  Store16(ip + 6, 0x4000);        // don't fragment
  Store16(ip + 8, 64 << 8 | 17);  // TTL, UDP
  uint32_t sum = 0x4500 + 20 + udp_length + 0x4000 + (64 << 8 | 17);
  for (uint32_t i = 0; i < 4; i += 2) {
    const uint32_t from = Load16(request + 28 + 16 + i);
    const uint32_t to = Load16(request + 28 + 12 + i);
    Store16(ip + 12 + i, from);
    Store16(ip + 16 + i, to);
    sum += from + to;
  }
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  Store16(ip + 10, ~sum);
  uint8_t* udp = reply + 48;
  Store16(udp, kFigMemcPort);
  Store16(udp + 2, Load16(request + 48));
  Store16(udp + 4, udp_length);
  Store16(udp + 6, 0);  // none
  uint8_t* frame = reply + 56;
  Store16(frame, Load16(request + 56));
  Store16(frame + 2, 0);
  Store16(frame + 4, 1);
  Store16(frame + 6, 0);
}

template <uint32_t N>
CARILLON_DEVICE uint8_t* PutText(uint8_t* to, const char (&text)[N]) {
  CARILLON_UNROLL
  for (uint32_t i = 0; i < N - 1; ++i) to[i] = static_cast<uint8_t>(text[i]);
  return to + N - 1;
}

}  // namespace fig_memc

CARILLON_KERNEL(fig_memc, FigMemcArgs, args, self) {
  if (!FigMemcFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t i = self.global_x();
  if (i >= args.count) return;
  const uint8_t* request = args.requests.data + i * kFigMemcSlot;
  uint8_t* reply = args.replies.data + i * kFigMemcSlot;
  const uint32_t key_length = fig_memc::KeyLength(request);
  if (key_length == 0) {
    args.lengths[i] = 0;
    return;
  }
  const uint8_t* key = request + kFigMemcText + 4;
  FigMemcEntry* entry = fig_memc::Find(args, key, key_length);
  uint8_t* to = reply + kFigMemcText;
  if (entry != nullptr) {
    const uint32_t value_length = entry->value_length;
    if (value_length > kFigMemcMaxValue) {
      self.Fail(kFigMemcBadTable);
      args.lengths[i] = 0;
      return;
    }
    simt::StoreRelaxed(&entry->last_access, args.now);
    to = fig_memc::PutText(to, "VALUE ");
    for (uint32_t k = 0; k < key_length; ++k) *to++ = key[k];
    to = fig_memc::PutText(to, " 0 ");
    *to++ = static_cast<uint8_t>('0' + value_length);
    to = fig_memc::PutText(to, "\r\n");
    for (uint32_t k = 0; k < value_length; ++k) *to++ = entry->value[k];
    to = fig_memc::PutText(to, "\r\n");
  }
  to = fig_memc::PutText(to, "END\r\n");
  const uint32_t text_length =
      static_cast<uint32_t>(to - (reply + kFigMemcText));
  fig_memc::PutHeaders(request, reply, text_length);
  args.lengths[i] = kFigMemcText - kFigMemcFrame + text_length;
}

inline const char* CheckFigMemc(const simt::LaunchShape& shape,
                                const FigMemcArgs& args) {
  if (!FigMemcFits(args)) {
    return "requests and replies must have 128 bytes a request, lengths an "
           "element; table a power of two of sets of 8 entries";
  }
  return static_cast<uint64_t>(shape.grid.x) * shape.block.x >= args.count
             ? nullptr
             : "the launch must have a thread a request in x";
}

CARILLON_KERNEL_INFO(
    fig_memc, FigMemcArgs, "answers memcached GETs of frames",
    simt::Registers(32).Validate<&CheckFigMemc>(),
    CARILLON_PARAM(FigMemcArgs, requests,
                   "128 bytes each, frames from byte 14 on"),
    CARILLON_PARAM(FigMemcArgs, replies,
                   "128 bytes each, frames from byte 14 on"),
    CARILLON_PARAM(FigMemcArgs, lengths,
                   "receives the bytes of each reply frame, 0: no reply"),
    CARILLON_PARAM(FigMemcArgs, table, "sets of 8 entries"),
    CARILLON_PARAM(FigMemcArgs, now,
                   "becomes the last access of what is found"),
    CARILLON_PARAM(FigMemcArgs, count, "requests"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_MEMC_CUH_
