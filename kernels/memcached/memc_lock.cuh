// The locks of the memcached kernels' table and store, in GPU memory.
//
// A free lock is zero. Waiting is bounded: if a word is never released (garbage
// in the memory, never one of these kernels), the waiter gives up and the
// caller condemns the memory. A thread holds at most one set lock and takes the
// store's locks only inside of it, so threads cannot wait for each other in a
// circle. Lanes of one warp rely on the independent thread scheduling of sm_70
// and later.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_LOCK_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_LOCK_CUH_

#include <cstdint>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

using simt::LoadRelaxed;

// Some hundred milliseconds on an otherwise idle CPU core. Holders need
// microseconds, or their next time slice.
inline constexpr uint32_t kMaxLockRounds = 1u << 23;

// Read-modify-writes with a memory order; SIMT's own are relaxed.
CARILLON_DEVICE uint64_t CasAcquire(uint64_t* address, uint64_t expected,
                                    uint64_t desired) {
#if defined(__CUDACC__)
  uint64_t old;
  asm volatile("atom.acquire.gpu.cas.b64 %0, [%1], %2, %3;"
               : "=l"(old)
               : "l"(address), "l"(expected), "l"(desired)
               : "memory");
  return old;
#else
  std::atomic_ref<uint64_t>(*address).compare_exchange_strong(
      expected, desired, std::memory_order_acquire, std::memory_order_relaxed);
  return expected;
#endif
}

CARILLON_DEVICE void AddRelease(uint64_t* address, uint64_t value) {
#if defined(__CUDACC__)
  asm volatile("red.release.gpu.add.u64 [%0], %1;"
               :
               : "l"(address), "l"(value)
               : "memory");
#else
  std::atomic_ref<uint64_t>(*address).fetch_add(value,
                                                std::memory_order_release);
#endif
}

// The lock of one hash table set (thesis 4.2.2). Any number of GETs share it, a
// SET has it alone. With the paper's lock a stream of GETs starves a SET; here
// a waiting SET holds further GETs off, though not the same one for ever.
//
//   63       32 31      30      29       0
//   +----------+-------+-------+---------+
//   | clock    | SET   | SET   | GETs    |
//   |          | waits | holds | that    |
//   |          |       |       | hold it |
//   +----------+-------+-------+---------+
//
// The clock counts acquisitions and gives the timestamps of the set's local
// LRU.
inline constexpr uint64_t kLockGets = (uint64_t{1} << 30) - 1;
inline constexpr uint64_t kLockSetHolds = uint64_t{1} << 30;
inline constexpr uint64_t kLockSetWaits = uint64_t{1} << 31;
inline constexpr uint64_t kLockTick = uint64_t{1} << 32;

struct LockResult {
  bool ok;
  uint32_t clock;
};

// For so many rounds a GET lets waiting SETs go first.
inline constexpr uint32_t kLockCourtesyRounds = 64;

// Counts the rounds in which a lock did not change. If its clock moves, others
// take it in turn; if nobody can take it, it is garbage.
class LockPatience {
 public:
  CARILLON_DEVICE explicit LockPatience(uint32_t max_rounds)
      : max_rounds_(max_rounds) {}
  // Returns false once the waiter should give up.
  CARILLON_DEVICE bool Goes(uint64_t seen) {
    const uint32_t clock = static_cast<uint32_t>(seen >> 32);
    still_ = clock == clock_ ? still_ + 1 : 0;
    clock_ = clock;
    return still_ < max_rounds_;
  }

 private:
  const uint32_t max_rounds_;
  uint32_t clock_ = 0;
  uint32_t still_ = 0;
};

// Test-and-test-and-set, as in the paper.
CARILLON_MEMC_CALL LockResult LockShared(uint64_t* lock,
                                         uint32_t max_rounds = kMaxLockRounds) {
  LockPatience patience(max_rounds);
  for (uint32_t round = 0;; ++round) {
    const uint64_t seen = LoadRelaxed(lock);
    if (!patience.Goes(seen)) return {false, 0};
    const uint64_t barred = round < kLockCourtesyRounds
                                ? kLockSetHolds | kLockSetWaits
                                : kLockSetHolds;
    if ((seen & barred) == 0 && (seen & kLockGets) != kLockGets) {
      if (CasAcquire(lock, seen, seen + kLockTick + 1) == seen) {
        return {true, static_cast<uint32_t>(seen >> 32) + 1};
      }
      continue;
    }
    simt::SpinPause(round);
  }
}

CARILLON_DEVICE void UnlockShared(uint64_t* lock) {
  AddRelease(lock, ~uint64_t{0});  // one GET fewer
}

CARILLON_MEMC_CALL LockResult
LockExclusive(uint64_t* lock, uint32_t max_rounds = kMaxLockRounds) {
  LockPatience patience(max_rounds);
  for (uint32_t round = 0;; ++round) {
    const uint64_t seen = LoadRelaxed(lock);
    if (!patience.Goes(seen)) return {false, 0};
    if ((seen & (kLockSetHolds | kLockGets)) == 0) {
      // Clears "waits"; any other waiting SET sets it again in its next round.
      const uint64_t mine =
          ((seen & ~kLockSetWaits) + kLockTick) | kLockSetHolds;
      if (CasAcquire(lock, seen, mine) == seen) {
        return {true, static_cast<uint32_t>(mine >> 32)};
      }
      continue;
    }
    if ((seen & kLockSetWaits) == 0) {
      simt::AtomicOr(lock, kLockSetWaits);
    }
    simt::SpinPause(round);
  }
}

CARILLON_DEVICE void UnlockExclusive(uint64_t* lock) {
  AddRelease(lock, ~kLockSetHolds + 1);
}

// A plain mutex for the store's short critical sections.
CARILLON_MEMC_CALL bool LockSpin(uint64_t* lock,
                                 uint32_t max_rounds = kMaxLockRounds) {
  for (uint32_t round = 0; round < max_rounds; ++round) {
    if (LoadRelaxed(lock) == 0 && CasAcquire(lock, 0, 1) == 0) return true;
    simt::SpinPause(round);
  }
  return false;
}

CARILLON_DEVICE void UnlockSpin(uint64_t* lock) {
  simt::StoreRelease(lock, uint64_t{0});
}

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_LOCK_CUH_
