// The three pairs of a sleeper and its waker that use the protocol of
// waiting.h.
#ifndef CARILLON_SHM_WAKEUPS_H_
#define CARILLON_SHM_WAKEUPS_H_

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "shm/aperture.h"
#include "shm/layout.h"
#include "shm/load_shared.h"
#include "shm/waiting.h"

namespace carillon::shm {

// A pipe that wakes a device that sleeps in epoll: gpud writes, the device
// polls and drains. It is not an eventfd, because all holders of one share its
// O_NONBLOCK and its counter: a device could clear the one, fill the other and
// hold up gpud's next write for ever. The ends of a pipe are apart.
struct CompletionEvent {
  // Both non-blocking and close-on-exec.
  UniqueFd writer;  // stays in gpud
  // A copy goes to the device. gpud keeps its own open for as long as it
  // writes: a pipe without readers raises SIGPIPE.
  UniqueFd reader;

  // Errors: ResourceExhausted (descriptors).
  static absl::StatusOr<CompletionEvent> Create();
};

// The device's side of a CompletionEvent: makes it unreadable until the next
// completion. Never blocks.
void DrainCompletionEvent(int reader);

// gpud's side of a device's completions: wakes the device if it sleeps. Thread
// safe.
class CompletionBell {
 public:
  // `event_writer` is CompletionEvent::writer, or -1 for a device that has
  // none.
  CompletionBell(const Aperture* submission, const Aperture* completion,
                 int event_writer)
      : armed_(&submission->submission_control().completion_armed),
        summary_(&completion->completion_control().summary),
        event_writer_(event_writer) {}

  // After any number of GpuRing::Complete(). Costs one fence and one load when
  // the device is awake.
  void Signal() const {
    FullFence();
    const uint32_t armed = LoadShared(*armed_, std::memory_order_relaxed);
    if (armed != 0) Wake(armed);
  }
  // Wakes the device whatever it says: it must look at a closed word.
  void SignalAlways() const { Wake(kArmedFutexMask | kArmedCompletionEvent); }

 private:
  void Wake(uint32_t armed) const;

  const uint32_t* const armed_;  // writer: the device
  uint32_t* const summary_;      // writer: gpud
  const int event_writer_;
};

// A device process's own flag that gpud is gone: its watcher of gpud sets it,
// every waiter of the process looks at it and sleeps on it. Never cleared.
class ClosedWord {
 public:
  bool closed() const { return word_.load(std::memory_order_acquire) != 0; }
  void Close() {
    word_.store(1, std::memory_order_seq_cst);
    FutexWakeAll(reinterpret_cast<const uint32_t*>(&word_));
  }
  FutexWord AsFutex() const {
    return {reinterpret_cast<const uint32_t*>(&word_), 0};
  }

 private:
  std::atomic<uint32_t> word_{0};
};

// The device's side: sleeps until a completion (any ring) or the end. Thread
// safe but for Arm- and DisarmCompletionEvent().
class CompletionWaiter {
 public:
  CompletionWaiter(const Aperture* submission, const Aperture* completion,
                   const ClosedWord* closed)
      : armed_(&submission->submission_control().completion_armed),
        control_(&completion->completion_control()),
        closed_(closed) {}

  // Returns true as soon as ready() is true; false when the aperture or the
  // peer is closed or `timeout` has passed first. Spins for `spin` (at most
  // `timeout`), then sleeps; neither needs to be positive. ready() may run any
  // number of times, and once more after the end came.
  template <class Ready>
  bool WaitUntil(Ready ready, std::chrono::nanoseconds timeout,
                 std::chrono::nanoseconds spin) {
    // Under load there is always something: then even the clock is too much.
    if (ready()) return true;
    const Nanoseconds start = NowNs();
    timeout = std::max(timeout, std::chrono::nanoseconds(0));
    spin = std::clamp(spin, std::chrono::nanoseconds(0), timeout);
    for (uint32_t turn = 1; spin.count() > 0; ++turn) {
      CpuRelax();
      if (ready()) return true;
      // The clock costs more than a look; and a spin must end when the other
      // side ended. With fewer cores than processes it may be the other side
      // that waits for this core.
      if (turn % 64 == 0) {
        if (closed() || NowNs() - start >= Nanoseconds(spin.count())) break;
        sched_yield();
      }
    }
    std::atomic_ref<uint32_t> armed(*armed_);
    armed.fetch_add(1, std::memory_order_seq_cst);
    bool found = false;
    while (true) {
      const uint32_t summary = LoadSummary();
      // The end is looked at first: what was completed before it still counts.
      const bool ended = closed();
      found = ready();
      if (found || ended) break;
      const Nanoseconds spent = NowNs() - start;
      if (spent >= Nanoseconds(timeout.count())) break;
      const std::array<FutexWord, 2> words = {
          FutexWord{&control_->summary, summary}, closed_->AsFutex()};
      FutexWait(words, timeout - std::chrono::nanoseconds(spent));
    }
    armed.fetch_sub(1, std::memory_order_seq_cst);
    return found;
  }

  // For devices that sleep in epoll: after ArmCompletionEvent(), every
  // completion makes the CompletionEvent readable. The caller looks at its
  // rings once more before it sleeps, drains the event after it, and disarms.
  // One thread at a time: it is one bit, not a count.
  void ArmCompletionEvent() {
    std::atomic_ref<uint32_t>(*armed_).fetch_or(kArmedCompletionEvent,
                                                std::memory_order_seq_cst);
  }
  void DisarmCompletionEvent() {
    // Relaxed: a completion that still finds it armed makes the event readable
    // for nothing, as one that found it armed just before may do later.
    std::atomic_ref<uint32_t>(*armed_).fetch_and(~kArmedCompletionEvent,
                                                 std::memory_order_relaxed);
  }

  // Why the aperture was closed by gpud; kPeerDied when gpud itself is gone;
  // kOpen otherwise.
  CloseReason close_reason() const;
  bool closed() const { return close_reason() != CloseReason::kOpen; }

 private:
  uint32_t LoadSummary() const {
    return LoadShared(control_->summary, std::memory_order_seq_cst);
  }

  uint32_t* const armed_;                   // writer: this process
  const CompletionControl* const control_;  // writer: gpud
  const ClosedWord* const closed_;
};

// gpud's side: sleeps until a doorbell of any watched device rings. One thread;
// several may watch one device.
class DoorbellWaiter {
 public:
  // kMaxFutexWords - 1 devices at most: with more, sleeps return at once.
  void Watch(const Aperture& submission, const Aperture& completion) {
    devices_.push_back({.armed = &completion.completion_control().gpud_armed,
                        .summary = &submission.submission_control().summary});
  }
  void WatchNone() { devices_.clear(); }

  // Sleeps until a device rings, until `own` no longer holds its expected
  // value, or for `timeout`; may wake without cause. rung() tells whether there
  // is work; it runs once, when all devices have been told to wake gpud.
  // Returns false, without a sleep, if it was true.
  template <class Rung>
  bool SleepUnless(Rung rung, FutexWord own, std::chrono::nanoseconds timeout) {
    for (const Device& device : devices_) {
      std::atomic_ref<uint32_t>(*device.armed)
          .fetch_add(1, std::memory_order_seq_cst);
    }
    words_.assign(1, own);
    for (const Device& device : devices_) {
      words_.push_back({device.summary, LoadShared(*device.summary,
                                                   std::memory_order_seq_cst)});
    }
    const bool found = rung();
    if (!found) FutexWait(words_, timeout);
    // Relaxed: a ring that still finds it armed wakes nobody, and the next
    // arming is ordered.
    for (const Device& device : devices_) {
      std::atomic_ref<uint32_t>(*device.armed)
          .fetch_sub(1, std::memory_order_relaxed);
    }
    return !found;
  }

 private:
  struct Device {
    uint32_t* armed;          // writers: gpud's threads, each its own one
    const uint32_t* summary;  // writer: the device
  };

  std::vector<Device> devices_;
  std::vector<FutexWord> words_;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_WAKEUPS_H_
