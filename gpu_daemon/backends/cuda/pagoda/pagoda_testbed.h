// A MasterKernel that is played by threads, and a copy engine that brings the
// words of an entry in any order.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_TESTBED_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_TESTBED_H_

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gpu_daemon/backends/cuda/edge/edge_thread_port.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_executor.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_scheduler.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_thread_port.h"
#include "gpu_daemon/backends/cuda/pagoda/task_link.h"
#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"

namespace carillon::gpud::pagoda_test {

inline constexpr Nanoseconds kLong = 20'000'000'000;

// Copies arrive one after another, in a thread of their own. What is not a state
// is written without an atomic: TSan sees who reads it too early.
class ShuffledLink : public TaskLink {
 public:
  ShuffledLink(TaskEntry* entries, uint64_t seed)
      : entries_(entries), random_(seed), engine_([this] { Work(); }) {}
  ~ShuffledLink() override {
    {
      std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    engine_.join();
  }

  absl::Status CopyEntry(uint32_t entry, const TaskEntry& from) override {
    Post({entry, false, from});
    return absl::OkStatus();
  }
  absl::Status CopyState(uint32_t entry, TaskState state) override {
    Post({entry, true, {.state = state}});
    return absl::OkStatus();
  }
  absl::Status StoreEntry(uint32_t entry, const TaskEntry& from) override {
    std::memcpy(reinterpret_cast<std::byte*>(&entries_[entry]) + kStateBytes,
                reinterpret_cast<const std::byte*>(&from) + kStateBytes,
                sizeof(from) - kStateBytes);
    std::atomic_ref(entries_[entry].state)
        .store(from.state, std::memory_order_release);
    return absl::OkStatus();
  }
  absl::Status CopyBack(uint32_t first, std::span<TaskState> states) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return copies_.empty(); });
    for (size_t i = 0; i < states.size(); ++i) {
      states[i] = std::atomic_ref(entries_[first + i].state)
                      .load(std::memory_order_acquire);
    }
    return absl::OkStatus();
  }

 private:
  struct Copy {
    uint32_t entry;
    bool state_only;
    TaskEntry from;
  };
  static constexpr size_t kStateBytes = sizeof(TaskState);

  void Post(const Copy& copy) {
    {
      std::lock_guard lock(mutex_);
      copies_.push_back(copy);
    }
    changed_.notify_all();
  }
  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !copies_.empty(); });
      if (copies_.empty()) return;
      const Copy copy = copies_.front();
      lock.unlock();
      Bring(copy);
      lock.lock();
      copies_.pop_front();
      changed_.notify_all();
    }
  }
  // Words of four bytes: a state comes in halves.
  void Bring(const Copy& copy) {
    const size_t words =
        (copy.state_only ? kStateBytes : sizeof(TaskEntry)) / 4;
    std::vector<size_t> order(words);
    for (size_t i = 0; i < words; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    auto* to = reinterpret_cast<uint32_t*>(&entries_[copy.entry]);
    const auto* from = reinterpret_cast<const uint32_t*>(&copy.from);
    for (const size_t i : order) {
      if (i < kStateBytes / 4) {
        std::atomic_ref(to[i]).store(from[i], std::memory_order_release);
        for (uint64_t n = random_() % 4; n > 0; --n) sched_yield();
      } else {
        std::memcpy(&to[i], &from[i], 4);
      }
    }
  }

  TaskEntry* const entries_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copy> copies_;
  bool ends_ = false;
  std::thread engine_;
};

struct Config {
  std::string name;
  uint32_t columns = 2;
  uint32_t rows = 2;
  uint32_t executors = 4;
  TaskWrite write = TaskWrite::kCopy;
  uint64_t seed = 1;
};

// What RunTask runs.
using TaskBody = std::function<void(uint32_t column, const TaskEntry& entry,
                                    const TaskWarp& warp)>;

// Threads as barriers of an MTB: a warp that comes to a barrier of another block
// is a failure.
class Barriers {
 public:
  // All `warps` warps of the block come to barrier `id`.
  template <class Alive>
  void Meet(uint32_t id, uint64_t block, uint32_t warps, Alive alive) {
    uint64_t turn;
    {
      std::lock_guard lock(mutex_);
      Barrier& barrier = barriers_.at(id);
      if (barrier.arrived == 0) barrier.block = block;
      EXPECT_EQ(barrier.block, block) << "barrier " << id << " is shared";
      turn = barrier.turn;
      if (++barrier.arrived == warps) {
        barrier.arrived = 0;
        ++barrier.turn;
      }
    }
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        if (barriers_[id].turn != turn) return;
      }
      alive();
      sched_yield();
    }
  }

 private:
  struct Barrier {
    uint64_t block = 0;
    uint32_t arrived = 0;
    uint64_t turn = 0;
  };
  std::mutex mutex_;
  std::array<Barrier, 16> barriers_;
};

class MasterKernel : public PagodaThreadGpu {
 public:
  MasterKernel(const Config& config, TaskBody body)
      : config_(config),
        body_(std::move(body)),
        entries_(config.columns * config.rows),
        barriers_(config.columns),
        shared_(config.columns),
        table_{.entries = entries_.data(),
               .command = &command_,
               .columns = config.columns,
               .rows = config.rows,
               .executors = config.executors},
        link_(entries_.data(), config.seed) {
    for (auto& bytes : shared_) bytes.resize(kTaskSharedBytes);
    Start();
  }
  ~MasterKernel() override {
    alive_ = false;
    Join();
  }

  void Start() {
    Command(TaskCommand::kServe);
    for (uint32_t column = 0; column < config_.columns; ++column) {
      auto block = std::make_shared<MtbBlock>();
      std::memset(block.get(), 0, sizeof(*block));
      AddWarp([this, column, block] {
        is_scheduler_ = true;
        PagodaThreadPort port(this, column);
        MtbScheduler<PagodaThreadPort>(port, table_, *block, column).Run();
      });
      for (uint32_t i = 0; i < config_.executors; ++i) {
        AddWarp([this, column, block, i] {
          PagodaThreadPort port(this, column);
          MtbExecutor<PagodaThreadPort>(port, table_, *block, column, i).Run();
        });
      }
    }
  }
  // What has begun ends.
  void Leave() {
    Command(TaskCommand::kLeave);
    Join();
  }

  TaskLink& link() { return link_; }
  const std::vector<TaskEntry>& entries() const { return entries_; }
  std::byte* shared(uint32_t column, uint32_t offset) {
    return shared_[column].data() + offset;
  }
  void Meet(uint32_t column, const TaskWarp& warp, uint64_t block,
            uint32_t warps) {
    if (warp.barrier == 0) return;
    barriers_[column].Meet(warp.barrier, block, warps, [this] { Check(); });
  }
  // For bodies that wait. Ends the warp when the context is gone.
  void Check() {
    if (!alive_) throw EdgeContextLost();
  }
  template <class F>
  void AwaitInBody(F holds) {
    while (!holds()) {
      Check();
      sched_yield();
    }
  }
  // Every scheduler warp that has nothing it can do has found so `n` times more.
  void AwaitSchedulers(uint64_t n) {
    const uint64_t end = rounds_ + n;
    ASSERT_TRUE(Until([&] { return rounds_ >= end; }));
  }
  static bool Until(const std::function<bool()>& holds) {
    const Nanoseconds end = NowNs() + kLong;
    while (!holds()) {
      if (NowNs() > end) return false;
      sched_yield();
    }
    return true;
  }

  void RunTask(uint32_t column, const TaskEntry& entry,
               const TaskWarp& warp) override {
    body_(column, entry, warp);
  }
  bool alive() const override {
    if (is_scheduler_) ++rounds_;
    return alive_;
  }

 private:
  template <class F>
  void AddWarp(F run) {
    threads_.emplace_back([run] {
      try {
        run();
      } catch (const EdgeContextLost&) {
      }
    });
  }
  void Command(TaskCommand command) {
    std::atomic_ref(command_).store(static_cast<uint32_t>(command));
  }
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  static inline thread_local bool is_scheduler_ = false;

  const Config config_;
  const TaskBody body_;
  std::vector<TaskEntry> entries_;
  std::vector<Barriers> barriers_;
  std::vector<std::vector<std::byte>> shared_;
  uint32_t command_ = 0;
  const TaskTable table_;
  std::atomic<bool> alive_{true};
  mutable std::atomic<uint64_t> rounds_{0};
  ShuffledLink link_;
  std::vector<std::thread> threads_;
};

}  // namespace carillon::gpud::pagoda_test

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_TESTBED_H_
