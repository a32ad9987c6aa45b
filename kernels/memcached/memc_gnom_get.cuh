// memc_gnom_get: GNoM's GET kernel (thesis 4.1.3, 4.2). Raw frames in, raw
// frames out, two threads a packet: a block's first half are main threads, which
// hash the key and look it up, while the helper threads of the second half check
// the request's headers and write the reply's. The block loads and stores the
// first words of all packets together, by way of shared memory. See gnom_wire.h
// for what a NIC writes and reads.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_GNOM_GET_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_GNOM_GET_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/memcached/gnom_wire.h"
#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/memc_frame.cuh"
#include "kernels/memcached/memc_request.cuh"
#include "kernels/memcached/memc_table.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

// One event: the `count` GRXBs from byte `first` of `grxbs` on.
struct GnomArgs {
  simt::Span<const uint8_t> grxbs;
  simt::Span<uint8_t> replies;
  simt::Span<memcached::GnomResult> results;
  simt::Span<uint8_t> table;
  simt::Span<uint8_t> store;
  uint64_t first;
  uint64_t now_s;
  uint32_t count;
  uint32_t address;
  uint32_t port;
};

namespace memc {

// Returns nullptr, or what is wrong with the arguments.
CARILLON_HOST_DEVICE const char* CheckGnomArgs(const GnomArgs& args) {
  using namespace memcached;
  if (args.grxbs.size == 0 || args.grxbs.size % kGrxbBytes != 0 ||
      reinterpret_cast<uintptr_t>(args.grxbs.data) % 8 != 0) {
    return "grxbs must be whole buffers of 2048 bytes, aligned to 8";
  }
  if (args.first >= args.grxbs.size || args.first % kGrxbBytes != 0) {
    return "first must be where a buffer of grxbs begins";
  }
  if (args.count > args.grxbs.size / kGrxbBytes) {
    return "a batch cannot have more buffers than grxbs has";
  }
  if (args.results.size < args.count ||
      args.replies.size / kGnomReplyBytes < args.count ||
      reinterpret_cast<uintptr_t>(args.replies.data) % 8 != 0) {
    return "results and replies must have room for each packet, replies 512 "
           "bytes, aligned to 8";
  }
  return CheckMemory(args.table, args.store);
}

inline const char* CheckGnomLaunch(const simt::LaunchShape&,
                                   const GnomArgs& args) {
  return CheckGnomArgs(args);
}

CARILLON_HOST_DEVICE bool HasPairs(uint64_t block_threads) {
  return block_threads % (2 * simt::kWarpSize) == 0 &&
         block_threads <= 2 * memcached::kGnomPairs;
}

inline const char* CheckGnomShape(const simt::LaunchShape& shape) {
  return HasPairs(shape.block.count())
             ? nullptr
             : "a block has a multiple of 64 threads, at most 512: half of "
               "them are helpers";
}

// The block's shared memory: rows of replies, rows of requests, room to read
// beyond the last one's end, and a MainOutcome for each pair.
inline constexpr uint32_t kReplyRows = 0;
inline constexpr uint32_t kRequestRows =
    kReplyRows + memcached::kGnomPairs * memcached::kGnomReplyWords * 4;
inline constexpr uint32_t kMainOutcomes =
    kRequestRows + memcached::kGnomPairs * memcached::kGnomRequestWords * 4 +
    kReadSlack;
inline constexpr uint32_t kGnomSharedBytes =
    kMainOutcomes + memcached::kGnomPairs * 4;
inline constexpr uint32_t kRowText =
    (memcached::kGnomRequestWords - kTextWord) * 4;
inline constexpr uint32_t kReplyRowText =
    (memcached::kGnomReplyWords - kTextWord) * 4;

// What a main thread tells its helper.
struct MainOutcome {
  uint16_t text_bytes;  // of the reply
  GnomVerdict verdict;
  bool hit : 1;
  bool in_row : 1;  // the reply's text; otherwise it is in `replies`
};
static_assert(sizeof(MainOutcome) == 4);

// Where a main thread reads and writes.
struct MainPlaces {
  const uint32_t* request_row;
  const uint8_t* grxb;
  uint8_t* reply_row;  // the text's place in it
  uint8_t* reply;      // the same, in `replies`
};

// The first ' ' or line end in text[from, length), or `length`. Reads up to
// kReadSlack bytes behind it.
CARILLON_DEVICE uint32_t FindEnd(const uint8_t* text, uint32_t from,
                                 uint32_t length) {
  for (; from < length; from += 8) {
    const uint64_t word = Load64(text + from);
    const uint64_t hit = MatchByte(word, ' ') | MatchByte(word, '\n');
    if (hit == 0) continue;
    const uint32_t at = from + LowestBit64(hit) / 8;
    return at < length ? at : length;
  }
  return length;
}

// Finds the key of a "get" of one key, in `text` of `length` bytes, of which
// only `readable` are there. kAnswered: there is one.
CARILLON_DEVICE GnomVerdict FindKey(const uint8_t* text, uint32_t length,
                                    uint32_t readable, Key* key) {
  constexpr uint32_t kVerb = 4;
  uint32_t end = FindEnd(text, kVerb, readable);
  if (end == readable) {
    return readable < length ? GnomVerdict::kOtherCommand
                             : GnomVerdict::kMalformed;
  }
  if (text[end] != '\n') return GnomVerdict::kOtherCommand;
  if (text[end - 1] == '\r') --end;
  key->data = text + kVerb;
  key->length = end - kVerb;
  if (key->length == 0 || key->length > memcached::kMaxKeyBytes) {
    return GnomVerdict::kOtherCommand;
  }
  return GnomVerdict::kAnswered;
}

// The block stores whole words of a row: none shall have what was in shared
// memory before.
CARILLON_DEVICE void EndWord(uint8_t* to) {
  for (; reinterpret_cast<uintptr_t>(to) % 4 != 0; ++to) *to = 0;
}

// Writes "VALUE <key> <flags> <bytes>\r\n<data>\r\nEND\r\n" to the row, or if it
// is too long for that to `replies`.
CARILLON_MEMC_CALL MainOutcome WriteHit(const Key& key, const Found& found,
                                        const MainPlaces& places) {
  uint8_t flags[kMaxDecimalDigits];
  uint8_t bytes[kMaxDecimalDigits];
  const uint32_t flags_digits = FormatDecimal(found.item->flags, flags);
  const uint32_t bytes_digits = FormatDecimal(found.value_length, bytes);
  const uint64_t total = uint64_t{6} + key.length + 1 + flags_digits + 1 +
                         bytes_digits + 2 + found.value_length + 2 + 5;
  if (total > memcached::kGnomReplyBytes - memcached::kGrxbText) {
    return {0, GnomVerdict::kTooLarge, true, false};
  }
  const bool in_row = total <= kReplyRowText;
  uint8_t* to = in_row ? places.reply_row : places.reply;
  memcpy(to, "VALUE ", 6);
  to += 6;
  CopyBytes(to, key.data, key.length);
  to += key.length;
  *to++ = ' ';
  for (uint32_t i = 0; i < flags_digits; ++i) *to++ = flags[i];
  *to++ = ' ';
  for (uint32_t i = 0; i < bytes_digits; ++i) *to++ = bytes[i];
  *to++ = '\r';
  *to++ = '\n';
  CopyBytes(to, found.value, found.value_length);
  to += found.value_length;
  memcpy(to, "\r\nEND\r\n", 7);
  if (in_row) EndWord(to + 7);
  return {static_cast<uint16_t>(total), GnomVerdict::kAnswered, true, in_row};
}

// What a main thread does, while nobody knows yet whether the frame is good: it
// changes nothing but when an item was used last.
CARILLON_MEMC_CALL MainOutcome LookUp(Table* table, const MainPlaces& places) {
  const uint32_t* row = places.request_row;
  const uint32_t frame_end =
      memcached::kGrxbFrame + (row[kLengthWord] & 0xffff);
  const uint32_t udp_bytes = Swap16(row[kUdpWord] & 0xffff);
  constexpr uint32_t kHeads = kUdpBytes + memcached::kFrameBytes;
  uint32_t length = udp_bytes > kHeads ? udp_bytes - kHeads : 0;
  if (frame_end > memcached::kGrxbBytes ||
      frame_end < memcached::kGrxbText + length) {
    length = 0;
  }
  constexpr uint32_t kGet = 'g' | 'e' << 8 | 't' << 16 | ' ' << 24;
  if (length < sizeof(kGet) || row[kTextWord] != kGet) {
    return {0, GnomVerdict::kOtherCommand, false, false};
  }
  // A longer text is copied to this thread's own memory: the device may change
  // it meanwhile.
  constexpr uint32_t kWindow = 4 + memcached::kMaxKeyBytes + 2;
  static_assert(kWindow % 8 == 0);
  alignas(8) uint8_t window[kWindow + kReadSlack];
  const uint8_t* text = reinterpret_cast<const uint8_t*>(row + kTextWord);
  uint32_t readable = length;
  if (length > kRowText) {
    readable = length < kWindow ? length : kWindow;
    CopyFromDevice(window, places.grxb + memcached::kGrxbText, readable,
                   memcached::kGrxbBytes - memcached::kGrxbText);
    text = window;
  }
  Key key;
  const GnomVerdict verdict = FindKey(text, length, readable, &key);
  if (verdict != GnomVerdict::kAnswered) return {0, verdict, false, false};

  key.hash = HashKey(key.data, key.length);
  Set* set = table->SetOf(key.hash);
  const LockResult lock = table->Share(set);
  if (!lock.ok) return {0, GnomVerdict::kCorrupt, false, false};
  const Found found = table->Find(set, key);
  MainOutcome outcome{0, GnomVerdict::kAnswered, false, true};
  if (found.item != nullptr) {
    outcome = WriteHit(key, found, places);
    if (outcome.verdict == GnomVerdict::kAnswered) {
      simt::StoreRelaxed(&found.item->last_access, lock.clock);
      simt::StoreRelaxed(&found.item->fetched, table->now());
    }
  } else {
    memcpy(places.reply_row, "END\r\n", 5);
    EndWord(places.reply_row + 5);
    outcome.text_bytes = 5;
  }
  UnlockShared(&set->lock);
  return outcome;
}

}  // namespace memc

CARILLON_BARRIER_KERNEL(memc_gnom_get, GnomArgs, args, self) {
  using namespace memc;
  using namespace memcached;
  if (!HasPairs(self.block_threads())) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (CheckGnomArgs(args) != nullptr) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  uint32_t* const reply_rows =
      self.shared<uint32_t>(kReplyRows, kGnomPairs * kGnomReplyWords);
  uint32_t* const request_rows = self.shared<uint32_t>(
      kRequestRows, kGnomPairs * kGnomRequestWords + kReadSlack / 4);
  MainOutcome* const outcomes =
      self.shared<MainOutcome>(kMainOutcomes, kGnomPairs);
  const uint32_t threads = self.block_threads();
  const uint32_t pairs = threads / 2;
  const bool is_main = self.linear() < pairs;
  const uint32_t pair = is_main ? self.linear() : self.linear() - pairs;
  const uint64_t step = self.grid_threads() / 2;
  const uint64_t block =
      (self.global_linear() - self.linear()) / threads * pairs;

  for (uint64_t base = block; base < args.count; base += step) {
    const uint32_t packets = static_cast<uint32_t>(
        args.count - base < pairs ? args.count - base : pairs);
    const auto grxb_of = [&](uint32_t i) {
      // Both are less than the size.
      uint64_t at = args.first + (base + i) * kGrxbBytes;
      if (at >= args.grxbs.size) at -= args.grxbs.size;
      return args.grxbs.data + at;
    };
    for (uint32_t i = self.linear(); i < packets * kGnomRequestWords;
         i += threads) {
      const auto* words =
          reinterpret_cast<const uint32_t*>(grxb_of(i / kGnomRequestWords));
      request_rows[i] = simt::LoadRelaxed(words + i % kGnomRequestWords);
    }
    CARILLON_SYNC_THREADS(self);

    uint32_t* const request = request_rows + pair * kGnomRequestWords;
    uint32_t* const row = reply_rows + pair * kGnomReplyWords;
    uint8_t* const reply = args.replies.data + (base + pair) * kGnomReplyBytes;
    GnomVerdict verdict = GnomVerdict::kNone;
    if (pair < packets) {
      if (is_main) {
        Table table(args.table, args.store, args.now_s);
        MainOutcome outcome{0, GnomVerdict::kCorrupt, false, false};
        if (table.Open()) {
          outcome = LookUp(
              &table, {.request_row = request,
                       .grxb = grxb_of(pair),
                       .reply_row = reinterpret_cast<uint8_t*>(row + kTextWord),
                       .reply = reply + kGrxbText});
        }
        if (!table.ok()) outcome.verdict = GnomVerdict::kCorrupt;
        if (outcome.verdict == GnomVerdict::kCorrupt) self.Fail(kFailCorrupt);
        outcomes[pair] = outcome;
      } else {
        verdict = CheckFrame(
            {.row = request,
             .row_words = kGnomRequestWords,
             .memory = reinterpret_cast<const uint32_t*>(grxb_of(pair))},
            {.address = args.address, .port = args.port});
        WriteReplyHead(request, row);
      }
    }
    CARILLON_SYNC_THREADS(self);

    if (!is_main && pair < packets) {
      const MainOutcome outcome = outcomes[pair];
      GnomResult result{};
      if (verdict == GnomVerdict::kAnswered) verdict = outcome.verdict;
      if (outcome.verdict == GnomVerdict::kCorrupt) verdict = outcome.verdict;
      if (verdict == GnomVerdict::kAnswered) {
        result.length = static_cast<uint16_t>(CompleteReplyHead(
            row,
            {.row = row,
             .row_words = outcome.in_row ? kGnomReplyWords : kTextWord,
             .memory = reinterpret_cast<const uint32_t*>(reply)},
            outcome.text_bytes));
        result.hit = outcome.hit;
        const Table table(args.table, args.store, args.now_s);
        Counters* count = table.counters(pair);
        Table::Count(outcome.hit ? &count->get_hits : &count->get_misses);
      }
      result.verdict = verdict;
      args.results[base + pair] = result;
    }
    CARILLON_SYNC_THREADS(self);

    for (uint32_t i = self.linear(); i < packets * kGnomReplyWords;
         i += threads) {
      const uint32_t of = i / kGnomReplyWords;
      const uint32_t word = i % kGnomReplyWords;
      // A text that is not in the row stands where it belongs.
      if (outcomes[of].in_row ? word * 4 < kGrxbText + outcomes[of].text_bytes
                              : word < kTextWord) {
        reinterpret_cast<uint32_t*>(args.replies.data +
                                    (base + of) * kGnomReplyBytes)[word] =
            reply_rows[i];
      }
    }
    CARILLON_SYNC_THREADS(self);
  }
}

CARILLON_KERNEL_INFO(
    memc_gnom_get, GnomArgs,
    "memcached get on raw frames, a main and a helper thread a packet",
    simt::Registers(96)
        .From("GNoM, MemcachedGPU")
        .Oracle("memcached, Scapy")
        .Shared(memc::kGnomSharedBytes)
        .LeavesTogether()
        .Shape<&memc::CheckGnomShape>()
        .Validate<&memc::CheckGnomLaunch>(),
    CARILLON_PARAM(GnomArgs, grxbs, "receive buffers of 2048 bytes"),
    CARILLON_PARAM(GnomArgs, replies, "receives reply frames, 512 bytes apart"),
    CARILLON_PARAM(GnomArgs, results,
                   "receives one memcached::GnomResult each"),
    CARILLON_PARAM(GnomArgs, table, "hash table, zeros at first"),
    CARILLON_PARAM(GnomArgs, store, "value store, zeros at first"),
    CARILLON_PARAM(GnomArgs, first, "where the batch's first buffer begins"),
    CARILLON_PARAM(GnomArgs, now_s, "seconds since 1970"),
    CARILLON_PARAM(GnomArgs, count, "buffers in this batch"),
    CARILLON_PARAM(GnomArgs, address, "the server's, a number; 0: any"),
    CARILLON_PARAM(GnomArgs, port, "the server's UDP port"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_GNOM_GET_CUH_
