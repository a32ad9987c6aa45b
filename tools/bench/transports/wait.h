// How the two sides of a transport wait for each other. Only contenders that
// wait in the same way may be compared: a side that sleeps pays for its wake-up
// what a side that spins pays with its core.
#ifndef CARILLON_TOOLS_BENCH_TRANSPORTS_WAIT_H_
#define CARILLON_TOOLS_BENCH_TRANSPORTS_WAIT_H_

#include <sched.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "shm/waiting.h"

namespace carillon::bench {

enum class Wait {
  kSpins,            // looks again and again, and never sleeps
  kSpinsThenSleeps,  // spins for kClientSpin or kServerSpin at most first
  kSleeps,           // sleeps in the kernel at once, until the other wakes it
};
inline constexpr std::array kEveryWait = {Wait::kSpins, Wait::kSpinsThenSleeps,
                                          Wait::kSleeps};

// What a device of the SDK does without being told, and gpud at most.
inline constexpr std::chrono::microseconds kClientSpin{20};
inline constexpr std::chrono::microseconds kServerSpin{50};
// What a gpud spins at most that waits so. Its spin adapts below that: with one
// second it ends only when nothing at all happens for longer.
inline constexpr std::chrono::nanoseconds SpinOfGpud(Wait wait) {
  if (wait == Wait::kSpins) return std::chrono::seconds(1);
  if (wait == Wait::kSpinsThenSleeps) return kServerSpin;
  return std::chrono::nanoseconds(0);
}

// "spins", "spins_then_sleeps", "sleeps".
std::string_view NameOf(Wait wait);
// Nothing when there is none of that name.
std::optional<Wait> WaitOfName(std::string_view name);

// How often a side that spins offers its core to others.
inline constexpr Nanoseconds kYieldEveryNs = 2'000;

// The limit of every wait of a client or server.
inline constexpr std::chrono::seconds kPatience{10};

// Waits as `wait` says, with a spin of `spin` where it also sleeps. look() is
// true when it has found what is waited for; so is sleep(), which may sleep for
// kPatience before. False when that is over.
template <class Look, class Sleep>
bool WaitUntil(Wait wait, std::chrono::nanoseconds spin, Look look,
               Sleep sleep) {
  if (wait == Wait::kSleeps) return sleep();
  if (look()) return true;
  if (wait == Wait::kSpins) spin = kPatience;
  const Nanoseconds start = NowNs();
  Nanoseconds yielded = start;
  for (uint32_t turn = 1;; ++turn) {
    shm::CpuRelax();
    if (look()) return true;
    if (turn % 8 != 0) continue;
    const Nanoseconds now = NowNs();
    if (now - start >= static_cast<Nanoseconds>(spin.count())) break;
    // With fewer cores than threads it may be the other side, or a thread of
    // the transport's library, that waits for this core. The time is the same
    // for all transports: a look at a socket takes longer than one at memory.
    if (now - yielded >= kYieldEveryNs) {
      sched_yield();
      yielded = NowNs();  // others may have had the core for long
    }
  }
  return wait != Wait::kSpins && sleep();
}

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_WAIT_H_
