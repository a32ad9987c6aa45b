// Rebuilds a value store's records from the items that a table still has: what
// a gpud that died in the middle of a kernel has left of them is not looked at.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_REBUILD_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_REBUILD_CUH_

#include <cstdint>

#include "kernels/memcached/memc_store.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

// The steps, each by all threads, with a barrier behind it: Clear(), then
// Claim() for each block that is in use, then ListFree(), then, by one thread,
// Finish(). Nothing else uses the store meanwhile. Whatever the blocks say of
// themselves, no two that were claimed overlap.
class StoreRebuild {
 public:
  // `marks` has a bit for each kBlockUnit of the store.
  CARILLON_DEVICE StoreRebuild(const Store& store, Span<uint32_t> marks)
      : store_(store), marks_(marks) {}

  CARILLON_HOST_DEVICE static constexpr uint64_t MarkWords(uint64_t store) {
    return (store / kBlockUnit + 31) / 32;
  }

  // Makes it the empty store. `first` and `step`: this thread's share.
  CARILLON_DEVICE void Clear(uint64_t first, uint64_t step) const {
    for (uint64_t i = first; i < marks_.size; i += step) marks_[i] = 0;
    for (uint64_t i = first; i < store_.pages_; i += step) {
      store_.table()[i] = {};
    }
    for (uint64_t i = first; i < kClasses; i += step) store_.classes()[i] = {};
    if (first != 0) return;
    const uint64_t hand = store_.header()->hand;
    *store_.header() = {};
    store_.header()->hand = hand;
    store_.header()->stamp = store_.memory_.size;
  }

  // Takes the block of an item of `bytes` bytes. Returns false if there is no
  // such block, or another one has some of its room.
  CARILLON_MEMC_CALL bool Claim(BlockRef ref, uint64_t bytes) const {
    const uint64_t begin = ref * kBlockUnit;
    if (begin < store_.data_offset_ ||
        begin - store_.data_offset_ >= store_.capacity()) {
      return false;
    }
    const uint64_t at = begin - store_.data_offset_;
    const uint32_t page = static_cast<uint32_t>(at / kPageBytes);
    const uint64_t inside = at % kPageBytes / kBlockUnit;
    if (bytes > kMaxClassBytes) {
      return inside == 0 && ClaimRun(page, Store::PagesFor(bytes));
    }
    const uint32_t index =
        ClassOf(static_cast<uint32_t>((bytes + kBlockUnit - 1) / kBlockUnit));
    const uint32_t block = static_cast<uint32_t>(inside / ClassUnits(index));
    if (inside % ClassUnits(index) != 0 || block >= BlocksOf(index)) {
      return false;
    }
    PageRecord* entry = store_.table() + page;
    const uint32_t kind = simt::AtomicCas(&entry->kind, kPageFree, index + 1);
    if (kind != kPageFree && kind != index + 1) return false;
    const uint32_t bit = 1u << (ref % 32);
    if ((simt::AtomicOr(&marks_[ref / 32], bit) & bit) != 0) return false;
    simt::AtomicAdd(&entry->used, 1u);
    simt::AtomicMax(&entry->carved, block + 1);
    return true;
  }

  // Chains the blocks of this thread's pages that nobody claimed.
  CARILLON_DEVICE void ListFree(uint64_t first, uint64_t step) const {
    for (uint64_t i = first; i < store_.pages_; i += step) {
      const uint32_t page = static_cast<uint32_t>(i);
      PageRecord* entry = store_.table() + page;
      const uint32_t kind = LoadRelaxed(&entry->kind);
      if (kind == kPageFree || kind > kClasses) continue;
      const uint32_t units = ClassUnits(kind - 1);
      for (uint32_t block = LoadRelaxed(&entry->carved); block-- > 0;) {
        const BlockRef ref = store_.RefOfPage(page) + block * units;
        if ((LoadRelaxed(&marks_[ref / 32]) >> (ref % 32) & 1) != 0) continue;
        *store_.FreeLink(page, block, units) = entry->free;
        entry->free = block + 1;
      }
    }
  }

  CARILLON_DEVICE void Finish() const {
    StoreHeader* pool = store_.header();
    pool->hint = store_.pages_;
    // From the end, so that the first pages are the first to be filled up.
    for (uint32_t page = store_.pages_; page-- > 0;) {
      PageRecord* entry = store_.table() + page;
      const uint32_t kind = LoadRelaxed(&entry->kind);
      if (kind == kPageFree) {
        pool->hint = page;
        continue;
      }
      ++pool->used_pages;
      if (kind > kClasses) continue;
      if (LoadRelaxed(&entry->free) != 0 ||
          LoadRelaxed(&entry->carved) < BlocksOf(kind - 1)) {
        store_.Link(store_.classes() + (kind - 1), page);
      }
    }
  }

 private:
  CARILLON_DEVICE static uint32_t BlocksOf(uint32_t index) {
    return static_cast<uint32_t>(kPageBytes / kBlockUnit / ClassUnits(index));
  }

  CARILLON_DEVICE bool ClaimRun(uint32_t page, uint32_t count) const {
    if (count > store_.pages_ - page) return false;
    for (uint32_t i = 0; i < count; ++i) {
      PageRecord* entry = store_.table() + page + i;
      if (simt::AtomicCas(&entry->kind, kPageFree,
                          i == 0 ? kPageRunHead : kPageRunTail) == kPageFree) {
        entry->head = page;
        entry->used = count;
        continue;
      }
      while (i-- > 0) {
        PageRecord* taken = store_.table() + page + i;
        taken->used = 0;
        StoreRelaxed(&taken->kind, kPageFree);
      }
      return false;
    }
    return true;
  }

  const Store& store_;
  const Span<uint32_t> marks_;
};
static_assert(StoreRebuild::MarkWords(1 << 20) * sizeof(uint32_t) ==
              memcached::RecoveryMarkBytes(1 << 20));

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_REBUILD_CUH_
