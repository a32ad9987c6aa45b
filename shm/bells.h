// Who sleeps, who wakes: the three users of the protocol in waiting.h.
#ifndef CARILLON_SHM_BELLS_H_
#define CARILLON_SHM_BELLS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "shm/aperture.h"
#include "shm/clock.h"
#include "shm/layout.h"
#include "shm/waiting.h"

namespace carillon::shm {

// gpud's side of a device's completions: wakes the device if it sleeps. Thread
// safe.
class CompletionBell {
 public:
  // `event_fd` is the device's completion eventfd (its copy went to the
  // device), or -1.
  CompletionBell(const Aperture* submission, const Aperture* completion,
                 int event_fd)
      : armed_(&submission->submission_control().completion_armed),
        summary_(&completion->completion_control().summary),
        event_fd_(event_fd) {}

  // After any number of GpuRing::Complete(). Costs one fence and one load when
  // the device is awake.
  void Signal() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint32_t armed =
        std::atomic_ref<uint32_t>(*armed_).load(std::memory_order_relaxed);
    if (armed != 0) Wake(armed);
  }
  // Wakes the device whatever it says: it must look at a closed word.
  void SignalAlways() const { Wake(kArmedFutexMask | kArmedEventFd); }

 private:
  void Wake(uint32_t armed) const;

  uint32_t* const armed_;    // writer: the device
  uint32_t* const summary_;  // writer: gpud
  const int event_fd_;
};

// Thread-local closed flag of a device process: the watcher that sees gpud die
// sets it, every waiter of the process looks at it and sleeps on it.
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
// safe.
class CompletionWaiter {
 public:
  CompletionWaiter(const Aperture* submission, const Aperture* completion,
                   const ClosedWord* closed)
      : armed_(&submission->submission_control().completion_armed),
        control_(&completion->completion_control()),
        closed_(closed) {}

  // Returns true as soon as ready() is true; false when the aperture or the
  // peer is closed or `timeout` has passed first. Spins for `spin`, then
  // sleeps. ready() may run any number of times.
  template <class Ready>
  bool WaitUntil(Ready ready, std::chrono::nanoseconds timeout,
                 std::chrono::nanoseconds spin) {
    const Nanoseconds start = NowNs();
    for (uint32_t turn = 1;; ++turn) {
      if (ready()) return true;
      CpuRelax();
      // The clock costs more than a look; and a spin must end when the other
      // side ended.
      if (turn % 64 == 0 &&
          (closed() || NowNs() - start >= Nanoseconds(spin.count())))
        break;
    }
    std::atomic_ref<uint32_t> armed(*armed_);
    armed.fetch_add(1, std::memory_order_seq_cst);
    bool found = false;
    while (true) {
      const uint32_t summary = LoadSummary();
      found = ready();
      if (found || closed()) break;
      const Nanoseconds spent = NowNs() - start;
      if (spent >= Nanoseconds(timeout.count())) break;
      const std::array<FutexWord, 2> words = {
          FutexWord{&control_->summary, summary}, closed_->AsFutex()};
      FutexWait(words, timeout - std::chrono::nanoseconds(spent));
    }
    armed.fetch_sub(1, std::memory_order_seq_cst);
    return found;
  }

  // For devices that sleep in epoll: after ArmEventFd(), every completion makes
  // the completion eventfd readable. The caller looks at its rings once more
  // before it sleeps, drains the eventfd after it, and disarms.
  void ArmEventFd() {
    std::atomic_ref<uint32_t>(*armed_).fetch_or(kArmedEventFd,
                                                std::memory_order_seq_cst);
  }
  void DisarmEventFd() {
    std::atomic_ref<uint32_t>(*armed_).fetch_and(~kArmedEventFd,
                                                 std::memory_order_relaxed);
  }

  // Why the aperture was closed by gpud; kPeerDied when gpud itself is gone;
  // kOpen otherwise.
  CloseReason close_reason() const;
  bool closed() const { return close_reason() != CloseReason::kOpen; }

 private:
  uint32_t LoadSummary() const {
    return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(control_->summary))
        .load(std::memory_order_seq_cst);
  }

  uint32_t* const armed_;                   // writer: this process
  const CompletionControl* const control_;  // writer: gpud
  const ClosedWord* const closed_;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_BELLS_H_
