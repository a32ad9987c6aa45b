// The value store of the memcached kernels: memory for items, in GPU memory.
//
// Concepts
//   block   memory for one item, a multiple of 64 bytes, named by its distance
//           from the store's start in units of 64 bytes (BlockRef); 0 is
//           "none".
//   page    64 KiB. A page holds blocks of one size class, or is part of a run.
//   run     consecutive pages that are one block, for items above 32 KiB.
//   class   one of 32 block sizes, four to a doubling, so that at most a fifth
//           of a large block is lost. A page whose last block is freed can
//           become a page of any other class.
//
//   0         64           1088            data_offset
//   +---------+------------+---------------+--------+--------+-- -  -
//   | header  | 32 classes | page records  | page 0 | page 1 |
//   +---------+------------+---------------+--------+--------+-- -  -
//
// All zeros is the empty store. Whatever the memory holds, nothing here reads
// or writes outside of it; what cannot be this file's work condemns the store.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_STORE_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_STORE_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/memc_lock.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

using simt::Span;
using simt::StoreRelaxed;

using BlockRef = uint32_t;

inline constexpr uint64_t kBlockUnit = 64;
inline constexpr uint64_t kPageBytes = 65536;
inline constexpr uint32_t kClasses = 32;
inline constexpr uint64_t kMaxClassBytes = 32768;
// BlockRef has 32 bits.
inline constexpr uint64_t kMaxStoreBytes = kBlockUnit << 32;

struct StoreHeader {
  // The size of the store; 0 until its first use, kCondemned once it is found
  // broken.
  uint64_t stamp;
  uint64_t pool_lock;  // for the rest of this line and every PageRecord::kind
  uint64_t used_pages;
  uint64_t hint;  // no page below is free
  uint64_t hand;  // where the next theft of a page begins
  uint64_t reserved[3];
};
static_assert(sizeof(StoreHeader) == 64);

inline constexpr uint64_t kCondemned = ~uint64_t{0};

struct ClassRecord {
  uint64_t lock;     // for this record and the records of its pages
  uint32_t partial;  // first page with a block to give, + 1; 0: none
  uint32_t reserved[5];
};
static_assert(sizeof(ClassRecord) == 32);

inline constexpr uint32_t kPageFree = 0;
// 1..kClasses: a page of class kind - 1.
inline constexpr uint32_t kPageRunHead = 0x100;
inline constexpr uint32_t kPageRunTail = 0x101;

struct PageRecord {
  uint32_t kind;
  uint32_t used;    // blocks of a class page; pages of a run, in its head
  uint32_t free;    // number of the first free block of a class page, + 1
  uint32_t carved;  // blocks that have ever been given out
  uint32_t next;    // neighbours in the class's list of pages with a block to
  uint32_t prev;    // give: page + 1, or 0
  uint32_t head;    // the run's first page, in its other pages
  uint32_t listed;  // 1: in that list
};
static_assert(sizeof(PageRecord) == 32);

inline constexpr uint64_t kPageTableOffset =
    sizeof(StoreHeader) + kClasses * sizeof(ClassRecord);

// A class by the size it must hold, in units of 64 bytes, 1..512.
CARILLON_HOST_DEVICE constexpr uint32_t ClassOf(uint32_t units) {
  if (units <= 8) return units - 1;
  uint32_t log = 3;
  while (((units - 1) >> log) > 1) ++log;
  const uint32_t shift = log - 2;
  return 8 + (log - 3) * 4 + ((units - 1) >> shift) - 4;
}

CARILLON_HOST_DEVICE constexpr uint32_t ClassUnits(uint32_t index) {
  if (index < 8) return index + 1;
  return ((index - 8) % 4 + 5) << ((index - 8) / 4 + 1);
}
static_assert(ClassOf(9) == 8 && ClassUnits(8) == 10);
static_assert(ClassOf(512) == kClasses - 1 && ClassUnits(kClasses - 1) == 512);

// The store as one thread sees it, derived from the span alone.
class Store {
 public:
  CARILLON_HOST_DEVICE explicit Store(Span<uint8_t> memory) : memory_(memory) {
    if (memory.size < kPageTableOffset || memory.size > kMaxStoreBytes) return;
    const uint64_t rest = memory.size - kPageTableOffset;
    pages_ = static_cast<uint32_t>(rest / (kPageBytes + sizeof(PageRecord)));
    data_offset_ = Align(kPageTableOffset + pages_ * sizeof(PageRecord));
    if (pages_ != 0 && data_offset_ + pages_ * kPageBytes > memory.size) {
      --pages_;
    }
  }

  // Whether it has room for at least one page.
  CARILLON_HOST_DEVICE bool usable() const { return pages_ != 0; }
  CARILLON_HOST_DEVICE uint32_t pages() const { return pages_; }
  CARILLON_HOST_DEVICE uint64_t capacity() const { return pages_ * kPageBytes; }

  // Returns false if the memory is another store's, or condemned.
  CARILLON_DEVICE bool Open() const {
    uint64_t stamp = LoadRelaxed(&header()->stamp);
    if (stamp == 0) {
      stamp = simt::AtomicCas(&header()->stamp, uint64_t{0}, memory_.size);
      if (stamp == 0) stamp = memory_.size;
    }
    return stamp == memory_.size;
  }
  CARILLON_DEVICE void Condemn() const {
    StoreRelaxed(&header()->stamp, kCondemned);
  }

  // The first `bytes` bytes of a block, or nullptr if they are not all inside
  // of the pages.
  CARILLON_DEVICE uint8_t* At(BlockRef ref, uint64_t bytes) const {
    const uint64_t begin = ref * kBlockUnit;
    if (begin < data_offset_ || !memory_.InBounds(begin, bytes)) return nullptr;
    return memory_.data + begin;
  }

  // Allocates a block of at least `bytes` bytes; 0 on failure. The caller holds
  // none of the store's locks.
  CARILLON_MEMC_CALL BlockRef Allocate(uint64_t bytes) const {
    if (bytes > kMaxClassBytes) {
      const uint32_t pages = PagesFor(bytes);
      const uint32_t page = TakePages(pages, kPageRunHead);
      return page == pages_ ? 0 : RefOfPage(page);
    }
    const uint32_t index =
        ClassOf(static_cast<uint32_t>((bytes + kBlockUnit - 1) / kBlockUnit));
    ClassRecord* record = classes() + index;
    if (!LockSpin(&record->lock)) return Condemned();
    const BlockRef ref = AllocateLocked(record, index);
    UnlockSpin(&record->lock);
    return ref;
  }

  // Frees a block. No other thread may still know of it.
  CARILLON_MEMC_CALL void Free(BlockRef ref) const {
    const uint64_t begin = ref * kBlockUnit;
    if (begin < data_offset_ || begin - data_offset_ >= capacity()) {
      Condemn();
      return;
    }
    const uint32_t page =
        static_cast<uint32_t>((begin - data_offset_) / kPageBytes);
    const uint32_t kind = LoadRelaxed(&table()[page].kind);
    if (kind == kPageRunHead) {
      ReleasePages(page, table()[page].used);
      return;
    }
    if (kind == kPageFree || kind > kClasses) {
      Condemn();
      return;
    }
    ClassRecord* record = classes() + (kind - 1);
    if (!LockSpin(&record->lock)) {
      Condemn();
      return;
    }
    FreeLocked(record, kind - 1, page, begin);
    UnlockSpin(&record->lock);
  }

  // How many bytes the block of an item holds; 0 for a bad ref.
  CARILLON_DEVICE uint64_t BlockBytes(BlockRef ref) const {
    const uint64_t begin = ref * kBlockUnit;
    if (begin < data_offset_ || begin - data_offset_ >= capacity()) return 0;
    const PageRecord* record = table() + (begin - data_offset_) / kPageBytes;
    const uint32_t kind = LoadRelaxed(&record->kind);
    if (kind == kPageRunHead) return record->used * kPageBytes;
    if (kind == kPageFree || kind > kClasses) return 0;
    return ClassUnits(kind - 1) * kBlockUnit;
  }

  CARILLON_HOST_DEVICE static uint32_t PagesFor(uint64_t bytes) {
    return static_cast<uint32_t>((bytes + kPageBytes - 1) / kPageBytes);
  }
  // memcached's "slab class": 1..kClasses, and one more for runs of pages.
  CARILLON_HOST_DEVICE static uint32_t ClassNumber(uint64_t bytes) {
    if (bytes > kMaxClassBytes) return kClasses + 1;
    return 1 + ClassOf(static_cast<uint32_t>((bytes + kBlockUnit - 1) /
                                             kBlockUnit));
  }
  // What BlockBytes() of a block for `bytes` will be.
  CARILLON_HOST_DEVICE static uint64_t RoundUp(uint64_t bytes) {
    if (bytes > kMaxClassBytes) return PagesFor(bytes) * kPageBytes;
    return ClassUnits(ClassOf(
               static_cast<uint32_t>((bytes + kBlockUnit - 1) / kBlockUnit))) *
           kBlockUnit;
  }

  // The first of `count` consecutive pages that are the next to be emptied for
  // another use.
  CARILLON_DEVICE uint32_t NextVictimPages(uint32_t count) const {
    const uint64_t hand = simt::AtomicAdd(&header()->hand, uint64_t{count});
    const uint32_t last = pages_ - count;  // count <= pages_
    return static_cast<uint32_t>(hand % (uint64_t{last} + 1));
  }
  // Enumerates the blocks of a page, live or not, by `index`; 0 at the end.
  CARILLON_DEVICE BlockRef BlockOfPage(uint32_t page, uint32_t index) const {
    const PageRecord* record = table() + page;
    const uint32_t kind = LoadRelaxed(&record->kind);
    if (kind == kPageRunHead) return index == 0 ? RefOfPage(page) : 0;
    if (kind == kPageRunTail) {
      const uint32_t head = LoadRelaxed(&record->head);
      return index == 0 && head < pages_ ? RefOfPage(head) : 0;
    }
    if (kind == kPageFree || kind > kClasses) return 0;
    const uint32_t units = ClassUnits(kind - 1);
    const uint32_t carved = LoadRelaxed(&record->carved);
    const uint32_t count =
        static_cast<uint32_t>(kPageBytes / kBlockUnit / units);
    if (index >= carved || index >= count) return 0;
    return RefOfPage(page) + index * units;
  }

 private:
  CARILLON_HOST_DEVICE static constexpr uint64_t Align(uint64_t offset) {
    return (offset + kBlockUnit - 1) & ~(kBlockUnit - 1);
  }
  friend class StoreRebuild;

  CARILLON_DEVICE StoreHeader* header() const {
    return reinterpret_cast<StoreHeader*>(memory_.data);
  }
  CARILLON_DEVICE ClassRecord* classes() const {
    return reinterpret_cast<ClassRecord*>(memory_.data + sizeof(StoreHeader));
  }
  CARILLON_DEVICE PageRecord* table() const {
    return reinterpret_cast<PageRecord*>(memory_.data + kPageTableOffset);
  }
  CARILLON_DEVICE BlockRef RefOfPage(uint32_t page) const {
    return static_cast<BlockRef>((data_offset_ + page * kPageBytes) /
                                 kBlockUnit);
  }
  CARILLON_DEVICE BlockRef Condemned() const {
    Condemn();
    return 0;
  }

  CARILLON_DEVICE BlockRef AllocateLocked(ClassRecord* record,
                                          uint32_t index) const {
    if (record->partial == 0) {
      const uint32_t page = TakePages(1, index + 1);
      if (page == pages_) return 0;
      PageRecord* fresh = table() + page;
      fresh->used = 0;
      fresh->free = 0;
      StoreRelaxed(&fresh->carved, 0u);
      Link(record, page);
    }
    if (record->partial > pages_) return Condemned();
    const uint32_t page = record->partial - 1;
    PageRecord* entry = table() + page;
    const uint32_t units = ClassUnits(index);
    const uint32_t count =
        static_cast<uint32_t>(kPageBytes / kBlockUnit / units);
    uint32_t block;
    if (entry->free != 0) {
      block = entry->free - 1;
      if (block >= count) return Condemned();
      entry->free = *FreeLink(page, block, units);
    } else {
      block = entry->carved;
      if (block >= count) return Condemned();
      StoreRelaxed(&entry->carved, block + 1);
    }
    ++entry->used;
    if (entry->free == 0 && entry->carved >= count) Unlink(record, page);
    return RefOfPage(page) + block * units;
  }

  CARILLON_DEVICE void FreeLocked(ClassRecord* record, uint32_t index,
                                  uint32_t page, uint64_t begin) const {
    const uint32_t units = ClassUnits(index);
    const uint64_t inside = (begin - data_offset_) % kPageBytes / kBlockUnit;
    PageRecord* entry = table() + page;
    const uint32_t block = static_cast<uint32_t>(inside / units);
    const uint32_t count =
        static_cast<uint32_t>(kPageBytes / kBlockUnit / units);
    if (inside % units != 0 || block >= count || entry->used == 0) {
      Condemn();
      return;
    }
    *FreeLink(page, block, units) = entry->free;
    entry->free = block + 1;
    --entry->used;
    if (entry->used == 0) {
      if (entry->listed != 0) Unlink(record, page);
      ReleasePages(page, 1);
    } else if (entry->listed == 0) {
      Link(record, page);
    }
  }

  // The link is where an item has its last access. It must not be where the
  // item's hash was, which StealPages() reads without a lock.
  CARILLON_DEVICE uint32_t* FreeLink(uint32_t page, uint32_t block,
                                     uint32_t units) const {
    return reinterpret_cast<uint32_t*>(
        memory_.data + (RefOfPage(page) + block * units) * kBlockUnit + 4);
  }

  CARILLON_DEVICE void Link(ClassRecord* record, uint32_t page) const {
    PageRecord* entry = table() + page;
    entry->prev = 0;
    entry->next = record->partial;
    entry->listed = 1;
    if (entry->next != 0) {
      if (entry->next > pages_) {
        Condemn();
        return;
      }
      table()[entry->next - 1].prev = page + 1;
    }
    record->partial = page + 1;
  }
  CARILLON_DEVICE void Unlink(ClassRecord* record, uint32_t page) const {
    PageRecord* entry = table() + page;
    if (entry->next > pages_ || entry->prev > pages_) {
      Condemn();
      return;
    }
    if (entry->prev != 0) {
      table()[entry->prev - 1].next = entry->next;
    } else {
      record->partial = entry->next;
    }
    if (entry->next != 0) table()[entry->next - 1].prev = entry->prev;
    entry->listed = 0;
  }

  // Takes `count` consecutive free pages and returns the first, or pages() if
  // there are none.
  CARILLON_MEMC_CALL uint32_t TakePages(uint32_t count, uint32_t kind) const {
    if (count > pages_) return pages_;
    StoreHeader* pool = header();
    if (!LockSpin(&pool->pool_lock)) {
      Condemn();
      return pages_;
    }
    uint32_t found = pages_;
    if (pool->used_pages <= pages_ - count) {
      uint32_t run = 0;
      uint32_t lowest_free = pages_;
      for (uint64_t page = pool->hint; page < pages_; ++page) {
        if (table()[page].kind != kPageFree) {
          run = 0;
          continue;
        }
        if (lowest_free == pages_) lowest_free = static_cast<uint32_t>(page);
        if (++run != count) continue;
        found = static_cast<uint32_t>(page) + 1 - count;
        break;
      }
      if (found != pages_) {
        for (uint32_t i = 0; i < count; ++i) {
          PageRecord* entry = table() + found + i;
          StoreRelaxed(&entry->head, found);
          entry->used = count;
          entry->listed = 0;
          StoreRelaxed(&entry->kind, i == 0 ? kind : kPageRunTail);
        }
        pool->used_pages += count;
        pool->hint = lowest_free == found ? found + count : lowest_free;
      }
    }
    UnlockSpin(&pool->pool_lock);
    return found;
  }

  CARILLON_MEMC_CALL void ReleasePages(uint32_t first, uint32_t count) const {
    StoreHeader* pool = header();
    if (count > pages_ - first || !LockSpin(&pool->pool_lock)) {
      Condemn();
      return;
    }
    for (uint32_t i = 0; i < count; ++i) {
      StoreRelaxed(&table()[first + i].kind, kPageFree);
    }
    pool->used_pages -= count;
    if (first < pool->hint) pool->hint = first;
    UnlockSpin(&pool->pool_lock);
  }

  Span<uint8_t> memory_;
  uint32_t pages_ = 0;
  uint64_t data_offset_ = 0;
};

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_STORE_CUH_
