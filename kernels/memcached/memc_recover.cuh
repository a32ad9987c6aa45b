// memc_recover: takes a table and a store over from a gpud that died, perhaps
// in the middle of any number of memc_get and memc_set. See
// docs/decisions/017-a-store-that-outlives-gpud.md.
//
// A set's references are all that it trusts: a kernel stores one with release
// order when the item is whole, and takes it away before the block can be given
// to somebody else. Locks are released, and everything else is made anew of the
// items.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_RECOVER_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_RECOVER_CUH_

#include <cstdint>

#include "kernels/memcached/memc_rebuild.cuh"
#include "kernels/memcached/memc_request.cuh"
#include "kernels/memcached/memc_table.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

// One block of any number of threads. No memc_get and no memc_set may run.
struct MemcRecoverArgs {
  simt::Span<uint8_t> table;
  simt::Span<uint8_t> store;
  simt::Span<uint32_t> marks;  // scratch, memcached::RecoveryMarkBytes()
  simt::Span<memcached::Recovered> recovered;  // one
};

namespace memc {

class TableRecovery {
 public:
  CARILLON_DEVICE TableRecovery(const MemcRecoverArgs& args)
      : args_(args),
        table_(args.table, args.store, 0),
        rebuild_(table_.store(), args.marks) {}

  // Whether there is something to take over: memory that these kernels have
  // used, with these sizes, and have not found broken.
  CARILLON_DEVICE bool Valid() const {
    return LoadRelaxed(&table_.header()->stamp) == args_.table.size &&
           LoadRelaxed(reinterpret_cast<const uint64_t*>(args_.store.data)) ==
               args_.store.size;
  }

  CARILLON_DEVICE void Clear(bool valid, uint64_t first, uint64_t step) const {
    rebuild_.Clear(first, step);
    if (first == 0) args_.recovered[0] = {};
    if (valid) return;
    auto* const words = reinterpret_cast<uint64_t*>(args_.table.data);
    const uint64_t count =
        (sizeof(TableHeader) + table_.sets() * sizeof(Set)) / sizeof(uint64_t);
    for (uint64_t i = first; i < count; i += step) words[i] = 0;
  }

  CARILLON_DEVICE void TakeItems(uint64_t first, uint64_t step) const {
    memcached::Recovered mine{};
    for (uint64_t i = first; i < table_.sets(); i += step) {
      TakeSet(table_.SetAt(i), static_cast<uint32_t>(i), &mine);
    }
    memcached::Recovered& all = args_.recovered[0];
    if (mine.items != 0) simt::AtomicAdd(&all.items, mine.items);
    if (mine.bytes != 0) simt::AtomicAdd(&all.bytes, mine.bytes);
    if (mine.dropped != 0) simt::AtomicAdd(&all.dropped, mine.dropped);
    if (mine.locks != 0) simt::AtomicAdd(&all.locks, mine.locks);
    simt::AtomicMax(&table_.header()->last_cas, mine.last_cas);
  }

  CARILLON_DEVICE void ListFree(uint64_t first, uint64_t step) const {
    rebuild_.ListFree(first, step);
  }

  CARILLON_DEVICE void Finish(bool valid) const {
    rebuild_.Finish();
    memcached::Recovered& all = args_.recovered[0];
    // What was counted of the items' comings and goings may be one off for each
    // kernel that was cut short.
    uint64_t linked = 0, unlinked = 0, bytes = 0;
    for (uint32_t i = 0; i < kStripes; ++i) {
      const Counters* count = table_.counters(i);
      linked += LoadRelaxed(&count->linked);
      unlinked += LoadRelaxed(&count->unlinked);
      bytes += LoadRelaxed(&count->bytes);
    }
    const uint64_t items = LoadRelaxed(&all.items);
    Counters* const first = table_.counters(0);
    first->linked += items > linked ? items - linked : 0;
    if (items > linked) linked = items;
    first->unlinked += linked - items - unlinked;
    first->bytes += LoadRelaxed(&all.bytes) - bytes;
    table_.header()->durable = 1;
    all.last_cas = LoadRelaxed(&table_.header()->last_cas);
    all.kept = valid ? 1 : 0;
    simt::StoreRelease(&table_.header()->stamp, args_.table.size);
  }

 private:
  CARILLON_DEVICE void TakeSet(Set* set, uint32_t index,
                               memcached::Recovered* mine) const {
    const uint64_t lock = set->lock;
    if ((lock & (kLockTick - 1)) != 0) ++mine->locks;
    set->lock = lock & ~(kLockTick - 1);
    for (uint32_t way = 0; way < kWays; ++way) {
      const BlockRef ref = set->ref[way];
      set->hash8[way] = 0;
      if (ref == 0) continue;
      uint64_t bytes = 0;
      const Item* item = WholeItem(ref, index, &bytes);
      if (item == nullptr || !rebuild_.Claim(ref, bytes)) {
        set->ref[way] = 0;
        ++mine->dropped;
        continue;
      }
      set->hash8[way] = Table::Hash8(item->hash);
      ++mine->items;
      mine->bytes += bytes;
      if (item->cas > mine->last_cas) mine->last_cas = item->cas;
    }
  }

  // The item that a set refers to; null if it is none of this set.
  CARILLON_MEMC_CALL const Item* WholeItem(BlockRef ref, uint32_t index,
                                           uint64_t* bytes) const {
    const uint8_t* block = table_.store().At(ref, sizeof(Item));
    if (block == nullptr) return nullptr;
    const Item* item = reinterpret_cast<const Item*>(block);
    const uint32_t key = KeyLength(item->lengths);
    const uint32_t value = ValueLength(item->lengths);
    *bytes = ItemBytes(key, value);
    if (key == 0 || key > memcached::kMaxKeyBytes ||
        value > memcached::kMaxValueBytes ||
        table_.store().At(ref, *bytes) == nullptr) {
      return nullptr;
    }
    uint8_t copy[memcached::kMaxKeyBytes + kReadSlack];
    CopyBytes(copy, block + sizeof(Item), key);
    const bool ours =
        HashKey(copy, key) == item->hash && item->hash % table_.sets() == index;
    return ours ? item : nullptr;
  }

  const MemcRecoverArgs& args_;
  const Table table_;
  const StoreRebuild rebuild_;
};

CARILLON_HOST_DEVICE const char* CheckArgs(const MemcRecoverArgs& args) {
  if (const char* wrong = CheckMemory(args.table, args.store)) return wrong;
  if (args.marks.size < StoreRebuild::MarkWords(args.store.size)) {
    return "marks must have a bit for each 64 bytes of the store";
  }
  if (args.recovered.size < 1) return "recovered must have room for one";
  return nullptr;
}

inline const char* CheckRecovery(const simt::LaunchShape& shape,
                                 const MemcRecoverArgs& args) {
  if (shape.grid.x != 1 || shape.grid.y != 1 || shape.grid.z != 1) {
    return "the grid must be one block";
  }
  return CheckArgs(args);
}

}  // namespace memc

CARILLON_BARRIER_KERNEL(memc_recover, MemcRecoverArgs, args, self) {
  if (memc::CheckArgs(args) != nullptr ||
      self.grid_threads() != self.block_threads()) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const memc::TableRecovery recovery(args);
  const uint64_t first = self.global_linear();
  const uint64_t step = self.grid_threads();
  const bool valid = recovery.Valid();
  CARILLON_SYNC_THREADS(self);
  recovery.Clear(valid, first, step);
  CARILLON_SYNC_THREADS(self);
  recovery.TakeItems(first, step);
  CARILLON_SYNC_THREADS(self);
  recovery.ListFree(first, step);
  CARILLON_SYNC_THREADS(self);
  if (first == 0) recovery.Finish(valid);
}

CARILLON_KERNEL_INFO(memc_recover, MemcRecoverArgs,
                     "takes a memcached store over from a gpud that died",
                     simt::Registers(95)
                         .From("memcached")
                         .Oracle("a log of what clients were answered")
                         .LaunchedOnly()
                         .LeavesTogether()
                         .Validate<&memc::CheckRecovery>(),
                     CARILLON_PARAM(MemcRecoverArgs, table, "hash table"),
                     CARILLON_PARAM(MemcRecoverArgs, store, "value store"),
                     CARILLON_PARAM(MemcRecoverArgs, marks,
                                    "scratch, a bit per 64 bytes"),
                     CARILLON_PARAM(MemcRecoverArgs, recovered,
                                    "receives one memcached::Recovered"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_RECOVER_CUH_
