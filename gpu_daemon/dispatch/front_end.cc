#include "gpu_daemon/dispatch/front_end.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "shm/waiting.h"

namespace carillon::gpud {
namespace {

// A spin that has lasted so long lets others run in between: with fewer cores
// than processes it may be the device that waits for this core.
constexpr Nanoseconds kYieldAfterNs = 2'000;

}  // namespace

FrontEnd::FrontEnd(Options options, std::unique_ptr<Launcher> launcher)
    : options_(std::move(options)),
      launcher_(std::move(launcher)),
      poller_({.gpu = options_.gpu,
               .tracing = options_.tracing,
               .on_violation = options_.on_violation,
               .ticks = options_.ticks},
              launcher_.get()),
      spin_(options_.max_spin_ns) {
  thread_ = std::thread([this] { Run(); });
}

FrontEnd::~FrontEnd() { Stop(); }

void FrontEnd::Stop() {
  std::call_once(stopped_, [this] {
    stop_.store(true, std::memory_order_relaxed);
    Rouse();
    thread_.join();
  });
}

void FrontEnd::Rouse() {
  mailbox_word_.fetch_add(1, std::memory_order_seq_cst);
  shm::FutexWakeAll(reinterpret_cast<const uint32_t*>(&mailbox_word_));
}

void FrontEnd::Wake(const std::shared_ptr<EventKernel>& event) {
  {
    MutexLock lock(mailbox_mutex_);
    if (mailbox_closed_) return;
    if (std::find(scheduled_.begin(), scheduled_.end(), event) ==
        scheduled_.end()) {
      scheduled_.push_back(event);
    }
  }
  Rouse();
}

void FrontEnd::Call(std::function<void()> action) {
  std::mutex mutex;
  std::condition_variable done;
  bool ran = false;
  {
    MutexLock lock(mailbox_mutex_);
    if (mailbox_closed_) return action();
    mailbox_.push_back([&] {
      action();
      std::lock_guard done_lock(mutex);
      ran = true;
      done.notify_one();
    });
  }
  Rouse();
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return ran; });
}

bool FrontEnd::RunMailbox() {
  std::function<void()> call;
  std::vector<std::shared_ptr<EventKernel>> scheduled;
  bool more = false;
  {
    MutexLock lock(mailbox_mutex_);
    scheduled.swap(scheduled_);
    if (!mailbox_.empty()) {
      call = std::move(mailbox_.front());
      mailbox_.pop_front();
    }
    more = !mailbox_.empty();
  }
  if (call) call();
  for (const auto& event : scheduled) poller_.LookAt(*event);
  return more;
}

// Under the lock to the end: whoever finds the mailbox closed finds its last
// calls carried out.
void FrontEnd::CloseMailbox() {
  MutexLock lock(mailbox_mutex_);
  for (auto& call : mailbox_) call();
  mailbox_.clear();
  scheduled_.clear();
  mailbox_closed_ = true;
}

absl::Status FrontEnd::Add(std::shared_ptr<EventKernel> event) {
  absl::Status status = launcher_->Prepare(*event);
  if (!status.ok()) return status;
  Call([&] { status = poller_.Add(event); });
  if (!status.ok()) launcher_->NotAdded();
  return status;
}

void FrontEnd::AddDevice(const std::shared_ptr<DeviceMemory>& device) {
  Call([&] {
    poller_.AddDevice(device);
    launcher_->AddDevice(device);
  });
}

void FrontEnd::Remove(const std::shared_ptr<EventKernel>& event) {
  Call([&] { poller_.Remove(event); });
}

std::vector<std::shared_ptr<EventKernel>> FrontEnd::RemoveDevice(
    const DeviceMemory* memory) {
  std::vector<std::shared_ptr<EventKernel>> removed;
  Call([&] { removed = poller_.RemoveDevice(memory); });
  return removed;
}

void FrontEnd::SetTracing(bool on) {
  Call([&] { poller_.SetTracing(on); });
}

std::vector<PathCounter> FrontEnd::counters() const {
  std::vector<PathCounter> counters = {{"polls", polls()},
                                       {"sleeps", sleeps()}};
  for (const PathCounter& own : launcher_->counters()) counters.push_back(own);
  return counters;
}

void FrontEnd::Run() {
  pthread_setname_np(pthread_self(), options_.thread_name.c_str());
  uint32_t mailbox_seen = 0;
  bool more_calls = false;
  while (true) {
    const uint32_t mailbox = mailbox_word_.load(std::memory_order_acquire);
    // After the word: it is the last thing that a sleep compares.
    if (stop_.load(std::memory_order_relaxed)) break;
    if (mailbox != mailbox_seen || more_calls) {
      mailbox_seen = mailbox;
      more_calls = RunMailbox();
    }
    polls_.store(polls_.load(std::memory_order_relaxed) + 1,
                 std::memory_order_relaxed);
    const bool rung = poller_.PollOnce();
    if (launcher_->Reap() || rung || launcher_->Advance() || more_calls) {
      idle_since_ns_ = 0;
      continue;
    }
    shm::CpuRelax();
    // A look costs less than the clock: read it now and then.
    if (++idle_polls_ % 32 != 0) continue;
    poller_.MarkTime();
    const Nanoseconds now = NowNs();
    if (idle_since_ns_ == 0) idle_since_ns_ = now;
    const bool may_sleep = !launcher_->must_poll();
    if (may_sleep && now - idle_since_ns_ >= spin_.budget()) {
      if (Sleep(mailbox_seen)) spin_.Slept(NowNs() - idle_since_ns_);
      idle_since_ns_ = 0;
    } else if (now - idle_since_ns_ >= kYieldAfterNs) {
      sched_yield();
    }
  }
  CloseMailbox();
}

bool FrontEnd::Sleep(uint32_t mailbox_seen) {
  return poller_.SleepUnlessRung(
      {reinterpret_cast<const uint32_t*>(&mailbox_word_), mailbox_seen},
      options_.longest_sleep, &sleeps_);
}

}  // namespace carillon::gpud
