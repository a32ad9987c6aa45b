// A front-end on a CPU core: one thread that looks at doorbells, and sleeps when
// none has rung for a while.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_FRONT_END_H_
#define CARILLON_GPU_DAEMON_DISPATCH_FRONT_END_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/dispatch/doorbell_poller.h"
#include "gpu_daemon/dispatch/launcher.h"
#include "gpu_daemon/dispatch/run_clock.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/launch_path.h"
#include "shm/spin_budget.h"
#include "shm/waiting.h"

namespace carillon::gpud {

// Public calls are thread safe and return when the front-end's thread has
// carried them out; they must not come from that thread. Once it has ended, the
// callers carry them out, one at a time.
class FrontEnd : public LaunchPath {
 public:
  struct Options {
    GpuModel gpu;
    bool tracing = false;
    // Longest spin for a doorbell before sleeping; the spin adapts below it.
    Nanoseconds max_spin_ns = 50'000;
    // A sleeping front-end looks around this often whatever happens.
    std::chrono::milliseconds longest_sleep{500};
    OnViolation on_violation;
    // See DoorbellPoller::Options.
    Ticks (*ticks)() = nullptr;
    // Of the thread, at most 15 letters.
    std::string thread_name = "gpud-front-end";
  };

  FrontEnd(Options options, std::unique_ptr<Launcher> launcher);
  ~FrontEnd() override;  // stops

  // Errors: the launcher's and DoorbellPoller::Add()'s.
  absl::Status Add(std::shared_ptr<EventKernel> event) override;
  void Remove(const std::shared_ptr<EventKernel>& event) override;
  std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory* memory) override;
  void Wake(const std::shared_ptr<EventKernel>& event) override;
  // A device whose doorbells are slept on before it has event kernels, too.
  void AddDevice(const std::shared_ptr<DeviceMemory>& device);
  // Carries out `action` between two looks at the doorbells.
  void Call(std::function<void()> action);
  void SetTracing(bool on) override;
  std::vector<PathCounter> counters() const override;
  uint64_t polls() const { return polls_.load(std::memory_order_relaxed); }
  uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }
  // What the launcher runs in this thread runs to its end.
  void Stop() override;

 private:
  void Run();
  // False if there was work after all.
  bool Sleep(uint32_t mailbox_seen);
  // The front-end looks at its mailbox and at stop_.
  void Rouse();
  // One call, so that callers cannot keep doorbells waiting. True if there are
  // more.
  bool RunMailbox();
  void CloseMailbox();

  const Options options_;
  const std::unique_ptr<Launcher> launcher_;
  // The front-end's thread only.
  DoorbellPoller poller_;
  shm::SpinBudget spin_;
  Nanoseconds idle_since_ns_ = 0;
  uint32_t idle_polls_ = 0;

  // Mailbox: calls for the front-end's thread. Closed by it, at its end: then
  // what is its own belongs to whoever holds the lock.
  Mutex mailbox_mutex_;
  std::deque<std::function<void()>> mailbox_ ABSL_GUARDED_BY(mailbox_mutex_);
  // By Wake(), each once.
  std::vector<std::shared_ptr<EventKernel>> scheduled_
      ABSL_GUARDED_BY(mailbox_mutex_);
  bool mailbox_closed_ ABSL_GUARDED_BY(mailbox_mutex_) = false;
  // Futex word. Writers: callers, after mailbox_, scheduled_ or stop_; reader:
  // the front-end, which looks at those after it has seen the word change.
  std::atomic<uint32_t> mailbox_word_{0};

  // Writer: Stop(), before it bumps the word; reader: the front-end, after it
  // has read the word, whose order serves both.
  std::atomic<bool> stop_{false};
  // Writer: the front-end; readers: whoever shows them. Relaxed: figures.
  std::atomic<uint64_t> polls_{0};
  std::atomic<uint64_t> sleeps_{0};
  std::once_flag stopped_;
  std::thread thread_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_FRONT_END_H_
