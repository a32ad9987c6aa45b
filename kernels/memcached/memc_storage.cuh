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
  // The item's cas must be this one; 0: any, except in mode kCas.
  uint64_t cas = 0;
  uint32_t state = 0;  // ItemState of a new item
  // kCas: an older cas than the item's stores, too, and leaves the item stale.
  bool stale_if_older = false;
};

// Writes a new item's header and key; returns where its value goes, or nullptr
// if the block is not in the store.
CARILLON_MEMC_CALL uint8_t* FillItem(const Table& table, BlockRef ref,
                                     const Key& key, uint32_t flags,
                                     uint32_t exptime, uint32_t state,
                                     uint32_t value_length) {
  uint8_t* block = table.store().At(ref, ItemBytes(key.length, value_length));
  if (block == nullptr) return nullptr;
  Item* item = reinterpret_cast<Item*>(block);
  simt::StoreRelaxed(&item->hash, key.hash);
  simt::StoreRelaxed(&item->lengths, PackLengths(key.length, value_length));
  item->flags = flags;
  simt::StoreRelaxed(&item->exptime, exptime);
  item->stored = table.now();
  simt::StoreRelaxed(&item->fetched, 0);
  simt::StoreRelaxed(&item->state, state);
  CopyBytes(block + sizeof(Item), key.data, key.length);
  return block + sizeof(Item) + key.length;
}

// The item whose value FillItem() has returned.
CARILLON_DEVICE Item* ItemBefore(uint8_t* value, const Key& key) {
  return reinterpret_cast<Item*>(value - key.length - sizeof(Item));
}

CARILLON_MEMC_CALL void DropKey(Table& table, const Key& key) {
  Set* set = table.SetOf(key.hash);
  if (!table.Exclude(set).ok) return;
  const Found found = table.FindAny(set, key);
  if (found.item != nullptr) table.Remove(set, found.way);
  UnlockExclusive(&set->lock);
}

// Whether an item was stored; if not, whether its key has an item.
enum class StoreResult : uint8_t { kStored, kExists, kMissing, kNoMemory };

struct Stored {
  StoreResult result;
  uint64_t cas = 0;  // the new item's
};

// Counts what a cas led to.
CARILLON_DEVICE Stored CountCas(const Table& table, StoreMode mode,
                                Stored stored) {
  if (mode != StoreMode::kCas) return stored;
  RareCounters* rare = &table.header()->rare;
  switch (stored.result) {
    case StoreResult::kStored:
      Table::Count(&rare->cas_hits);
      break;
    case StoreResult::kExists:
      Table::Count(&rare->cas_badval);
      break;
    case StoreResult::kMissing:
      Table::Count(&rare->cas_misses);
      break;
    case StoreResult::kNoMemory:
      break;
  }
  return stored;
}

// set, add, replace and cas. The value is copied before the set is locked.
CARILLON_DEVICE Stored StoreItem(Table& table, const StoreRequest& request) {
  const Key& key = request.key;
  Set* set = table.SetOf(key.hash);
  if (request.mode != StoreMode::kSet) {
    // A request that will be refused must not cost anybody room.
    const LockResult lock = table.Share(set);
    if (!lock.ok) return {StoreResult::kNoMemory};
    Item* const item = table.Find(set, key).item;
    if (item != nullptr) simt::StoreRelaxed(&item->last_access, lock.clock);
    const bool exists = item != nullptr;
    UnlockShared(&set->lock);
    if (exists == (request.mode == StoreMode::kAdd)) {
      return CountCas(table, request.mode,
                      {exists ? StoreResult::kExists : StoreResult::kMissing});
    }
  }
  const BlockRef ref = table.Allocate(
      key.hash, ItemBytes(key.length, request.length),
      request.mode == StoreMode::kSet ? OwnItem::kEvict : OwnItem::kSpare);
  uint8_t* value =
      ref == 0 ? nullptr
               : FillItem(table, ref, key, request.flags, request.exptime,
                          request.state, request.length);
  if (value == nullptr) {
    Table::Count(&table.header()->rare.store_no_memory);
    // Drop the old item: no value is better than one that the client has
    // replaced.
    if (request.mode == StoreMode::kSet) DropKey(table, key);
    return {StoreResult::kNoMemory};
  }
  CopyBytes(value, request.data, request.length);

  const LockResult lock = table.Exclude(set);
  if (!lock.ok) return {StoreResult::kNoMemory};
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
      if (exists && request.stale_if_older && request.cas != 0 &&
          request.cas < found.item->cas) {
        // It keeps the old item's end, and who was told to renew it.
        Item* item = ItemBefore(value, key);
        simt::StoreRelaxed(&item->exptime,
                           simt::LoadRelaxed(&found.item->exptime));
        simt::StoreRelaxed(
            &item->state,
            request.state | kStale |
                (simt::LoadRelaxed(&found.item->state) & uint32_t{kWon}));
        store = true;
      }
      break;
    default:
      store = true;
  }
  const uint64_t cas = store ? table.Link(set, found, ref, lock.clock) : 0;
  UnlockExclusive(&set->lock);
  if (!store) table.store().Free(ref);
  return CountCas(table, request.mode,
                  {store    ? StoreResult::kStored
                   : exists ? StoreResult::kExists
                            : StoreResult::kMissing,
                   cas});
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
  Stored stored{StoreResult::kMissing};

  CARILLON_DEVICE void operator()(Set* set, const LockResult& lock,
                                  const Found& found, uint64_t* need) {
    stored = {StoreResult::kMissing};
    if (found.item == nullptr) return;
    if (request.cas != 0 && request.cas != found.item->cas) {
      stored.result = StoreResult::kExists;
      return;
    }
    const uint64_t length = uint64_t{found.value_length} + request.length;
    if (length > memcached::kMaxValueBytes) return;  // memcached: NOT_STORED
    const uint64_t bytes = ItemBytes(request.key.length, length);
    const BlockRef ref = table.store().Allocate(bytes);
    uint8_t* value = ref == 0
                         ? nullptr
                         : FillItem(table, ref, request.key, found.item->flags,
                                    simt::LoadRelaxed(&found.item->exptime), 0,
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
    stored = {StoreResult::kStored, table.Link(set, found, ref, lock.clock)};
  }
};

CARILLON_DEVICE Stored JoinItem(Table& table, const StoreRequest& request) {
  Join join{table, request};
  if (!ChangeItem<Join&>(table, request.key, join)) {
    Table::Count(&table.header()->rare.store_no_memory);
    return {StoreResult::kNoMemory};
  }
  return join.stored;
}

// Counts a storage command and carries it out, if its data block ends where its
// line says. A request is a whole command, so no later datagram can complete
// it. Bytes behind it are ignored: one datagram, one command. (Debian's
// memcached answers a second command in a datagram of its own, with the same
// id, "0 of 1": no client can tell the two apart.) Returns false if the block
// is cut wrongly.
CARILLON_MEMC_CALL bool StoreData(Command& command, StoreRequest& request,
                                  Stored* stored) {
  Table& table = command.table;
  // line_bytes() <= command.length, as the line is complete.
  request.data = command.text + command.line.line_bytes();
  const uint32_t rest = command.length - command.line.line_bytes();
  Table::Count(&table.counters(request.key.hash)->cmd_set);
  if (rest < request.length + 2 || request.data[request.length] != '\r' ||
      request.data[request.length + 1] != '\n') {
    return false;
  }
  const bool join =
      request.mode == StoreMode::kAppend || request.mode == StoreMode::kPrepend;
  *stored = join ? JoinItem(table, request) : StoreItem(table, request);
  return true;
}

inline constexpr uint32_t kMaxStatedLength = 0x7fffffff - 2;

// <verb> <key> <flags> <exptime> <bytes> [<cas unique>] [noreply]\r\n<data>\r\n
CARILLON_MEMC_CALL memcached::Outcome Storage(Command& command,
                                              StoreMode mode) {
  Words words;
  memcached::Outcome outcome;
  const uint32_t least = mode == StoreMode::kCas ? 6 : 5;
  if (!ParseKeyLine(command, least, least + 1, &words, &outcome)) {
    return outcome;
  }
  const Decimal& length = words.number[4];
  if (!IsUnsigned(words.number[2], 0xffffffff) ||
      !FitsSigned(words.number[3]) || !IsUnsigned(length, kMaxStatedLength) ||
      (mode == StoreMode::kCas && !IsUnsigned(words.number[5], ~uint64_t{0}))) {
    return SayBadLine(command);
  }
  Table& table = command.table;
  if (length.magnitude > memcached::kMaxValueBytes) {
    Table::Count(&table.header()->rare.store_too_large);
    if (mode == StoreMode::kSet) DropKey(table, words.key());
    return command.Say("SERVER_ERROR object too large for cache\r\n");
  }
  StoreRequest request{mode,
                       words.key(),
                       static_cast<uint32_t>(words.number[2].magnitude),
                       ResolveExptime(words.number[3], table.now()),
                       nullptr,
                       static_cast<uint32_t>(length.magnitude)};
  if (mode == StoreMode::kCas) request.cas = words.number[5].magnitude;
  Stored stored{};
  if (!StoreData(command, request, &stored)) {
    return command.Say("CLIENT_ERROR bad data chunk\r\n");
  }
  switch (stored.result) {
    case StoreResult::kStored:
      return command.Say("STORED\r\n");
    case StoreResult::kNoMemory:
      return command.Say("SERVER_ERROR out of memory storing object\r\n");
    case StoreResult::kExists:
      return command.Say(mode == StoreMode::kCas ? "EXISTS\r\n"
                                                 : "NOT_STORED\r\n");
    default:
      return command.Say(mode == StoreMode::kCas ? "NOT_FOUND\r\n"
                                                 : "NOT_STORED\r\n");
  }
}

// incr, decr and ma. The value changes in place if the digits fit.
struct Arithmetic {
  Table& table;
  Key key;
  bool increment;
  uint64_t delta;
  uint64_t cas = 0;  // the item's must be this one; 0: any
  // Without an item: makes one with `initial`.
  bool create = false;
  uint64_t initial = 0;
  uint32_t created_exptime = 0;
  bool set_exptime = false;
  uint32_t exptime = 0;

  enum class Result : uint8_t {
    kNotFound,
    kNotANumber,
    kOtherCas,
    kDone,
    kCreated
  } result{};
  uint8_t digits[kMaxDecimalDigits]{};
  uint32_t digit_count = 0;
  uint64_t new_cas = 0;
  uint32_t old_exptime = 0;

  CARILLON_DEVICE void operator()(Set* set, const LockResult& lock,
                                  const Found& found, uint64_t* need) {
    Item* item = found.item;
    if (item == nullptr) {
      result = Result::kNotFound;
      if (!create) return;
      result = Result::kCreated;
      old_exptime = 0;
      digit_count = FormatDecimal(initial, digits);
      Replace(set, lock, found, 0, created_exptime, digit_count, need);
      return;
    }
    result = Result::kNotANumber;
    if (found.value_length == 0) return;
    if (cas != 0 && item->cas != cas) {
      result = Result::kOtherCas;
      return;
    }
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
    old_exptime = simt::LoadRelaxed(&item->exptime);
    const uint32_t until = set_exptime ? exptime : old_exptime;
    if (digit_count > found.value_length) {
      Replace(set, lock, found, item->flags, until, digit_count, need);
      return;
    }
    // The length stays ("the number may be padded with spaces").
    if (table.durable()) {
      Replace(set, lock, found, item->flags, until, found.value_length, need);
      return;
    }
    CopyBytes(found.value, digits, digit_count);
    for (uint32_t i = digit_count; i < found.value_length; ++i) {
      found.value[i] = ' ';
    }
    item->cas = table.NextCas();
    new_cas = item->cas;
    item->stored = table.now();
    simt::StoreRelaxed(&item->exptime, until);
    simt::StoreRelaxed(&item->last_access, lock.clock);
  }

  // Makes an item of the digits, padded with spaces to `length`.
  CARILLON_DEVICE void Replace(Set* set, const LockResult& lock,
                               const Found& found, uint32_t flags,
                               uint32_t until, uint32_t length,
                               uint64_t* need) {
    const uint64_t bytes = ItemBytes(key.length, length);
    const BlockRef ref = table.store().Allocate(bytes);
    uint8_t* to =
        ref == 0 ? nullptr : FillItem(table, ref, key, flags, until, 0, length);
    if (to == nullptr) {
      if (found.item != nullptr) {
        simt::StoreRelaxed(&found.item->last_access, lock.clock);
      }
      *need = bytes;
      return;
    }
    CopyBytes(to, digits, digit_count);
    for (uint32_t i = digit_count; i < length; ++i) to[i] = ' ';
    if (found.item != nullptr && length == found.value_length) {
      // In place of a change in place: all else stays as it is.
      Item* item = ItemBefore(to, key);
      simt::StoreRelaxed(&item->fetched,
                         simt::LoadRelaxed(&found.item->fetched));
      simt::StoreRelaxed(&item->state, simt::LoadRelaxed(&found.item->state));
    }
    new_cas = table.Link(set, found, ref, lock.clock);
  }
};

// Returns false if there is no room.
CARILLON_MEMC_CALL bool Calculate(Table& table, Arithmetic* sum) {
  if (!ChangeItem<Arithmetic&>(table, sum->key, *sum)) return false;
  RareCounters* rare = &table.header()->rare;
  if (sum->result == Arithmetic::Result::kDone) {
    Table::Count(sum->increment ? &rare->incr_hits : &rare->decr_hits);
  } else if (sum->result == Arithmetic::Result::kNotFound) {
    Table::Count(sum->increment ? &rare->incr_misses : &rare->decr_misses);
  }
  return true;
}

#define CARILLON_MEMC_NOT_A_NUMBER \
  "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"

// incr|decr <key> <value> [noreply]
CARILLON_MEMC_CALL memcached::Outcome IncrementOrDecrement(Command& command,
                                                           bool increment) {
  Words words;
  memcached::Outcome outcome;
  if (!ParseKeyLine(command, 3, 4, &words, &outcome)) return outcome;
  if (!IsUnsigned(words.number[2], ~uint64_t{0})) {
    return command.Say("CLIENT_ERROR invalid numeric delta argument\r\n");
  }
  Arithmetic sum{command.table, words.key(), increment,
                 words.number[2].magnitude};
  if (!Calculate(command.table, &sum)) {
    return command.Say("SERVER_ERROR out of memory\r\n");
  }
  if (sum.result == Arithmetic::Result::kNotFound) {
    return command.Say("NOT_FOUND\r\n");
  }
  if (sum.result == Arithmetic::Result::kNotANumber) {
    return command.Say(CARILLON_MEMC_NOT_A_NUMBER);
  }
  if (command.noreply) return memcached::Outcome::kSilent;
  command.reply.Put(sum.digits, sum.digit_count);
  command.reply.PutText("\r\n");
  return memcached::Outcome::kAnswered;
}

// touch <key> <exptime> [noreply]
CARILLON_MEMC_CALL memcached::Outcome Touch(Command& command) {
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
    simt::StoreRelaxed(&found.item->fetched, table.now());
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
CARILLON_MEMC_CALL memcached::Outcome Delete(Command& command) {
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
