// What memc_get and memc_set share: their arguments, and how one thread reads a
// request and writes its reply.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_REQUEST_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_REQUEST_CUH_

#include <cstdint>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/memc_line.cuh"
#include "kernels/memcached/memc_reply.cuh"
#include "kernels/memcached/memc_table.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

// One event: `count` requests, one per thread; with fewer threads each takes
// several. The grid and block may have any size (a warp event has 32 threads).
struct MemcArgs {
  simt::Span<const uint8_t> packets;
  simt::Span<const memcached::Request> requests;
  simt::Span<uint8_t> replies;
  simt::Span<memcached::Reply> results;
  simt::Span<uint8_t> table;
  simt::Span<uint8_t> store;
  simt::Span<const memcached::ServerStats> server;  // at most one
  uint64_t now_s;
  uint32_t count;
  uint32_t reply_stride;
};

namespace memc {

// The event's status when the table or store holds what these kernels never
// write.
inline constexpr uint32_t kFailCorrupt = 100;

// A stride that has room for every reply of one line.
inline constexpr uint32_t kMinReplyStride = 512;

// Returns nullptr, or what is wrong with the table's memory or the store's.
CARILLON_HOST_DEVICE const char* CheckMemory(simt::Span<uint8_t> table,
                                             simt::Span<uint8_t> store) {
  if (table.size < kMinTableBytes ||
      reinterpret_cast<uintptr_t>(table.data) % alignof(Set) != 0) {
    return "table must have at least 1408 bytes, aligned to 128";
  }
  if (!Store(store).usable() ||
      reinterpret_cast<uintptr_t>(store.data) % kBlockUnit != 0) {
    return "store must have at least 66720 bytes and at most 256 GiB, aligned "
           "to 64";
  }
  return nullptr;
}

// Returns nullptr, or what is wrong with the arguments that stay the same for
// all events.
CARILLON_HOST_DEVICE const char* CheckArgs(const MemcArgs& args) {
  if (args.reply_stride < kMinReplyStride || args.reply_stride % 64 != 0) {
    return "reply_stride must be a multiple of 64, at least 512";
  }
  if (args.replies.size > 0xffffffff) {
    return "replies must be smaller than 4 GiB";
  }
  return CheckMemory(args.table, args.store);
}

// For KernelTraits: a sentence for each mistake that the kernel itself reports
// only as a status.
inline const char* CheckLaunch(const simt::LaunchShape&, const MemcArgs& args) {
  return CheckArgs(args);
}

// One request during its execution.
struct Command {
  // Has a constructor because an aggregate would first be zeroed, window and
  // all.
  CARILLON_DEVICE Command(const uint8_t* request_text, uint32_t request_length,
                          uint64_t room, bool largest, uint32_t counter_stripe,
                          Table* shared_table,
                          simt::Span<const memcached::ServerStats> stats,
                          const ReplyWriter& writer)
      : text(request_text),
        length(request_length),
        largest_stride(largest),
        stripe(counter_stripe),
        table(*shared_table),
        server(stats),
        reply(writer),
        line(request_text, request_length, room) {}

  const uint8_t* text;  // without frame header; the device may change it
  uint32_t length;
  bool largest_stride;
  bool noreply = false;  // the client wants to hear nothing
  uint8_t flags = 0;     // memcached::ReplyFlags
  uint32_t stripe;       // its stripe of the counters
  uint32_t hits = 0;
  uint32_t misses = 0;
  Table& table;
  simt::Span<const memcached::ServerStats> server;
  ReplyWriter reply;
  LineReader line;

  // Makes `words` (with their line end) the whole reply, unless the client
  // wants none.
  CARILLON_MEMC_CALL memcached::Outcome Say(const char* words) {
    if (noreply) return memcached::Outcome::kSilent;
    uint32_t count = 0;
    while (words[count] != 0) ++count;
    reply.Clear();
    reply.Put(reinterpret_cast<const uint8_t*>(words), count);
    return memcached::Outcome::kAnswered;
  }
};

CARILLON_DEVICE uint16_t Saturate16(uint64_t n) {
  return static_cast<uint16_t>(n > 0xffff ? 0xffff : n);
}

// A CPU runs the threads in turn, so the packet of one can be fetched while
// those before it are processed.
CARILLON_DEVICE void PrefetchRequest([[maybe_unused]] const MemcArgs& args,
                                     [[maybe_unused]] uint64_t i) {
#if !defined(__CUDACC__)
  if (i >= args.count || i >= args.requests.size) return;
  const uint64_t offset = LoadRelaxed(&args.requests[i].offset);
  if (offset >= args.packets.size) return;
  PrefetchForLater(args.packets.data + offset);
#endif
}

// Executes request i. `execute(Command&)` returns a MemcOutcome, kAnswered when
// it has built a reply.
template <class Execute>
CARILLON_DEVICE memcached::Reply Serve(const MemcArgs& args, uint64_t i,
                                       Table* table, Execute execute) {
  using memcached::Outcome;
  memcached::Reply result{};
  // Reads each word once: the device may change the descriptor meanwhile.
  const memcached::Request& request = args.requests[i];
  const uint64_t offset = LoadRelaxed(&request.offset);
  uint32_t length = LoadRelaxed(&request.length);
  const uint32_t flags = LoadRelaxed(&request.flags);
  const uint64_t reply_offset = i * args.reply_stride;
  if (!args.packets.InBounds(offset, length) ||
      !args.replies.InBounds(reply_offset, args.reply_stride)) {
    result.outcome = Outcome::kBadDescriptor;
    return result;
  }
  const uint8_t* text = args.packets.data + offset;
  uint64_t room = args.packets.size - offset;
  const bool stream = (flags & memcached::kStream) != 0;
  uint16_t frame_id = 0;
  if (!stream) {
    // Sequence and reserved are ignored, as memcached does; memcaslap sends
    // reserved = 0x0100.
    alignas(8) uint8_t frame[memcached::kFrameBytes];
    if (length < sizeof(frame)) {
      result.outcome = Outcome::kDropped;
      return result;
    }
    CopyFromDevice(frame, text, sizeof(frame), room);
    if (frame[4] != 0 || frame[5] != 1) {
      result.outcome = Outcome::kDropped;
      return result;
    }
    frame_id = static_cast<uint16_t>(frame[0] << 8 | frame[1]);
    text += sizeof(frame);
    room -= sizeof(frame);
    length -= sizeof(frame);
  }

  Command command(text, length, room, (flags & memcached::kLargestStride) != 0,
                  static_cast<uint32_t>(i), table, args.server,
                  ReplyWriter(args.replies.data + reply_offset,
                              args.reply_stride, stream, frame_id));
  result.outcome = execute(command);
  ReplyWriter& reply = command.reply;
  if (result.outcome == Outcome::kAnswered && !reply.fits()) {
    if (!command.largest_stride && reply.datagrams() <= 0xffff) {
      result.outcome = Outcome::kTooLarge;
      result.length = reply.length() > 0xffffffff
                          ? 0xffffffff
                          : static_cast<uint32_t>(reply.length());
      return result;
    }
    command.Say("SERVER_ERROR out of memory writing get response\r\n");
  }
  if (!table->ok()) result.outcome = Outcome::kCorrupt;
  result.flags = command.flags;
  if (result.outcome != Outcome::kAnswered &&
      result.outcome != Outcome::kSilent) {
    return result;
  }
  result.hits = Saturate16(command.hits);
  result.misses = Saturate16(command.misses);
  if (result.outcome == Outcome::kSilent) return result;
  reply.Finish();
  result.offset = static_cast<uint32_t>(reply_offset);
  result.length = static_cast<uint32_t>(reply.length());
  result.datagrams = static_cast<uint16_t>(reply.datagrams());
  return result;
}

// The whole kernel, with `execute` as for Serve().
template <class Thread, class Execute>
CARILLON_DEVICE void ServeBatch(const MemcArgs& args, const Thread& self,
                                Execute execute) {
  if (CheckArgs(args) != nullptr) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  uint64_t count = args.count;
  if (count > args.requests.size) count = args.requests.size;
  if (count > args.results.size) count = args.results.size;
  Table table(args.table, args.store, args.now_s);
  const bool open = table.Open();
  constexpr uint64_t kAhead = 4;
  const uint64_t first = self.global_linear();
  if (first == 0) {
    for (uint64_t i = 1; i < kAhead; ++i) PrefetchRequest(args, i);
  }
  for (uint64_t i = first; i < count; i += self.grid_threads()) {
    PrefetchRequest(args, i + kAhead);
    memcached::Reply result{};
    result.outcome = memcached::Outcome::kCorrupt;
    if (open) result = Serve(args, i, &table, execute);
    if (result.outcome == memcached::Outcome::kCorrupt) self.Fail(kFailCorrupt);
    args.results[i] = result;
  }
}

}  // namespace memc
}  // namespace carillon::kernels

// The parameters of MemcArgs, for CARILLON_KERNEL_INFO.
#define CARILLON_MEMC_PARAMS                                                   \
  CARILLON_PARAM(MemcArgs, packets, "where the requests' bytes are"),          \
      CARILLON_PARAM(MemcArgs, requests, "one memcached::Request each"),       \
      CARILLON_PARAM(MemcArgs, replies,                                        \
                     "receives replies, reply_stride apart"),                  \
      CARILLON_PARAM(MemcArgs, results, "receives one memcached::Reply each"), \
      CARILLON_PARAM(MemcArgs, table, "hash table, zeros at first"),           \
      CARILLON_PARAM(MemcArgs, store, "value store, zeros at first"),          \
      CARILLON_PARAM(MemcArgs, server, "one memcached::ServerStats, or none"), \
      CARILLON_PARAM(MemcArgs, now_s, "seconds since 1970"),                   \
      CARILLON_PARAM(MemcArgs, count, "requests in this batch"),               \
      CARILLON_PARAM(MemcArgs, reply_stride,                                   \
                     "bytes for one reply, a multiple of 64")

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_REQUEST_CUH_
