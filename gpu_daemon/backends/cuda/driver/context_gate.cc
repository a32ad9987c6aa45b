#include "gpu_daemon/backends/cuda/driver/context_gate.h"

namespace carillon::gpud::cuda {

ContextLease ContextGate::TryEnter() {
  if (!up()) return {};
  // Without waiting: recovery may wait for what this thread holds.
  std::shared_lock lock(gate_, std::try_to_lock);
  if (!lock || !up()) return {};
  return ContextLease(std::move(lock));
}

ContextLease ContextGate::Enter() {
  while (true) {
    if (ContextLease lease = TryEnter()) return lease;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !lost(); });
    if (closed_ || state_.load(std::memory_order_relaxed) == State::kBroken) {
      return {};
    }
  }
}

bool ContextGate::Lose() {
  auto up = State::kUp;
  const bool first = state_.compare_exchange_strong(up, State::kLost,
                                                    std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  changed_.notify_all();
  return first;
}

absl::Status ContextGate::health() const {
  std::lock_guard lock(mutex_);
  return broken_;
}

void ContextGate::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

bool ContextGate::AwaitLoss(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return closed_ || lost(); });
  return !closed_;
}

void ContextGate::Open(absl::Status status) {
  std::lock_guard lock(mutex_);
  state_.store(status.ok() ? State::kUp : State::kBroken,
               std::memory_order_relaxed);
  broken_ = std::move(status);
  changed_.notify_all();
}

}  // namespace carillon::gpud::cuda
