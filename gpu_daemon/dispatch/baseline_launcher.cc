#include "gpu_daemon/dispatch/baseline_launcher.h"

#include <algorithm>
#include <utility>

#include "gpu_daemon/dispatch/make_launch.h"

namespace carillon::gpud {
namespace {

// Hyper-Q's queues: CUDA code polls the end of as many streams.
constexpr size_t kPolledAtOnce = 32;

}  // namespace

bool BaselineLauncher::Launch(const std::shared_ptr<EventKernel>& event,
                              shm::Sequence sequence, CheckedEntry& entry) {
  auto launch = MakeLaunch(event, sequence, entry);
  launch->from_host = true;
  if (completion_ == Completion::kEventPolling) {
    auto polled = std::make_shared<Polled>();
    polled->event = event;
    polled->sequence = sequence;
    polled->life = entry.life;
    launch->on_end = [polled](const LaunchResult& result) {
      polled->result = result;
      polled->ended.store(true, std::memory_order_release);
    };
    polled_.push_back(std::move(polled));
  }
  kmu_->Submit(std::move(launch));
  return false;
}

bool BaselineLauncher::Reap() {
  const auto looked_at = polled_.begin() + static_cast<ptrdiff_t>(std::min(
                                               polled_.size(), kPolledAtOnce));
  const auto running = std::stable_partition(
      polled_.begin(), looked_at, [](const std::shared_ptr<Polled>& polled) {
        return polled->ended.load(std::memory_order_acquire);
      });
  if (running == polled_.begin()) return false;
  std::for_each(polled_.begin(), running,
                [](const auto& polled) { Complete(*polled); });
  polled_.erase(polled_.begin(), running);
  return true;
}

void BaselineLauncher::Complete(const Polled& polled) {
  const bool traced = polled.life.seen_ns != 0;
  shm::EventLife life = polled.life;
  life.dispatched_ns = polled.result.dispatched_ns;
  life.finished_ns = polled.result.finished_ns;
  if (polled.event->End(polled.sequence, {.state = polled.result.state,
                                          .status = polled.result.status,
                                          .life = traced ? &life : nullptr})) {
    polled.event->memory().bell().Signal();
  }
}

}  // namespace carillon::gpud
