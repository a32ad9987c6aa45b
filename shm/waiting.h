// Sleeping for a peer, without ever missing its wake-up and without ever
// waiting for ever.
//
// The protocol, the same in both directions (docs/data_plane.md; model:
// ring.pml):
//
//   waker                                sleeper
//   1 publish (doorbell or completion)   1 armed = 1                  (seq_cst)
//   2 load armed           (seq_cst)     2 value = summary            (seq_cst)
//   3 if armed:                          3 look again for what was published
//       summary += 1       (seq_cst)       (seq_cst); found: to 5
//       futex_wake(summary)              4 futex_wait(summary, value)
//                                        5 armed = 0
//
// A device goes back from 4 to 2, armed, until it has found something, its time
// is over or the end has come; gpud goes through all five steps every time.
//
// Steps 1-2 of the waker and 1-3 of the sleeper are a Dekker pair: at least one
// of the two sees the other, so either the sleeper finds the work or the waker
// bumps the word, after which step 4 returns at once. Only the sleeper writes
// `armed`: a waker that clears it loses the next wake-up, as the model shows.
#ifndef CARILLON_SHM_WAITING_H_
#define CARILLON_SHM_WAITING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

namespace carillon::shm {

// Kernel limit of one futex_waitv call (Linux 5.16).
inline constexpr size_t kMaxFutexWords = 128;

enum class WaitResult { kWoken, kTimedOut };

struct FutexWord {
  const uint32_t* word = nullptr;  // may be mapped read-only
  uint32_t expected = 0;
};

// Sleeps until one of 1..kMaxFutexWords words is woken or no longer holds its
// expected value, or until `timeout` has passed (at once if it is not
// positive). May wake without cause: by a signal, and always when it is given
// too many words or none, since sleeping on some of them could miss a wake-up.
// Thread safe.
WaitResult FutexWait(std::span<const FutexWord> words,
                     std::chrono::nanoseconds timeout);

// Wakes every waiter on `word`, in every process; the word may be mapped
// read-only.
void FutexWakeAll(const uint32_t* word);

// Orders every access before it before every access after it, as seen by all
// threads and processes: the waker's half of the Dekker pair above.
inline void FullFence() {
#if defined(__SANITIZE_THREAD__)
  // TSan does not know fences; an atomic read-modify-write is one on every
  // machine that TSan runs on.
  static std::atomic<uint32_t> unused{0};
  unused.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// True when this kernel has futex_waitv and lets us use it (a sandbox may
// not); FutexWait() never sleeps without.
bool FutexWaitvSupported();

// Step 3 of the waker.
inline void BumpAndWake(uint32_t* summary) {
  std::atomic_ref<uint32_t>(*summary).fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(summary);
}

// One turn of a spin loop: tells the core that it is one.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace carillon::shm

#endif  // CARILLON_SHM_WAITING_H_
