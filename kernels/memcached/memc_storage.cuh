// set, add, replace, append, prepend, cas, incr, decr, touch and delete.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_STORAGE_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_STORAGE_CUH_

#include <cstdint>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/memc_line.cuh"
#include "kernels/memcached/memc_request.cuh"
#include "kernels/memcached/memc_retrieve.cuh"
#include "kernels/memcached/memc_table.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

// A whole command line. Like memcached, this counts the words first and looks
// for "noreply" in the last one before it looks at any other.
struct Words {
  static constexpr uint32_t kNumbers = 7;

  uint32_t count = 0;           // with the verb
  bool second_is_zero = false;  // the word after the key is exactly "0"
  uint32_t key_length = 0;
  Decimal number[kNumbers];  // what each word says, as a number
  uint8_t key_bytes[memcached::kMaxKeyBytes + kReadSlack];

  CARILLON_DEVICE bool key_too_long() const {
    return key_length > memcached::kMaxKeyBytes;
  }
  CARILLON_DEVICE Key key() const {
    return {key_bytes, key_length, HashKey(key_bytes, key_length)};
  }
};

// Reads the rest of the line, of which the verb was the first word, and copies
// its noreply into the command. True when the line is complete and has `least`
// to `most` words. Otherwise *outcome is the result; a line with too few or too
// many words is answered even if it says noreply.
CARILLON_MEMC_CALL bool ParseLine(Command& command, uint32_t least,
                                  uint32_t most, Words* words,
                                  memcached::Outcome* outcome) {
  LineReader& line = command.line;
  bool noreply = false;
  words->count = 1;
  for (Token word = line.Next(); !word.none(); word = line.Next()) {
    const uint32_t i = words->count++;
    if (i == 1) {
      words->key_length = word.length;
      if (!words->key_too_long()) {
        CopyBytes(words->key_bytes, word.data, word.length + kReadSlack);
      }
    }
    if (i < Words::kNumbers) {
      words->number[i] = ParseDecimal(word.data, word.length);
    }
    if (i == 2) words->second_is_zero = word.Is("0");
    noreply = word.Is("noreply");
  }
  if (!line.complete()) {
    *outcome = memcached::Outcome::kDropped;
    return false;
  }
  if (words->count < least || words->count > most) {
    *outcome = command.Say("ERROR\r\n");
    return false;
  }
  command.noreply = noreply;
  return true;
}

CARILLON_DEVICE memcached::Outcome SayBadLine(Command& command) {
  return command.Say("CLIENT_ERROR bad command line format\r\n");
}

// ParseLine() for a command whose first argument is a key.
CARILLON_DEVICE bool ParseKeyLine(Command& command, uint32_t least,
                                  uint32_t most, Words* words,
                                  memcached::Outcome* outcome) {
  if (!ParseLine(command, least, most, words, outcome)) return false;
  if (!words->key_too_long()) return true;
  *outcome = SayBadLine(command);
  return false;
}

// Whether strtoul would read it correctly: no sign, 64 bits at most.
CARILLON_DEVICE bool IsUnsigned(const Decimal& number, uint64_t most) {
  return number.ok && number.magnitude <= most &&
         !(number.negative && number.magnitude != 0);
}

enum class StoreMode : uint8_t {
  kSet,
  kAdd,
  kReplace,
  kAppend,
  kPrepend,
  kCas
};

struct StoreRequest {
  StoreMode mode;
  Key key;
  uint32_t flags;
  uint32_t exptime;
  const uint8_t* data;  // in the request; the device may change it
  uint32_t length;
  uint64_t cas;
};

// Writes a new item's header and key; returns where its value goes, or nullptr
// if the block is not in the store.
CARILLON_MEMC_CALL uint8_t* FillItem(const Table& table, BlockRef ref,
                                     const Key& key, uint32_t flags,
                                     uint32_t exptime, uint32_t value_length) {
  uint8_t* block = table.store().At(ref, ItemBytes(key.length, value_length));
  if (block == nullptr) return nullptr;
  Item* item = reinterpret_cast<Item*>(block);
  simt::StoreRelaxed(&item->hash, key.hash);
  simt::StoreRelaxed(&item->lengths, PackLengths(key.length, value_length));
  item->flags = flags;
  simt::StoreRelaxed(&item->exptime, exptime);
  item->stored = table.now();
  CopyBytes(block + sizeof(Item), key.data, key.length);
  return block + sizeof(Item) + key.length;
}

CARILLON_MEMC_CALL void DropKey(Table& table, const Key& key) {
  Set* set = table.SetOf(key.hash);
  if (!table.Exclude(set).ok) return;
  const Found found = table.FindAny(set, key);
  if (found.item != nullptr) table.Remove(set, found.way);
  UnlockExclusive(&set->lock);
}

// Whether an item was stored; if not, whether its key has an item.
enum class StoreResult : uint8_t { kStored, kExists, kMissing };

CARILLON_DEVICE memcached::Outcome SayStored(Command& command, StoreMode mode,
                                             StoreResult result) {
  if (mode != StoreMode::kCas) {
    return command.Say(result == StoreResult::kStored ? "STORED\r\n"
                                                      : "NOT_STORED\r\n");
  }
  RareCounters* rare = &command.table.header()->rare;
  switch (result) {
    case StoreResult::kStored:
      Table::Count(&rare->cas_hits);
      return command.Say("STORED\r\n");
    case StoreResult::kExists:
      Table::Count(&rare->cas_badval);
      return command.Say("EXISTS\r\n");
    default:
      Table::Count(&rare->cas_misses);
      return command.Say("NOT_FOUND\r\n");
  }
}

// set, add, replace and cas. The value is copied before the set is locked.
CARILLON_DEVICE memcached::Outcome StoreItem(Command& command,
                                             const StoreRequest& request) {
  Table& table = command.table;
  const Key& key = request.key;
  Set* set = table.SetOf(key.hash);
  if (request.mode != StoreMode::kSet) {
    // A request that will be refused must not cost anybody room.
    const LockResult lock = table.Share(set);
    if (!lock.ok) return memcached::Outcome::kCorrupt;
    Item* const item = table.Find(set, key).item;
    if (item != nullptr) simt::StoreRelaxed(&item->last_access, lock.clock);
    const bool exists = item != nullptr;
    UnlockShared(&set->lock);
    if (exists == (request.mode == StoreMode::kAdd)) {
      return SayStored(command, request.mode,
                       exists ? StoreResult::kExists : StoreResult::kMissing);
    }
  }
  const BlockRef ref = table.Allocate(
      key.hash, ItemBytes(key.length, request.length),
      request.mode == StoreMode::kSet ? OwnItem::kEvict : OwnItem::kSpare);
  uint8_t* value = ref == 0 ? nullptr
                            : FillItem(table, ref, key, request.flags,
                                       request.exptime, request.length);
  if (value == nullptr) {
    Table::Count(&table.header()->rare.store_no_memory);
    // Drop the old item: no value is better than one that the client has
    // replaced.
    if (request.mode == StoreMode::kSet) DropKey(table, key);
    return command.Say("SERVER_ERROR out of memory storing object\r\n");
  }
  CopyBytes(value, request.data, request.length);

  const LockResult lock = table.Exclude(set);
  if (!lock.ok) return memcached::Outcome::kCorrupt;
  const Found found = table.FindToChange(set, key);
  const bool exists = found.item != nullptr;
  bool store = false;
  switch (request.mode) {
    case StoreMode::kAdd:
      store = !exists;
      if (exists) simt::StoreRelaxed(&found.item->last_access, lock.clock);
      break;
    case StoreMode::kReplace:
      store = exists;
      break;
    case StoreMode::kCas:
      store = exists && found.item->cas == request.cas;
      break;
    default:
      store = true;
  }
  if (store) table.Link(set, found, ref, lock.clock);
  UnlockExclusive(&set->lock);
  if (!store) table.store().Free(ref);
  return SayStored(command, request.mode,
                   store    ? StoreResult::kStored
                   : exists ? StoreResult::kExists
                            : StoreResult::kMissing);
}

// Calls change(set, lock, found, &need) under the key's exclusive lock. If it
// sets `need`, it lacked a block of that many bytes: room is made without the
// lock, and it is called again. Returns false if there is no room.
template <class Change>
CARILLON_DEVICE bool ChangeItem(Table& table, const Key& key, Change change) {
  constexpr uint32_t kMaxRounds = 8;
  Set* set = table.SetOf(key.hash);
  for (uint32_t round = 0; round < kMaxRounds; ++round) {
    const LockResult lock = table.Exclude(set);
    if (!lock.ok) return false;
    const Found found = table.FindToChange(set, key);
    uint64_t need = 0;
    change(set, lock, found, &need);
    UnlockExclusive(&set->lock);
    if (need == 0) return true;
    if (!table.EvictFor(key.hash, need, OwnItem::kSpare)) return false;
  }
  return false;
}

// append and prepend: makes a new item with both values.
struct Join {
  Table& table;
  const StoreRequest& request;
  bool joined = false;

  CARILLON_DEVICE void operator()(Set* set, const LockResult& lock,
                                  const Found& found, uint64_t* need) {
    joined = false;
    if (found.item == nullptr) return;
    const uint64_t length = uint64_t{found.value_length} + request.length;
    if (length > memcached::kMaxValueBytes) return;  // memcached: NOT_STORED
    const uint64_t bytes = ItemBytes(request.key.length, length);
    const BlockRef ref = table.store().Allocate(bytes);
    uint8_t* value = ref == 0
                         ? nullptr
                         : FillItem(table, ref, request.key, found.item->flags,
                                    simt::LoadRelaxed(&found.item->exptime),
                                    static_cast<uint32_t>(length));
    if (value == nullptr) {
      // Count this as a use, so that room is made at the expense of others.
      simt::StoreRelaxed(&found.item->last_access, lock.clock);
      *need = bytes;
      return;
    }
    const bool append = request.mode == StoreMode::kAppend;
    CopyBytes(append ? value : value + request.length, found.value,
              found.value_length);
    CopyBytes(append ? value + found.value_length : value, request.data,
              request.length);
    table.Link(set, found, ref, lock.clock);
    joined = true;
  }
};

CARILLON_DEVICE memcached::Outcome JoinItem(Command& command,
                                            const StoreRequest& request) {
  Join join{command.table, request};
  if (!ChangeItem<Join&>(command.table, request.key, join)) {
    Table::Count(&command.table.header()->rare.store_no_memory);
    return command.Say("SERVER_ERROR out of memory storing object\r\n");
  }
  return SayStored(command, request.mode,
                   join.joined ? StoreResult::kStored : StoreResult::kMissing);
}

// <verb> <key> <flags> <exptime> <bytes> [<cas unique>] [noreply]\r\n<data>\r\n
//
// The data block must end where the line says: a request is a whole command, so
// no later datagram can complete it. Bytes behind it are ignored: one datagram,
// one command. (Debian's memcached answers a second command in a datagram of
// its own, with the same id, "0 of 1": no client can tell the two apart.)
CARILLON_DEVICE memcached::Outcome Storage(Command& command, StoreMode mode) {
  constexpr uint32_t kMaxLength = 0x7fffffff - 2;
  Words words;
  memcached::Outcome outcome;
  const uint32_t least = mode == StoreMode::kCas ? 6 : 5;
  if (!ParseKeyLine(command, least, least + 1, &words, &outcome)) {
    return outcome;
  }
  const Decimal& length = words.number[4];
  if (!IsUnsigned(words.number[2], 0xffffffff) ||
      !FitsSigned(words.number[3]) || !IsUnsigned(length, kMaxLength) ||
      (mode == StoreMode::kCas && !IsUnsigned(words.number[5], ~uint64_t{0}))) {
    return SayBadLine(command);
  }
  Table& table = command.table;
  if (length.magnitude > memcached::kMaxValueBytes) {
    Table::Count(&table.header()->rare.store_too_large);
    if (mode == StoreMode::kSet) DropKey(table, words.key());
    return command.Say("SERVER_ERROR object too large for cache\r\n");
  }
  const StoreRequest request{
      mode,
      words.key(),
      static_cast<uint32_t>(words.number[2].magnitude),
      ResolveExptime(words.number[3], table.now()),
      command.text + command.line.line_bytes(),
      static_cast<uint32_t>(length.magnitude),
      mode == StoreMode::kCas ? words.number[5].magnitude : 0};
  // line_bytes() <= command.length, as the line is complete.
  const uint32_t rest = command.length - command.line.line_bytes();
  Table::Count(&table.counters(request.key.hash)->cmd_set);
  if (rest < request.length + 2 || request.data[request.length] != '\r' ||
      request.data[request.length + 1] != '\n') {
    return command.Say("CLIENT_ERROR bad data chunk\r\n");
  }
  if (mode == StoreMode::kAppend || mode == StoreMode::kPrepend) {
    return JoinItem(command, request);
  }
  return StoreItem(command, request);
}

// incr and decr. The value changes in place if the digits fit.
struct Arithmetic {
  Table& table;
  Key key;
  bool increment;
  uint64_t delta;
  enum class Result : uint8_t { kNotFound, kNotANumber, kDone } result{};
  uint8_t digits[kMaxDecimalDigits]{};
  uint32_t digit_count = 0;

  CARILLON_DEVICE void operator()(Set* set, const LockResult& lock,
                                  const Found& found, uint64_t* need) {
    result = Result::kNotFound;
    if (found.item == nullptr) return;
    result = Result::kNotANumber;
    const Decimal number = ParseDecimal(found.value, found.value_length);
    if (!IsUnsigned(number, ~uint64_t{0})) return;
    uint64_t value = number.magnitude;
    if (increment) {
      value += delta;  // wraps at 2^64, as protocol.txt says
    } else {
      value = delta > value ? 0 : value - delta;
    }
    digit_count = FormatDecimal(value, digits);
    result = Result::kDone;
    Item* item = found.item;
    if (digit_count <= found.value_length) {
      // The length stays ("the number may be padded with spaces").
      CopyBytes(found.value, digits, digit_count);
      for (uint32_t i = digit_count; i < found.value_length; ++i) {
        found.value[i] = ' ';
      }
      item->cas = table.NextCas();
      item->stored = table.now();
      simt::StoreRelaxed(&item->last_access, lock.clock);
      return;
    }
    const uint64_t bytes = ItemBytes(key.length, digit_count);
    const BlockRef ref = table.store().Allocate(bytes);
    uint8_t* to =
        ref == 0 ? nullptr
                 : FillItem(table, ref, key, item->flags,
                            simt::LoadRelaxed(&item->exptime), digit_count);
    if (to == nullptr) {
      simt::StoreRelaxed(&item->last_access, lock.clock);
      *need = bytes;
      return;
    }
    CopyBytes(to, digits, digit_count);
    table.Link(set, found, ref, lock.clock);
  }
};

// incr|decr <key> <value> [noreply]
CARILLON_DEVICE memcached::Outcome IncrementOrDecrement(Command& command,
                                                        bool increment) {
  Words words;
  memcached::Outcome outcome;
  if (!ParseKeyLine(command, 3, 4, &words, &outcome)) return outcome;
  if (!IsUnsigned(words.number[2], ~uint64_t{0})) {
    return command.Say("CLIENT_ERROR invalid numeric delta argument\r\n");
  }
  Table& table = command.table;
  RareCounters* rare = &table.header()->rare;
  Arithmetic sum{table, words.key(), increment, words.number[2].magnitude};
  if (!ChangeItem<Arithmetic&>(table, sum.key, sum)) {
    return command.Say("SERVER_ERROR out of memory\r\n");
  }
  switch (sum.result) {
    case Arithmetic::Result::kNotFound:
      Table::Count(increment ? &rare->incr_misses : &rare->decr_misses);
      return command.Say("NOT_FOUND\r\n");
    case Arithmetic::Result::kNotANumber:
      return command.Say(
          "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    default:
      break;
  }
  Table::Count(increment ? &rare->incr_hits : &rare->decr_hits);
  if (command.noreply) return memcached::Outcome::kSilent;
  command.reply.Put(sum.digits, sum.digit_count);
  command.reply.PutText("\r\n");
  return memcached::Outcome::kAnswered;
}

// touch <key> <exptime> [noreply]
CARILLON_DEVICE memcached::Outcome Touch(Command& command) {
  Words words;
  memcached::Outcome outcome;
  if (!ParseKeyLine(command, 3, 4, &words, &outcome)) return outcome;
  if (!FitsSigned(words.number[2])) {
    return command.Say("CLIENT_ERROR invalid exptime argument\r\n");
  }
  Table& table = command.table;
  const Key key = words.key();
  Set* set = table.SetOf(key.hash);
  const LockResult lock = table.Share(set);
  if (!lock.ok) return memcached::Outcome::kCorrupt;
  const Found found = table.Find(set, key);
  if (found.item != nullptr) {
    simt::StoreRelaxed(&found.item->exptime,
                       ResolveExptime(words.number[2], table.now()));
    simt::StoreRelaxed(&found.item->last_access, lock.clock);
  }
  UnlockShared(&set->lock);
  if (found.item == nullptr) {
    Table::Count(&table.header()->rare.touch_misses);
    return command.Say("NOT_FOUND\r\n");
  }
  Table::Count(&table.counters(key.hash)->touch_hits);
  return command.Say("TOUCHED\r\n");
}

// delete <key> [0] [noreply]
CARILLON_DEVICE memcached::Outcome Delete(Command& command) {
  Words words;
  memcached::Outcome outcome;
  if (!ParseLine(command, 2, 4, &words, &outcome)) return outcome;
  if (words.count == 2) command.noreply = false;  // it is the key's name
  if ((words.count == 3 && !words.second_is_zero && !command.noreply) ||
      (words.count == 4 && !(words.second_is_zero && command.noreply))) {
    return command.Say(
        "CLIENT_ERROR bad command line format.  "
        "Usage: delete <key> [noreply]\r\n");
  }
  if (words.key_too_long()) return SayBadLine(command);
  Table& table = command.table;
  const Key key = words.key();
  Set* set = table.SetOf(key.hash);
  if (!table.Exclude(set).ok) return memcached::Outcome::kCorrupt;
  const Found found = table.FindToChange(set, key);
  if (found.item != nullptr) table.Remove(set, found.way);
  UnlockExclusive(&set->lock);
  RareCounters* rare = &table.header()->rare;
  Table::Count(found.item != nullptr ? &rare->delete_hits
                                     : &rare->delete_misses);
  return found.item != nullptr ? command.Say("DELETED\r\n")
                               : command.Say("NOT_FOUND\r\n");
}

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_STORAGE_CUH_
