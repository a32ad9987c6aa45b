// The meta commands mg, ms, md, ma, me and mn.
//
// The flags are those of Debian's memcached 1.6.18, with its answers: what it
// does not know is "CLIENT_ERROR invalid flag" (so are E and x of later
// versions), and a flag that means nothing to the command is ignored. One thing
// differs: an opaque that is too long is refused before anything changes.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_META_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_META_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/memc_line.cuh"
#include "kernels/memcached/memc_request.cuh"
#include "kernels/memcached/memc_retrieve.cuh"
#include "kernels/memcached/memc_storage.cuh"
#include "kernels/memcached/memc_table.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

// <verb> <key> [<bytes>] <flag>*, where a flag is a letter with its argument.
struct MetaLine {
  static constexpr uint32_t kMaxWords = 19;  // memcached's own limit
  static constexpr uint32_t kMaxOpaqueBytes = 32;

  uint32_t count = 1;           // words, with the verb
  const char* error = nullptr;  // what is wrong with the flags
  Decimal bytes{};              // ms
  uint32_t flag_count = 0;
  uint8_t flags[kMaxWords];  // in the order in which they are answered
  uint64_t seen = 0;         // bit c - 'A': the flag c was given
  uint8_t opaque[kMaxOpaqueBytes + kReadSlack];  // with its O
  uint32_t opaque_length = 0;
  uint32_t exptime = 0;     // T, as Item::exptime
  uint32_t vivify = 0;      // N
  uint32_t recache = 0;     // R
  uint32_t item_flags = 0;  // F
  uint64_t cas = 0;         // C
  uint64_t delta = 1;       // D
  uint64_t initial = 0;     // J
  uint8_t mode = 0;         // M
  bool binary_key = false;
  uint32_t key_length = 0;
  uint8_t key_bytes[memcached::kMaxKeyBytes + kReadSlack];

  CARILLON_DEVICE bool Has(char flag) const {
    return (seen >> (flag - 'A') & 1) != 0;
  }
  CARILLON_DEVICE bool key_too_long() const {
    return key_length > memcached::kMaxKeyBytes;
  }
  CARILLON_DEVICE bool opaque_too_long() const {
    return opaque_length > kMaxOpaqueBytes;
  }
  CARILLON_DEVICE Key key() const {
    return {key_bytes, key_length, HashKey(key_bytes, key_length)};
  }
};

// The value of a base64 digit, 0 for '=', and kNoDigit for other bytes.
inline constexpr uint32_t kNoDigit = 64;
CARILLON_DEVICE uint32_t Base64Digit(uint8_t c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return c == '=' ? 0 : kNoDigit;
}

// Decodes base64 in place and returns the new length; 0 if it is none. As in
// memcached, bytes that are no digits do not count, and what follows the
// padding is ignored.
CARILLON_MEMC_CALL uint32_t DecodeBase64(uint8_t* text, uint32_t length) {
  uint32_t digits = 0;
  for (uint32_t i = 0; i < length; ++i) {
    digits += Base64Digit(text[i]) != kNoDigit ? 1 : 0;
  }
  if (digits % 4 != 0) return 0;
  uint32_t at = 0;
  uint32_t block = 0;
  uint32_t in_block = 0;
  uint32_t padding = 0;
  for (uint32_t i = 0; i < length; ++i) {
    const uint8_t c = text[i];
    const uint32_t digit = Base64Digit(c);
    if (digit == kNoDigit) continue;
    padding += c == '=' ? 1 : 0;
    block = block << 6 | digit;
    if (++in_block != 4) continue;
    if (padding > 2) return 0;
    for (uint32_t k = 0; k < 3 - padding; ++k) {
      text[at++] = static_cast<uint8_t>(block >> (16 - 8 * k));
    }
    if (padding != 0) break;
    block = 0;
    in_block = 0;
  }
  return at;
}

CARILLON_DEVICE void PutBase64(ReplyWriter& reply, const uint8_t* bytes,
                               uint32_t length) {
  const auto digit = [](uint32_t six) {
    return static_cast<uint8_t>(six < 26   ? 'A' + six
                                : six < 52 ? 'a' + six - 26
                                : six < 62 ? '0' + six - 52
                                : six < 63 ? '+'
                                           : '/');
  };
  for (uint32_t i = 0; i < length; i += 3) {
    const uint32_t rest = length - i;
    const uint32_t block = uint32_t{bytes[i]} << 16 |
                           (rest > 1 ? uint32_t{bytes[i + 1]} << 8 : 0) |
                           (rest > 2 ? uint32_t{bytes[i + 2]} : 0);
    const uint8_t text[4] = {
        digit(block >> 18), digit(block >> 12 & 63),
        rest > 1 ? digit(block >> 6 & 63) : static_cast<uint8_t>('='),
        rest > 2 ? digit(block & 63) : static_cast<uint8_t>('=')};
    reply.Put(text, sizeof(text));
  }
}

// A number behind a flag's letter.
CARILLON_DEVICE Decimal Argument(const Token& word) {
  return ParseDecimal(word.data + 1, word.length - 1);
}

CARILLON_DEVICE void ReadTime(MetaLine* line, const Token& word, uint32_t now,
                              uint32_t* at) {
  const Decimal number = Argument(word);
  if (!FitsSigned(number)) {
    line->error = "CLIENT_ERROR bad token in command line format\r\n";
    return;
  }
  *at = ResolveExptime(number, now);
}

CARILLON_DEVICE void ReadNumber(MetaLine* line, const Token& word,
                                const char* error, uint64_t* to) {
  const Decimal number = Argument(word);
  if (!IsUnsigned(number, ~uint64_t{0})) {
    line->error = error;
    return;
  }
  *to = number.magnitude;
}

// Returns false if the flags behind this one do not matter, as memcached does
// not look at them; of other mistakes the last one is reported.
CARILLON_MEMC_CALL bool ReadFlag(MetaLine* line, const Token& word,
                                 uint32_t now) {
  const uint8_t flag = word.data[0];
  constexpr const char* kInvalid = "CLIENT_ERROR invalid flag\r\n";
  constexpr const char* kDuplicate = "CLIENT_ERROR duplicate flag\r\n";
  if (flag < 'A' || flag > 'z') {
    line->error = flag >= 127 ? kDuplicate : kInvalid;
    return false;
  }
  const uint64_t bit = uint64_t{1} << (flag - 'A');
  if ((line->seen & bit) != 0) {
    line->error = kDuplicate;
    return false;
  }
  line->seen |= bit;
  if (line->flag_count < MetaLine::kMaxWords) {
    line->flags[line->flag_count++] = flag;
  }
  switch (flag) {
    case 'b':
      line->binary_key = true;
      if (!line->key_too_long()) {
        line->key_length = DecodeBase64(line->key_bytes, line->key_length);
      }
      if (line->key_length == 0) {
        line->error = "CLIENT_ERROR error decoding key\r\n";
      }
      return true;
    case 'O':
      line->opaque_length = word.length;
      if (!line->opaque_too_long()) {
        CopyBytes(line->opaque, word.data, word.length);
      }
      return true;
    case 'T':
      ReadTime(line, word, now, &line->exptime);
      return true;
    case 'N':
      ReadTime(line, word, now, &line->vivify);
      return true;
    case 'R':
      ReadTime(line, word, now, &line->recache);
      return true;
    case 'F': {
      const Decimal number = Argument(word);
      if (IsUnsigned(number, 0xffffffff)) {
        line->item_flags = static_cast<uint32_t>(number.magnitude);
      } else if (line->error == nullptr) {
        line->error = "CLIENT_ERROR bad command line format\r\n";
      }
      return true;
    }
    case 'C':
      ReadNumber(line, word,
                 "CLIENT_ERROR bad token in command line format\r\n",
                 &line->cas);
      return true;
    case 'J':
      ReadNumber(line, word, "CLIENT_ERROR invalid numeric initial value\r\n",
                 &line->initial);
      return true;
    case 'D':
      ReadNumber(line, word, "CLIENT_ERROR invalid numeric delta value\r\n",
                 &line->delta);
      return true;
    case 'M':
      if (word.length != 2) {
        line->error = "CLIENT_ERROR incorrect length for M token\r\n";
      } else {
        line->mode = word.data[1];
      }
      return true;
    // Without an argument, or for memcached's proxy (L, P).
    case 'I':
    case 'L':
    case 'P':
    case 'c':
    case 'f':
    case 'h':
    case 'k':
    case 'l':
    case 'q':
    case 's':
    case 't':
    case 'u':
    case 'v':
      return true;
    default:
      line->error = kInvalid;
      return false;
  }
}

// Reads the rest of the line, of which the verb was the first word. Returns
// false if it has no end, or must be answered with *outcome.
CARILLON_MEMC_CALL bool ParseMetaLine(Command& command, uint32_t first_flag,
                                      const char* too_many, MetaLine* line,
                                      memcached::Outcome* outcome) {
  bool judge = true;
  for (Token word = command.line.Next(); !word.none();
       word = command.line.Next()) {
    const uint32_t i = line->count++;
    if (i == 1) {
      line->key_length = word.length;
      if (!line->key_too_long()) {
        CopyBytes(line->key_bytes, word.data, word.length + kReadSlack);
      }
    } else if (i < first_flag) {
      line->bytes = ParseDecimal(word.data, word.length);
    } else if (judge && i < MetaLine::kMaxWords) {
      judge = ReadFlag(line, word, command.table.now());
    }
  }
  if (!command.line.complete()) {
    *outcome = memcached::Outcome::kDropped;
  } else if (line->count < 2) {
    *outcome = command.Say("ERROR\r\n");
  } else if (line->key_too_long() || line->count < first_flag) {
    *outcome = SayBadLine(command);
  } else if (line->count > MetaLine::kMaxWords) {
    *outcome = command.Say(too_many);
  } else {
    return true;
  }
  return false;
}

// Appends " <flag>".
CARILLON_DEVICE void PutFlag(ReplyWriter& reply, char flag) {
  const uint8_t text[2] = {' ', static_cast<uint8_t>(flag)};
  reply.Put(text, sizeof(text));
}

CARILLON_MEMC_CALL void PutNumberFlag(ReplyWriter& reply, char flag,
                                      uint64_t number) {
  PutFlag(reply, flag);
  reply.PutDecimal(number);
}

CARILLON_MEMC_CALL void PutKeyFlag(ReplyWriter& reply, const MetaLine& line,
                                   bool binary) {
  PutFlag(reply, 'k');
  if (!binary) {
    reply.Put(line.key_bytes, line.key_length);
    return;
  }
  PutBase64(reply, line.key_bytes, line.key_length);
  PutFlag(reply, 'b');
}

// What remains of an item's time.
CARILLON_DEVICE void PutTimeFlag(ReplyWriter& reply, uint32_t exptime,
                                 uint32_t now) {
  if (exptime == 0) {
    reply.PutText(" t-1");
    return;
  }
  PutNumberFlag(reply, 't', exptime - now);
}

// The flags that every reply has: the key and the opaque.
CARILLON_DEVICE void PutCommonFlag(ReplyWriter& reply, const MetaLine& line,
                                   uint8_t flag, bool binary) {
  if (flag == 'k') PutKeyFlag(reply, line, binary);
  if (flag != 'O') return;
  reply.PutText(" ");
  reply.Put(line.opaque, line.opaque_length);
}

CARILLON_DEVICE memcached::Outcome EndMeta(Command& command,
                                           const MetaLine& line) {
  for (uint32_t i = 0; i < line.flag_count; ++i) {
    PutCommonFlag(command.reply, line, line.flags[i], line.binary_key);
  }
  command.reply.PutText("\r\n");
  return memcached::Outcome::kAnswered;
}

CARILLON_DEVICE memcached::Outcome SayOpaqueTooLong(Command& command) {
  return command.Say("CLIENT_ERROR opaque token too long\r\n");
}

// Seconds since the item was last stored or fetched.
CARILLON_DEVICE uint32_t IdleSeconds(const Item* item, uint32_t now) {
  const uint32_t fetched = LoadRelaxed(&item->fetched);
  const uint32_t last = fetched > item->stored ? fetched : item->stored;
  return now > last ? now - last : 0;
}

// Answers mg with an item, and does to it what the flags say if the answer
// fits. The caller holds the set's lock, shared or not.
CARILLON_DEVICE void AnswerItem(Command& command, const MetaLine& line,
                                const Found& found, uint32_t clock,
                                bool created) {
  ReplyWriter& reply = command.reply;
  Item* item = found.item;
  const uint32_t now = command.table.now();
  while (true) {
    const uint32_t state = LoadRelaxed(&item->state);
    uint32_t exptime = LoadRelaxed(&item->exptime);
    bool win = false;
    if (line.Has('v')) {
      reply.PutText("VA ");
      reply.PutDecimal(found.value_length);
    } else {
      reply.PutText("HD");
    }
    for (uint32_t i = 0; i < line.flag_count; ++i) {
      const uint8_t flag = line.flags[i];
      switch (flag) {
        case 'T':
          exptime = line.exptime;
          break;
        case 'N':
          if (created) {
            exptime = line.vivify;
            win = true;
          }
          break;
        case 'R':
          win |= (state & kWon) == 0 && !created && exptime != 0 &&
                 exptime < line.recache;
          break;
        case 's':
          PutNumberFlag(reply, 's', found.value_length);
          break;
        case 't':
          PutTimeFlag(reply, exptime, now);
          break;
        case 'c':
          PutNumberFlag(reply, 'c', item->cas);
          break;
        case 'f':
          PutNumberFlag(reply, 'f', item->flags);
          break;
        case 'l':
          PutNumberFlag(reply, 'l', IdleSeconds(item, now));
          break;
        case 'h':
          PutNumberFlag(reply, 'h', LoadRelaxed(&item->fetched) != 0 ? 1 : 0);
          break;
        default:
          PutCommonFlag(reply, line, flag, (state & kBinaryKey) != 0);
      }
    }
    if ((state & kWon) != 0) PutFlag(reply, 'Z');
    if ((state & kStale) != 0) {
      PutFlag(reply, 'X');
      win |= (state & kWon) == 0;
    }
    if (win) PutFlag(reply, 'W');
    reply.PutText("\r\n");
    if (line.Has('v')) {
      reply.Put(found.value, found.value_length);
      reply.PutText("\r\n");
    }
    if (!reply.fits()) return;
    // Another one may have won meanwhile: then say so.
    if (win && (simt::AtomicOr(&item->state, uint32_t{kWon}) & kWon) != 0) {
      reply.Clear();
      continue;
    }
    if (line.Has('T') || created) simt::StoreRelaxed(&item->exptime, exptime);
    if (!line.Has('u')) {
      simt::StoreRelaxed(&item->fetched, now);
      simt::StoreRelaxed(&item->last_access, clock);
    }
    return;
  }
}

// mg with N for a key without an item: makes an empty one, if nobody else has
// done so meanwhile. Returns false if there is no room.
struct Vivify {
  CARILLON_DEVICE bool operator()(Command& command, const MetaLine& line,
                                  const Key& key) const {
    Table& table = command.table;
    const BlockRef ref =
        table.Allocate(key.hash, ItemBytes(key.length, 0), OwnItem::kSpare);
    uint8_t* value = ref == 0 ? nullptr : FillItem(table, ref, key, 0, 0, 0, 0);
    if (value == nullptr) return false;
    Set* set = table.SetOf(key.hash);
    const LockResult lock = table.Exclude(set);
    if (!lock.ok) return false;
    Found found = table.FindToChange(set, key);
    const bool created = found.item == nullptr;
    if (created) {
      table.Link(set, found, ref, lock.clock);
      found = {ItemBefore(value, key), value, 0, 0};
    }
    AnswerItem(command, line, found, lock.clock, created);
    UnlockExclusive(&set->lock);
    if (!created) table.store().Free(ref);
    return true;
  }
};

// For a kernel that makes no items.
struct CannotVivify {};

// mg <key> <flag>*
template <class Vivifier>
CARILLON_MEMC_CALL memcached::Outcome MetaGet(Command& command) {
  MetaLine line;
  memcached::Outcome outcome;
  if (!ParseMetaLine(command, 2, "CLIENT_ERROR options flags are too long\r\n",
                     &line, &outcome)) {
    return outcome;
  }
  if (line.error != nullptr) return command.Say(line.error);
  if (line.opaque_too_long()) return SayOpaqueTooLong(command);
  Table& table = command.table;
  const Key key = line.key();
  Set* set = table.SetOf(key.hash);
  const LockResult lock = table.Share(set);
  if (!lock.ok) return memcached::Outcome::kCorrupt;
  const Found found = table.Find(set, key);
  bool hit = found.item != nullptr;
  if (hit) AnswerItem(command, line, found, lock.clock, false);
  UnlockShared(&set->lock);
  if (!hit && line.Has('N')) {
    if constexpr (std::is_same_v<Vivifier, CannotVivify>) {
      return memcached::Outcome::kWrongKernel;
    } else {
      hit = Vivifier{}(command, line, key);
    }
  }
  (hit ? command.hits : command.misses) = 1;
  // A request that will be tried again counts only then.
  if (command.reply.fits() || command.largest_stride) {
    CountRetrieval(command, hit && line.Has('T'));
  }
  if (hit) return memcached::Outcome::kAnswered;
  if (line.Has('q')) return memcached::Outcome::kSilent;
  command.reply.PutText("EN");
  return EndMeta(command, line);
}

// ms <key> <bytes> <flag>*\r\n<data>\r\n
CARILLON_MEMC_CALL memcached::Outcome MetaSet(Command& command) {
  MetaLine line;
  memcached::Outcome outcome;
  if (!ParseMetaLine(command, 3, "CLIENT_ERROR options flags too long\r\n",
                     &line, &outcome)) {
    return outcome;
  }
  if (!IsUnsigned(line.bytes, kMaxStatedLength)) return SayBadLine(command);
  if (line.error != nullptr) return command.Say(line.error);
  StoreMode mode = StoreMode::kSet;
  switch (line.mode) {
    case 0:
    case 'S':
      break;
    case 'E':
      mode = StoreMode::kAdd;
      break;
    case 'A':
      mode = StoreMode::kAppend;
      break;
    case 'P':
      mode = StoreMode::kPrepend;
      break;
    case 'R':
      mode = StoreMode::kReplace;
      break;
    default:
      return command.Say("CLIENT_ERROR invalid mode for ms M token\r\n");
  }
  if (line.Has('C') &&
      (mode == StoreMode::kSet || mode == StoreMode::kReplace)) {
    mode = StoreMode::kCas;
  }
  if (line.opaque_too_long()) return SayOpaqueTooLong(command);
  Table& table = command.table;
  const Key key = line.key();
  if (line.bytes.magnitude > memcached::kMaxValueBytes) {
    Table::Count(&table.header()->rare.store_too_large);
    DropKey(table, key);
    return command.Say("SERVER_ERROR object too large for cache\r\n");
  }
  StoreRequest request{mode,
                       key,
                       line.item_flags,
                       line.exptime,
                       nullptr,
                       static_cast<uint32_t>(line.bytes.magnitude),
                       line.cas,
                       line.binary_key ? uint32_t{kBinaryKey} : 0,
                       line.Has('I')};
  Stored stored{};
  if (!StoreData(command, request, &stored)) {
    return command.Say("CLIENT_ERROR bad data chunk\r\n");
  }
  ReplyWriter& reply = command.reply;
  switch (stored.result) {
    case StoreResult::kStored:
      if (line.Has('q')) return memcached::Outcome::kSilent;
      reply.PutText("HD");
      break;
    case StoreResult::kNoMemory:
      return command.Say("SERVER_ERROR out of memory storing object\r\n");
    case StoreResult::kExists:
      reply.PutText(mode == StoreMode::kAdd ? "NS" : "EX");
      break;
    case StoreResult::kMissing:
      reply.PutText(mode == StoreMode::kCas ? "NF" : "NS");
      break;
  }
  for (uint32_t i = 0; i < line.flag_count; ++i) {
    const uint8_t flag = line.flags[i];
    if (flag == 'c') PutNumberFlag(reply, 'c', stored.cas);
    PutCommonFlag(reply, line, flag, line.binary_key);
  }
  reply.PutText("\r\n");
  return memcached::Outcome::kAnswered;
}

// ParseMetaLine() for md and ma, which have one error for all flags.
CARILLON_DEVICE bool ParseFlagsLine(Command& command, MetaLine* line,
                                    memcached::Outcome* outcome) {
  if (!ParseMetaLine(command, 2, "CLIENT_ERROR options flags too long\r\n",
                     line, outcome)) {
    return false;
  }
  if (line->error == nullptr) return true;
  *outcome = command.Say("CLIENT_ERROR invalid or duplicate flag\r\n");
  return false;
}

// md <key> <flag>*
CARILLON_MEMC_CALL memcached::Outcome MetaDelete(Command& command) {
  MetaLine line;
  memcached::Outcome outcome;
  if (!ParseFlagsLine(command, &line, &outcome)) return outcome;
  if (line.opaque_too_long()) return SayOpaqueTooLong(command);
  Table& table = command.table;
  const Key key = line.key();
  Set* set = table.SetOf(key.hash);
  if (!table.Exclude(set).ok) return memcached::Outcome::kCorrupt;
  const Found found = table.FindToChange(set, key);
  const bool exists = found.item != nullptr;
  const bool match = exists && (!line.Has('C') || found.item->cas == line.cas);
  const bool remove = match && !line.Has('I');
  if (remove) {
    table.Remove(set, found.way);
  } else if (match) {
    Item* item = found.item;
    if (line.Has('T')) simt::StoreRelaxed(&item->exptime, line.exptime);
    // The next client wins.
    simt::StoreRelaxed(&item->state,
                       (LoadRelaxed(&item->state) | kStale) & ~uint32_t{kWon});
    item->cas = table.NextCas();
  }
  UnlockExclusive(&set->lock);
  RareCounters* rare = &table.header()->rare;
  if (remove) Table::Count(&rare->delete_hits);
  if (!match) Table::Count(&rare->delete_misses);
  if (match && line.Has('q')) return memcached::Outcome::kSilent;
  command.reply.PutText(match ? "HD" : exists ? "EX" : "NF");
  return EndMeta(command, line);
}

// ma <key> <flag>*
CARILLON_MEMC_CALL memcached::Outcome MetaArithmetic(Command& command) {
  MetaLine line;
  memcached::Outcome outcome;
  if (!ParseFlagsLine(command, &line, &outcome)) return outcome;
  const uint8_t mode = line.mode;
  const bool increment = mode == 0 || mode == 'I' || mode == '+';
  if (!increment && mode != 'D' && mode != '-') {
    return command.Say("CLIENT_ERROR invalid mode for ma M token\r\n");
  }
  if (line.opaque_too_long()) return SayOpaqueTooLong(command);
  Arithmetic sum{command.table, line.key(), increment, line.delta, line.cas};
  sum.create = line.Has('N');
  sum.initial = line.initial;
  sum.set_exptime = line.Has('T');
  sum.exptime = line.exptime;
  // Of N and T the last one counts.
  for (uint32_t i = 0; i < line.flag_count; ++i) {
    if (line.flags[i] == 'N') sum.created_exptime = line.vivify;
    if (line.flags[i] == 'T') sum.created_exptime = line.exptime;
  }
  using Result = Arithmetic::Result;
  if (!Calculate(command.table, &sum)) {
    return command.Say(
        sum.result == Result::kCreated
            ? "SERVER_ERROR Out of memory allocating new item\r\n"
            : "SERVER_ERROR out of memory\r\n");
  }
  ReplyWriter& reply = command.reply;
  switch (sum.result) {
    case Result::kNotANumber:
      return command.Say(CARILLON_MEMC_NOT_A_NUMBER);
    case Result::kNotFound:
      reply.PutText("NF");
      return EndMeta(command, line);
    case Result::kOtherCas:
      reply.PutText("EX");
      return EndMeta(command, line);
    case Result::kDone:
      if (line.Has('q')) return memcached::Outcome::kSilent;
      break;
    case Result::kCreated:
      break;
  }
  if (line.Has('v')) {
    reply.PutText("VA ");
    reply.PutDecimal(sum.digit_count);
  } else {
    reply.PutText("HD");
  }
  uint32_t exptime = sum.old_exptime;
  for (uint32_t i = 0; i < line.flag_count; ++i) {
    const uint8_t flag = line.flags[i];
    switch (flag) {
      case 'c':
        PutNumberFlag(reply, 'c', sum.new_cas);
        break;
      case 't':
        PutTimeFlag(reply, exptime, command.table.now());
        break;
      case 'T':
        exptime = line.exptime;
        break;
      case 'N':
        if (sum.result == Result::kCreated) exptime = line.vivify;
        break;
      default:
        PutCommonFlag(reply, line, flag, line.binary_key);
    }
  }
  reply.PutText("\r\n");
  if (!line.Has('v')) return memcached::Outcome::kAnswered;
  reply.Put(sum.digits, sum.digit_count);
  reply.PutText("\r\n");
  return memcached::Outcome::kAnswered;
}

// me <key> [b]: what a person who looks for a mistake wants to know. As from
// memcached 1.6.18, `exp` is the seconds since the item's end, so it is below 0.
CARILLON_MEMC_CALL memcached::Outcome MetaDebug(Command& command) {
  MetaLine line;
  line.count = 1;
  bool bad = false;
  for (Token word = command.line.Next(); !word.none();
       word = command.line.Next()) {
    const uint32_t i = line.count++;
    if (i == 1) {
      line.key_length = word.length;
      if (!line.key_too_long()) {
        CopyBytes(line.key_bytes, word.data, word.length + kReadSlack);
      }
    } else if (i == 2 && word.Is("b") && !line.key_too_long()) {
      line.key_length = DecodeBase64(line.key_bytes, line.key_length);
      bad = line.key_length == 0;
    }
  }
  if (!command.line.complete()) return memcached::Outcome::kDropped;
  if (bad || line.count < 2 || line.key_too_long()) return SayBadLine(command);
  Table& table = command.table;
  Table::Count(&table.header()->rare.cmd_meta);
  const Key key = line.key();
  Set* set = table.SetOf(key.hash);
  if (!table.Share(set).ok) return memcached::Outcome::kCorrupt;
  const Found found = table.Find(set, key);
  if (found.item == nullptr) {
    UnlockShared(&set->lock);
    return command.Say("EN\r\n");
  }
  const Item* item = found.item;
  const uint32_t state = LoadRelaxed(&item->state);
  const uint32_t exptime = LoadRelaxed(&item->exptime);
  const bool fetched = LoadRelaxed(&item->fetched) != 0;
  const uint32_t idle = IdleSeconds(item, table.now());
  const uint64_t cas = item->cas;
  UnlockShared(&set->lock);
  ReplyWriter& reply = command.reply;
  reply.PutText("ME ");
  if ((state & kBinaryKey) != 0) {
    PutBase64(reply, key.data, key.length);
  } else {
    reply.Put(key.data, key.length);
  }
  reply.PutText(" exp=-");
  reply.PutDecimal(exptime == 0 ? 1 : exptime - table.now());
  reply.PutText(" la=");
  reply.PutDecimal(idle);
  reply.PutText(" cas=");
  reply.PutDecimal(cas);
  reply.PutText(" fetch=");
  if (fetched) {
    reply.PutText("yes");
  } else {
    reply.PutText("no");
  }
  const uint64_t bytes = ItemBytes(key.length, found.value_length);
  reply.PutText(" cls=");
  reply.PutDecimal(Store::ClassNumber(bytes));
  reply.PutText(" size=");
  reply.PutDecimal(bytes);
  reply.PutText("\r\n");
  return memcached::Outcome::kAnswered;
}

// mn
CARILLON_DEVICE memcached::Outcome MetaNoOp(Command& command) {
  while (!command.line.Next().none()) {
  }
  return command.line.complete() ? command.Say("MN\r\n")
                                 : memcached::Outcome::kDropped;
}

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_META_CUH_
