// How long an event took that the front-end's thread ran itself.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_RUN_CLOCK_H_
#define CARILLON_GPU_DAEMON_DISPATCH_RUN_CLOCK_H_

#include <time.h>

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace carillon::gpud {

// A count that costs a few nanoseconds to read: of the TSC, which advances once
// to eight times a nanosecond, or else of nanoseconds.
using Ticks = uint64_t;
inline constexpr Ticks kMaxTicksPerNs = 8;

inline Ticks ReadTicks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return NowNs();
#endif
}

// In their place where no time passes.
inline Ticks NoTicks() { return 0; }

// CPU time of the calling thread: time in which it did not run does not count.
inline Nanoseconds ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<Nanoseconds>(now.tv_sec) * 1'000'000'000u + now.tv_nsec;
}

// Ticks tell which runs may have been long; CPU time, which takes a system call,
// tells whether they were, or whether the thread was only kept from its core.
// One thread.
class RunClock {
 public:
  // No run is said to have taken longer than it did by more than this.
  static constexpr Nanoseconds kSlackNs = 50'000;

  // Before each run, and now and then while there is none.
  void Mark(Ticks now) {
    if (now - marked_at_ <= kSlackNs) [[likely]]
      return;
    marked_at_ = now;
    marked_cpu_ns_ = ThreadCpuNs();
  }

  struct Run {
    Ticks ticks = 0;          // while the thread had a core
    Nanoseconds long_ns = 0;  // CPU time; 0 if the run was not long
  };
  // A run of that many ticks that ends now and began right after Mark().
  Run End(Ticks ticks) {
    // As nanoseconds, too: a tick is none of them longer.
    if (ticks <= kLongTicks) [[likely]]
      return {.ticks = ticks};
    const Nanoseconds cpu_ns = ThreadCpuNs() - marked_cpu_ns_;
    marked_at_ = ReadTicks();
    marked_cpu_ns_ += cpu_ns;
    return {.ticks = std::min(ticks, cpu_ns * kMaxTicksPerNs),
            .long_ns = cpu_ns};
  }

 private:
  static constexpr Ticks kLongTicks = 100'000;

  Ticks marked_at_ = 0;
  Nanoseconds marked_cpu_ns_ = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_RUN_CLOCK_H_
