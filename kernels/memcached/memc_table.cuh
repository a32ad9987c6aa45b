// The hash table of the memcached kernels (MemcachedGPU, thesis 4.2.2), in GPU
// memory, and the items in the value store that it points to.
//
// Concepts
//   set     128 bytes: a lock, and 16 ways of an 8-bit key hash and a block of
//           the value store. A key's set is hash % sets.
//   item    the block: header, key, value. Unlike the thesis's, the table holds
//           no keys: then a table of any key size is small, and the line that a
//           GET reads for the key brings the value along.
//   hash8   the hash's highest byte; the thesis says only "a small 8-bit hash".
//           The lowest would say little: with 2^k sets all keys of a set share
//           their k lowest bits.
//   LRU     per set; the item's timestamp is the clock in the set's lock.
//
//   0        64       128        256                 1280
//   +--------+--------+----------+-------------------+-------+-------+-- -  -
//   | header | cas    | rare     | 16 x counters     | set 0 | set 1 |
//   |        |        | counters | (one line each)   |       |       |
//   +--------+--------+----------+-------------------+-------+-------+-- -  -
//
// All zeros is the empty table.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_TABLE_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_TABLE_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/memc_lock.cuh"
#include "kernels/memcached/memc_store.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

enum ItemState : uint32_t {
  // A client has marked the item as out of date ("md I", or "ms I" with an
  // older cas).
  kStale = 1,
  // Some client was told to renew the item ("W"); nobody else is.
  kWon = 2,
  // The key came in base64 and goes out so.
  kBinaryKey = 4,
};

//   0      4        8     16        20      24        28       32        36
//   +------+--------+-----+---------+-------+---------+--------+---------+-- -
//   | hash | last   | cas | lengths | flags | exptime | stored | fetched |
//   |      | access |     |         |       |         |        |         |
//   +------+--------+-----+---------+-------+---------+--------+---------+-- -
//
//    36      40    .       .
//   -+-------+-----+-------+
//    | state | key | value |
//   -+-------+-----+-------+
struct Item {
  uint32_t hash;         // the key's hash; readable without a lock
  uint32_t last_access;  // the set's clock; GETs write it under a shared lock
  uint64_t cas;
  uint32_t lengths;  // PackLengths(key, value)
  uint32_t flags;    // the client's
  uint32_t exptime;  // seconds since 1970; 0: never. GATs write it, too
  uint32_t stored;   // when, seconds since 1970
  uint32_t fetched;  // when last, seconds since 1970; 0: never. GETs write it
  uint32_t state;    // ItemState; GETs add kWon
};
static_assert(sizeof(Item) == 40);
static_assert(offsetof(Item, cas) == 8);

CARILLON_HOST_DEVICE constexpr uint32_t PackLengths(uint32_t key,
                                                    uint32_t value) {
  return key << 24 | value;
}
CARILLON_HOST_DEVICE constexpr uint32_t KeyLength(uint32_t lengths) {
  return lengths >> 24;
}
CARILLON_HOST_DEVICE constexpr uint32_t ValueLength(uint32_t lengths) {
  return lengths & 0xffffff;
}
CARILLON_HOST_DEVICE constexpr uint64_t ItemBytes(uint32_t key_length,
                                                  uint64_t value_length) {
  return sizeof(Item) + key_length + value_length;
}

inline constexpr uint32_t kWays = memcached::kTableWays;

//   0      8          24         64        128
//   +------+----------+----------+---------+
//   | lock | hash8 x16| reserved | ref x16 |
//   +------+----------+----------+---------+
struct alignas(128) Set {
  uint64_t lock;
  uint8_t hash8[kWays];
  uint8_t reserved[40];
  BlockRef ref[kWays];  // 0: the way is free
};
static_assert(sizeof(Set) == memcached::kTableSetBytes);
static_assert(offsetof(Set, ref) == 64);

// Every request counts here, so the counters are striped over cache lines. Only
// sums mean anything.
struct alignas(64) Counters {
  uint64_t get_hits;
  uint64_t get_misses;
  uint64_t cmd_set;
  uint64_t linked;      // items ever put into the table
  uint64_t unlinked;    // items ever taken out
  uint64_t bytes;       // key, value and header of the items in it
  uint64_t evictions;   // unlinked to make room
  uint64_t touch_hits;  // gat, gats and touch
};
static_assert(sizeof(Counters) == 64);
inline constexpr uint32_t kStripes = 16;

struct alignas(128) RareCounters {
  uint64_t cmd_flush;
  uint64_t touch_misses;
  uint64_t delete_hits;
  uint64_t delete_misses;
  uint64_t incr_hits;
  uint64_t incr_misses;
  uint64_t decr_hits;
  uint64_t decr_misses;
  uint64_t cas_hits;
  uint64_t cas_misses;
  uint64_t cas_badval;
  uint64_t store_too_large;
  uint64_t store_no_memory;
  uint64_t cmd_meta;  // me
};
static_assert(sizeof(RareCounters) == 128);

struct TableHeader {
  // As StoreHeader::stamp.
  uint64_t stamp;
  // flush_all: items with a cas up to flush_cas are dead. So are items stored
  // before the second in the low half of flush_times, and, once it has come,
  // those stored before the second in the high half (0: none is due).
  uint64_t flush_cas;
  uint64_t flush_times;
  // 1: the memory may outlive a kernel that is cut short (memc_recover), so no
  // item's value may change in place.
  uint64_t durable;
  uint64_t reserved[4];
  alignas(64) uint64_t last_cas;
  alignas(128) RareCounters rare;
  alignas(64) Counters counters[kStripes];
};
static_assert(offsetof(TableHeader, last_cas) == 64);
static_assert(offsetof(TableHeader, rare) == 128);
static_assert(offsetof(TableHeader, counters) == 256);
static_assert(sizeof(TableHeader) == memcached::kTableHeaderBytes);

inline constexpr uint64_t kMinTableBytes = sizeof(TableHeader) + sizeof(Set);

struct Key {
  const uint8_t* data;
  uint32_t length;
  uint32_t hash;
};

// The item under a key; item is nullptr if there is none. Valid while the set
// is locked. `value` and `value_length` stay inside of the store, whatever the
// item says later.
struct Found {
  Item* item;
  uint8_t* value;
  uint32_t value_length;
  uint32_t way;
};

// Whether making room for a key may evict the key's own item. A set replaces
// that item; all other commands need it.
enum class OwnItem : uint8_t { kEvict, kSpare };

// The table and store as one thread sees them. An operation that cannot get a
// lock or finds an impossible value condemns both; `ok` then stays false.
class Table {
 public:
  CARILLON_DEVICE Table(Span<uint8_t> memory, Span<uint8_t> store,
                        uint64_t now_s)
      : memory_(memory), store_(store), now_(ClampTime(now_s)) {
    if (memory.size >= kMinTableBytes) {
      const uint64_t sets = (memory.size - sizeof(TableHeader)) / sizeof(Set);
      sets_ = sets > 0xffffffff ? 0xffffffff : static_cast<uint32_t>(sets);
    }
  }

  // Call it first. Returns false if the memory is not these kernels' or is
  // broken.
  CARILLON_DEVICE bool Open() {
    uint64_t stamp = LoadRelaxed(&header()->stamp);
    if (stamp == 0) {
      stamp = simt::AtomicCas(&header()->stamp, uint64_t{0}, memory_.size);
      if (stamp == 0) stamp = memory_.size;
    }
    return stamp == memory_.size && store_.Open();
  }
  CARILLON_DEVICE void Condemn() {
    ok_ = false;
    StoreRelaxed(&header()->stamp, kCondemned);
  }
  CARILLON_DEVICE bool ok() const { return ok_; }

  CARILLON_DEVICE uint32_t now() const { return now_; }
  CARILLON_DEVICE uint32_t sets() const { return sets_; }
  CARILLON_DEVICE const Store& store() const { return store_; }
  CARILLON_DEVICE TableHeader* header() const {
    return reinterpret_cast<TableHeader*>(memory_.data);
  }
  CARILLON_DEVICE Counters* counters(uint32_t hash) const {
    return &header()->counters[hash % kStripes];
  }
  CARILLON_DEVICE static void Count(uint64_t* counter, uint64_t n = 1) {
    simt::AtomicAdd(counter, n);
  }

  CARILLON_DEVICE Set* SetAt(uint64_t index) const {
    return reinterpret_cast<Set*>(memory_.data + sizeof(TableHeader)) + index;
  }
  CARILLON_DEVICE Set* SetOf(uint32_t hash) const {
    return SetAt(hash % sets_);
  }
  CARILLON_DEVICE static uint8_t Hash8(uint32_t hash) {
    return static_cast<uint8_t>(hash >> 24);
  }
  CARILLON_DEVICE bool durable() const {
    return LoadRelaxed(&header()->durable) != 0;
  }

  CARILLON_DEVICE LockResult Share(Set* set) {
    const LockResult lock = LockShared(&set->lock);
    if (!lock.ok) Condemn();
    return lock;
  }
  CARILLON_DEVICE LockResult Exclude(Set* set) {
    const LockResult lock = LockExclusive(&set->lock);
    if (!lock.ok) Condemn();
    return lock;
  }

  // The key's item, dead or alive. The caller holds the set's lock.
  CARILLON_MEMC_CALL Found FindAny(Set* set, const Key& key) const {
    const uint8_t tag = Hash8(key.hash);
    for (uint32_t half = 0; half < kWays; half += 8) {
      uint64_t hits = MatchByte(Load64(set->hash8 + half), tag);
      for (; hits != 0; hits &= hits - 1) {
        const uint32_t way = half + LowestBit64(hits) / 8;
        const BlockRef ref = LoadRelaxed(&set->ref[way]);
        uint8_t* block = store_.At(ref, sizeof(Item) + key.length);
        if (block == nullptr) continue;
        Item* item = reinterpret_cast<Item*>(block);
        const uint32_t lengths = LoadRelaxed(&item->lengths);
        if (LoadRelaxed(&item->hash) != key.hash ||
            KeyLength(lengths) != key.length ||
            !EqualBytes(block + sizeof(Item), key.data, key.length) ||
            store_.At(ref, ItemBytes(key.length, ValueLength(lengths))) ==
                nullptr) {
          continue;
        }
        return {item, block + sizeof(Item) + key.length, ValueLength(lengths),
                way};
      }
    }
    return {nullptr, nullptr, 0, 0};
  }

  // Whether the item is neither expired nor flushed.
  CARILLON_DEVICE bool IsLive(const Item* item) const {
    const uint32_t exptime = LoadRelaxed(&item->exptime);
    if (exptime != 0 && exptime <= now_) return false;
    const TableHeader* head = header();
    if (item->cas <= LoadRelaxed(&head->flush_cas)) return false;
    const uint64_t times = LoadRelaxed(&head->flush_times);
    if (times == 0) return true;
    const uint32_t due = static_cast<uint32_t>(times >> 32);
    return item->stored >= static_cast<uint32_t>(times) &&
           (due == 0 || due > now_ || item->stored >= due);
  }

  CARILLON_DEVICE Found Find(Set* set, const Key& key) const {
    Found found = FindAny(set, key);
    if (found.item != nullptr && !IsLive(found.item)) found.item = nullptr;
    return found;
  }

  // Needs the exclusive lock. Returns the key's live item; removes a dead one.
  CARILLON_DEVICE Found FindToChange(Set* set, const Key& key) {
    Found found = FindAny(set, key);
    if (found.item != nullptr && !IsLive(found.item)) {
      Remove(set, found.way);
      found.item = nullptr;
    }
    return found;
  }

  // Needs the exclusive lock. Takes an item out and frees it. (No GET can still
  // be reading it, as each reads under its shared lock.)
  CARILLON_MEMC_CALL void Remove(Set* set, uint32_t way) {
    const BlockRef ref = set->ref[way];
    simt::StoreRelease(&set->ref[way], BlockRef{0});
    set->hash8[way] = 0;
    Release(ref);
  }

  // Needs the exclusive lock. Makes `ref` the key's item: in place of `old` if
  // that was found, else in a free way, else in the way of a dead item, else in
  // that of the set's least recently used one. Gives the item its cas, and
  // returns it.
  CARILLON_MEMC_CALL uint64_t Link(Set* set, const Found& old, BlockRef ref,
                                   uint32_t clock) {
    Item* item = ItemAt(ref);  // not null: the caller has written it
    const uint64_t cas = NextCas();
    item->cas = cas;
    StoreRelaxed(&item->last_access, clock);
    const uint32_t hash = LoadRelaxed(&item->hash);
    Counters* count = counters(hash);
    uint32_t way = old.item != nullptr ? old.way : FreeWay(set);
    if (way == kWays) {
      way = Victim(set, clock, 0, {});
      if (way == kWays) {
        Condemn();
        return cas;
      }
      Count(&count->evictions);
    }
    const BlockRef replaced = set->ref[way];
    // The item is whole before anybody can find it, even if this kernel is cut
    // short here (memc_recover).
    simt::StoreRelease(&set->ref[way], ref);
    set->hash8[way] = Hash8(hash);
    Count(&count->linked);
    Count(&count->bytes, BytesOf(item));
    if (replaced != 0) Release(replaced);
    return cas;
  }

  // Allocates a block for an item and evicts others if necessary; 0 if there is
  // no room. The caller holds no lock.
  CARILLON_DEVICE BlockRef Allocate(uint32_t hash, uint64_t bytes,
                                    OwnItem own) {
    BlockRef ref = store_.Allocate(bytes);
    for (uint32_t round = 0; ref == 0 && round < kMaxEvictRounds; ++round) {
      if (!EvictFor(hash, bytes, own)) break;
      ref = store_.Allocate(bytes);
    }
    return ref;
  }

  // Makes room for an item of `bytes` bytes: evicts the least recently used
  // item of that size in the key's set or one of the next sets, else whole
  // pages with all their items. Other threads may take the room first, or hold
  // what was to be evicted; then another try is worthwhile. Returns false if
  // there is nothing to evict. The caller holds no lock.
  CARILLON_MEMC_CALL bool EvictFor(uint32_t hash, uint64_t bytes, OwnItem own) {
    const Spared spared{own == OwnItem::kSpare, hash};
    if (bytes > store_.capacity()) return false;
    const uint64_t block_bytes = Store::RoundUp(bytes);
    const uint32_t probes = sets_ < kMaxProbes ? sets_ : kMaxProbes;
    for (uint32_t i = 0; i < probes && ok_; ++i) {
      Set* set = SetAt((hash % sets_ + uint64_t{i}) % sets_);
      const LockResult lock = Exclude(set);
      if (!lock.ok) return false;
      const uint32_t way = Victim(set, lock.clock, block_bytes, spared);
      if (way != kWays) {
        Count(&counters(hash)->evictions);
        Remove(set, way);
      }
      UnlockExclusive(&set->lock);
      if (way != kWays) return true;
    }
    StealPages(bytes, spared);
    return ok_;
  }

  CARILLON_DEVICE uint64_t NextCas() {
    return simt::AtomicAdd(&header()->last_cas, uint64_t{1}) + 1;
  }

  // flush_all: all present items die, now or in the second `at`.
  CARILLON_DEVICE void FlushNow() {
    simt::AtomicMax(&header()->flush_cas, LoadRelaxed(&header()->last_cas));
    SetFlushTime(0);
  }
  CARILLON_DEVICE void FlushAt(uint32_t at) { SetFlushTime(at); }

 private:
  // The items under this hash must not be evicted.
  struct Spared {
    bool any;
    uint32_t hash;
    CARILLON_DEVICE bool Has(const Item* item) const {
      return any && LoadRelaxed(&item->hash) == hash;
    }
  };

  static constexpr uint32_t kMaxEvictRounds = 8;
  static constexpr uint32_t kMaxProbes = 128;

  CARILLON_DEVICE static uint32_t ClampTime(uint64_t now_s) {
    return now_s > 0xffffffff ? 0xffffffff : static_cast<uint32_t>(now_s);
  }

  CARILLON_DEVICE void Release(BlockRef ref) {
    const Item* item = ItemAt(ref);
    if (item == nullptr) {
      Condemn();
      return;
    }
    Counters* count = counters(LoadRelaxed(&item->hash));
    Count(&count->unlinked);
    Count(&count->bytes, 0 - BytesOf(item));
    store_.Free(ref);
  }
  CARILLON_DEVICE static uint64_t BytesOf(const Item* item) {
    const uint32_t lengths = LoadRelaxed(&item->lengths);
    return ItemBytes(KeyLength(lengths), ValueLength(lengths));
  }
  CARILLON_DEVICE Item* ItemAt(BlockRef ref) const {
    return reinterpret_cast<Item*>(store_.At(ref, sizeof(Item)));
  }

  CARILLON_DEVICE uint32_t FreeWay(const Set* set) const {
    uint32_t way = 0;
    while (way < kWays && set->ref[way] != 0) ++way;
    return way;
  }

  // The way to evict from a locked set: a dead item, else the least recently
  // used one; kWays if there is none. If block_bytes is not 0, only among items
  // in blocks of that size.
  CARILLON_MEMC_CALL uint32_t Victim(const Set* set, uint32_t clock,
                                     uint64_t block_bytes,
                                     Spared spared) const {
    uint32_t victim = kWays;
    uint32_t oldest = 0;
    for (uint32_t way = 0; way < kWays; ++way) {
      const BlockRef ref = set->ref[way];
      if (ref == 0) continue;
      const Item* item = ItemAt(ref);
      if (item == nullptr) continue;
      if (block_bytes != 0 && store_.BlockBytes(ref) != block_bytes) continue;
      if (spared.Has(item)) continue;
      if (!IsLive(item)) return way;
      // The difference modulo 2^32 is right if the item was used in the set's
      // last 2^32 accesses.
      const uint32_t age = clock - LoadRelaxed(&item->last_access);
      if (victim == kWays || age > oldest) {
        victim = way;
        oldest = age;
      }
    }
    return victim;
  }

  // Evicts everything from as many consecutive pages as `bytes` needs. Without
  // a set's lock it can only guess which item a block holds, so it checks the
  // guess under the lock.
  CARILLON_DEVICE void StealPages(uint64_t bytes, Spared spared) {
    const uint32_t pages = Store::PagesFor(bytes);
    const uint32_t first = store_.NextVictimPages(pages);
    for (uint32_t page = first; page < first + pages; ++page) {
      for (uint32_t i = 0; ok_; ++i) {
        const BlockRef ref = store_.BlockOfPage(page, i);
        if (ref == 0) break;
        EvictBlock(ref, spared);
      }
    }
  }

  CARILLON_DEVICE void EvictBlock(BlockRef ref, Spared spared) {
    const Item* item = ItemAt(ref);
    if (item == nullptr) return;
    const uint32_t hash = LoadGuess(&item->hash);
    Set* set = SetOf(hash);
    if (!Exclude(set).ok) return;
    uint32_t way = 0;
    while (way < kWays && set->ref[way] != ref) ++way;
    if (way != kWays && !spared.Has(item)) {
      Count(&counters(hash)->evictions);
      Remove(set, way);
    }
    UnlockExclusive(&set->lock);
  }

  CARILLON_DEVICE void SetFlushTime(uint32_t due) {
    uint64_t* times = &header()->flush_times;
    uint64_t old = LoadRelaxed(times);
    for (uint32_t round = 0; round < kMaxLockRounds; ++round) {
      // A flush that has happened stays, whatever is due next.
      const uint32_t old_due = static_cast<uint32_t>(old >> 32);
      uint32_t past = static_cast<uint32_t>(old);
      if (old_due != 0 && old_due <= now_ && old_due > past) past = old_due;
      const uint64_t desired = uint64_t{due} << 32 | past;
      const uint64_t seen = simt::AtomicCas(times, old, desired);
      if (seen == old) return;
      old = seen;
    }
  }

  Span<uint8_t> memory_;
  Store store_;
  uint32_t sets_ = 0;
  uint32_t now_;
  bool ok_ = true;
};

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_TABLE_CUH_
