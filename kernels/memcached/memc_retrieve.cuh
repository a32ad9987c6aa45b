// get, gets, gat and gats.
//
// protocol.txt calls the reply to a "get" with several keys one message: the
// values of all hits and END, in as many datagrams as that takes. (Debian's
// memcached 1.6.18 sends a datagram "0 of 1" for each hit.)
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_RETRIEVE_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_RETRIEVE_CUH_

#include <cstdint>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/memc_line.cuh"
#include "kernels/memcached/memc_reply.cuh"
#include "kernels/memcached/memc_request.cuh"
#include "kernels/memcached/memc_table.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

// protocol.txt, "Expiration times": 0 is never, a negative number at once, up
// to 30 days counts from now, and more from 1970. Returns Item::exptime.
CARILLON_MEMC_CALL uint32_t ResolveExptime(const Decimal& exptime,
                                           uint32_t now) {
  constexpr uint64_t kMaxRelative = 60 * 60 * 24 * 30;
  if (exptime.magnitude == 0) return 0;
  if (exptime.negative) return 1;
  const uint64_t at = exptime.magnitude > kMaxRelative
                          ? exptime.magnitude
                          : now + exptime.magnitude;
  return at > 0xffffffff ? 0xffffffff : static_cast<uint32_t>(at);
}

// The range of strtol, as memcached checks it.
CARILLON_DEVICE bool FitsSigned(const Decimal& number) {
  return number.ok && number.magnitude <= (uint64_t{1} << 63) - 1;
}

// "VALUE <key> <flags> <bytes>[ <cas>]\r\n<data>\r\n"
CARILLON_DEVICE void PutValue(ReplyWriter& reply, const Key& key,
                              const Found& found, bool with_cas) {
  // VALUE, three blanks, two numbers of 32 bits, two line ends; a cas.
  constexpr uint64_t kMaxText = 6 + 3 + 2 * 10 + 2 * 2 + kMaxDecimalDigits;
  uint8_t* to =
      reply.Reserve(kMaxText + key.length + uint64_t{found.value_length});
  if (to != nullptr) {
    memcpy(to, "VALUE ", 6);
    to += 6;
    CopyBytes(to, key.data, key.length);
    to += key.length;
    *to++ = ' ';
    to += FormatDecimal(found.item->flags, to);
    *to++ = ' ';
    to += FormatDecimal(found.value_length, to);
    if (with_cas) {
      *to++ = ' ';
      to += FormatDecimal(found.item->cas, to);
    }
    *to++ = '\r';
    *to++ = '\n';
    CopyBytes(to, found.value, found.value_length);
    to += found.value_length;
    *to++ = '\r';
    *to++ = '\n';
    reply.Commit(to);
    return;
  }
  reply.PutText("VALUE ");
  reply.Put(key.data, key.length);
  reply.PutText(" ");
  reply.PutDecimal(found.item->flags);
  reply.PutText(" ");
  reply.PutDecimal(found.value_length);
  if (with_cas) {
    reply.PutText(" ");
    reply.PutDecimal(found.item->cas);
  }
  reply.PutText("\r\n");
  reply.Put(found.value, found.value_length);
  reply.PutText("\r\n");
}

// Retrieves one key. The set's shared lock covers the copy: no SET can free or
// reuse the value under it.
CARILLON_MEMC_CALL void RetrieveKey(Command& command, const Token& word,
                                    bool with_cas, bool touch,
                                    uint32_t exptime) {
  Table& table = command.table;
  const Key key{word.data, word.length, HashKey(word.data, word.length)};
  Set* set = table.SetOf(key.hash);
  const LockResult lock = table.Share(set);
  if (!lock.ok) return;
  const Found found = table.Find(set, key);
  if (found.item != nullptr) {
    PutValue(command.reply, key, found, with_cas);
    if (command.reply.fits()) {
      simt::StoreRelaxed(&found.item->last_access, lock.clock);
      simt::StoreRelaxed(&found.item->fetched, table.now());
      if (touch) simt::StoreRelaxed(&found.item->exptime, exptime);
    }
    ++command.hits;
  } else {
    ++command.misses;
  }
  UnlockShared(&set->lock);
}

CARILLON_DEVICE void CountRetrieval(const Command& command, bool touch) {
  const Table& table = command.table;
  Counters* count = table.counters(command.stripe);
  if (touch) {
    if (command.hits != 0) Table::Count(&count->touch_hits, command.hits);
    if (command.misses != 0) {
      Table::Count(&table.header()->rare.touch_misses, command.misses);
    }
    return;
  }
  if (command.hits != 0) Table::Count(&count->get_hits, command.hits);
  if (command.misses != 0) Table::Count(&count->get_misses, command.misses);
}

CARILLON_MEMC_CALL memcached::Outcome Retrieve(Command& command, bool with_cas,
                                               bool touch) {
  LineReader& line = command.line;
  Decimal exptime{true, false, 0};
  Token word = line.Next();
  if (touch) {
    // A request whose line has no end must not touch any item.
    while (!line.Next().none()) {
    }
    if (!line.complete()) return memcached::Outcome::kDropped;
    line.Rewind();
    line.Next();
    word = line.Next();
    if (!word.none()) {
      exptime = ParseDecimal(word.data, word.length);
      if (!FitsSigned(exptime)) {
        return command.Say("CLIENT_ERROR invalid exptime argument\r\n");
      }
      // memcached answers END to a get without keys.
      word = line.Next();
      if (word.none()) return command.Say("END\r\n");
    }
  }
  if (word.none()) {
    return line.complete() ? command.Say("ERROR\r\n")
                           : memcached::Outcome::kDropped;
  }
  const uint32_t until = ResolveExptime(exptime, command.table.now());
  bool too_long = false;
  for (; !word.none() && command.table.ok(); word = line.Next()) {
    too_long |= word.length > memcached::kMaxKeyBytes;
    if (!too_long) RetrieveKey(command, word, with_cas, touch, until);
  }
  if (!line.complete()) return memcached::Outcome::kDropped;
  if (too_long) {
    command.hits = 0;
    command.misses = 0;
    return command.Say("CLIENT_ERROR bad command line format\r\n");
  }
  command.reply.PutText("END\r\n");
  // A request that will be tried again counts only then.
  if (command.reply.fits() || command.largest_stride) {
    CountRetrieval(command, touch);
  }
  return memcached::Outcome::kAnswered;
}

// True if the command is one of this file's; *outcome is then set. Otherwise
// *first is the line's first word.
CARILLON_DEVICE bool TryRetrieve(Command& command, Token* first,
                                 memcached::Outcome* outcome) {
  if (command.line.SkipGet()) {
    *outcome = Retrieve(command, false, false);
    return true;
  }
  *first = command.line.Next();
  const Token& verb = *first;
  if (verb.length < 3 || verb.data[0] != 'g') return false;
  if (verb.Is("get")) {
    *outcome = Retrieve(command, false, false);
  } else if (verb.Is("gets")) {
    *outcome = Retrieve(command, true, false);
  } else if (verb.Is("gat")) {
    *outcome = Retrieve(command, false, true);
  } else if (verb.Is("gats")) {
    *outcome = Retrieve(command, true, true);
  } else {
    return false;
  }
  return true;
}

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_RETRIEVE_CUH_
