// Simulated time that goes through several processes (docs/simulated_time.md):
// it passes only while each device has promised when it will ring next.
//
//   gpud                                      device
//   stores now, then turn + 1     -- turn -->
//                                             lives at `now`: takes completions,
//                                             rings
//                                 <- answer -  stores next, then the turn
//   goes on to the least `next`, or to a
//   completion: gives its device a turn
//
// While a device has an unanswered turn, time stands. After its answer it rings
// nothing before it has its next turn, which it gets at `next` or at a
// completion of its own, whichever is earlier.
#ifndef CARILLON_SHM_SIMULATED_TIME_H_
#define CARILLON_SHM_SIMULATED_TIME_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "shm/aperture.h"
#include "shm/layout.h"
#include "shm/load_shared.h"
#include "shm/types.h"
#include "shm/waiting.h"

namespace carillon::shm {

// These words are in page 1 of both apertures, behind those of layout.h. They
// are zeros in a testbed that lives in wall time.
inline constexpr uint64_t kSimulatedTimeOffset = kControlOffset + 2048;

// In the completion aperture. Writer: gpud; reader: the device.
struct TimeTurn {
  uint64_t turn;  // the first is 1
  uint64_t now_ns;
};
// In the submission aperture. Writer: the device; reader: gpud.
struct TimeAnswer {
  uint64_t turn;     // the last that it has answered
  uint64_t next_ns;  // when it wants the next; kNoTime: never by itself
};
static_assert(kSimulatedTimeOffset >=
              kControlOffset + sizeof(CompletionControl));
static_assert(kSimulatedTimeOffset >=
              kControlOffset + sizeof(SubmissionControl));
static_assert(kSimulatedTimeOffset + sizeof(TimeTurn) <=
              kControlOffset + kPageSize);

inline constexpr Nanoseconds kNoTime = ~Nanoseconds{0};

// gpud's side of one device's time. One thread.
class TurnGiver {
 public:
  // Both must outlive it.
  TurnGiver(const Aperture* submission, const Aperture* completion)
      : answer_(reinterpret_cast<TimeAnswer*>(
            submission->At(kSimulatedTimeOffset))),
        given_(
            reinterpret_cast<TimeTurn*>(completion->At(kSimulatedTimeOffset))) {
  }

  // The caller signals the device's bell afterwards.
  void Give(Nanoseconds now) {
    std::atomic_ref<uint64_t>(given_->now_ns)
        .store(now, std::memory_order_relaxed);
    // Release: `now`, and the completions that this turn is for.
    std::atomic_ref<uint64_t>(given_->turn)
        .store(++turn_, std::memory_order_release);
  }
  // The device's answer to its last turn, if there is one: the time from which
  // it may ring again. To be read once a turn, because it may change
  // afterwards.
  std::optional<Nanoseconds> Answer() const {
    // seq_cst: acquires the doorbells that were rung in this turn, and is the
    // sleeper's second look (waiting.h).
    if (LoadShared(answer_->turn, std::memory_order_seq_cst) != turn_) {
      return std::nullopt;
    }
    return LoadShared(answer_->next_ns, std::memory_order_relaxed);
  }

 private:
  TimeAnswer* const answer_;
  TimeTurn* const given_;
  uint64_t turn_ = 0;
};

// The device's side. One thread at a time.
class TurnTaker {
 public:
  // Both must outlive it.
  TurnTaker(const Aperture* submission, const Aperture* completion)
      : submission_(submission),
        completion_(completion),
        answer_(reinterpret_cast<TimeAnswer*>(
            submission->At(kSimulatedTimeOffset))),
        given_(reinterpret_cast<const TimeTurn*>(
            completion->At(kSimulatedTimeOffset))) {}

  // True if there is a turn that was not taken before: it is now this device's,
  // at its time.
  bool Take() {
    const uint64_t turn = LoadShared(given_->turn, std::memory_order_acquire);
    if (turn == taken_) return false;
    taken_ = turn;
    now_ = LoadShared(given_->now_ns, std::memory_order_relaxed);
    return true;
  }
  Nanoseconds now() const { return now_; }

  // Ends the turn that was taken last, and wakes gpud if it sleeps. Requires
  // `next` > now().
  void Answer(Nanoseconds next) {
    std::atomic_ref<uint64_t>(answer_->next_ns)
        .store(next, std::memory_order_relaxed);
    // Release: `next` and the doorbells of this turn. seq_cst: the first half
    // of the Dekker pair with gpud_armed (waiting.h).
    std::atomic_ref<uint64_t>(answer_->turn)
        .store(taken_, std::memory_order_seq_cst);
    if (LoadShared(completion_->completion_control().gpud_armed,
                   std::memory_order_seq_cst) != 0) {
      BumpAndWake(&submission_->submission_control().summary);
    }
  }

 private:
  const Aperture* const submission_;
  const Aperture* const completion_;
  TimeAnswer* const answer_;
  const TimeTurn* const given_;
  uint64_t taken_ = 0;
  Nanoseconds now_ = 0;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_SIMULATED_TIME_H_
