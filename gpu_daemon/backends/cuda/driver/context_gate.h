// Who may call the driver when: while a context is lost, nobody.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_CONTEXT_GATE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_CONTEXT_GATE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "absl/status/status.h"

namespace carillon::gpud::cuda {

// A thread's right to call the driver, with the context current.
class ContextLease {
 public:
  ContextLease() = default;
  explicit operator bool() const { return lock_.owns_lock(); }

 private:
  friend class ContextGate;
  explicit ContextLease(std::shared_lock<std::shared_mutex> lock)
      : lock_(std::move(lock)) {}
  std::shared_lock<std::shared_mutex> lock_;
};

// Thread safe.
class ContextGate {
 public:
  // False, at once, while the context is lost.
  ContextLease TryEnter();
  // Waits for a context. False: there will be none any more.
  ContextLease Enter();

  bool up() const {
    return state_.load(std::memory_order_relaxed) == State::kUp;
  }
  // The context is lost. False: somebody has said so before.
  bool Lose();
  // Why there will be no context any more; OK while there may be.
  absl::Status health() const;
  // Nobody waits for a context from now on.
  void Close();

  // --- The recovering thread's.

  // Waits for so long, or until the context is lost. False: it is closed.
  bool AwaitLoss(std::chrono::milliseconds limit);
  bool lost() const {
    return state_.load(std::memory_order_relaxed) == State::kLost;
  }
  // Waits until nobody has a lease; none is given meanwhile.
  std::unique_lock<std::shared_mutex> Bar() { return std::unique_lock(gate_); }
  // The context is there again; or there will be none, and why.
  void Open(absl::Status status);

 private:
  enum class State { kUp, kLost, kBroken };

  // Held by leases (shared) and by recovery (alone).
  std::shared_mutex gate_;
  // Writers: whoever finds a fault (to kLost), the recovering thread. Readers:
  // all. Relaxed: the gate orders what it stands for.
  std::atomic<State> state_{State::kUp};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status broken_;
  bool closed_ = false;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_CONTEXT_GATE_H_
