// A GPU that is played by threads, for tests of the dispatcher of launch path
// `edge`: execs, budgets and relaunches that misbehave as real ones do.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_TEST_GPU_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_TEST_GPU_H_

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/edge/edge_dispatch.h"
#include "gpu_daemon/backends/cuda/edge/edge_thread_port.h"
#include "gpu_daemon/event/event_kernel.h"

namespace carillon::gpud::edge_test {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

// --- The event kernel: mixes its parameters into one word of output.

struct MixArgs {
  uint64_t a;                    // writable
  uint32_t b;                    // writable
  uint32_t ring;                 // constant
  simt::Span<const uint8_t> in;  // writable: a part of the device's buffer
  simt::Span<uint64_t> out;      // a word a slot
};
inline constexpr simt::ParamInfo kMixParams[] = {
    CARILLON_PARAM(MixArgs, a, ""), CARILLON_PARAM(MixArgs, b, ""),
    CARILLON_PARAM(MixArgs, ring, ""), CARILLON_PARAM(MixArgs, in, ""),
    CARILLON_PARAM(MixArgs, out, "")};
inline constexpr simt::KernelInfo kMix = {.name = "mix",
                                          .summary = "",
                                          .params = kMixParams,
                                          .args_size = sizeof(MixArgs),
                                          .args_align = alignof(MixArgs)};
// What the device writes into an entry, as ArgumentPlan packs it.
struct MixParameters {
  uint64_t a;
  uint32_t b;
  uint32_t padding;
  shm::BufferRef in;
};
inline constexpr uint64_t kInBytes = 256;
// The device asks for a kernel that ends only when the test says so.
inline constexpr uint32_t kStuck = 0xfffffffe;
inline constexpr uint32_t kStuckToo = 0xfffffffd;  // another gate

inline uint64_t Mixed(uint64_t a, uint32_t b, uint64_t in_size) {
  return (a ^ b * 0x9e3779b97f4a7c15) + in_size;
}
// 0, or the kernel's own failure.
inline uint32_t FailOf(uint32_t b) { return b % 11 == 3 ? 5 : 0; }

struct Config {
  std::string name;
  uint32_t dispatchers = 2;
  uint32_t pollers = 1;
  uint32_t event_warps = 2;
  uint32_t budget = 8;                  // what the dispatcher is told
  uint32_t real_budget = 8;             // what an execution really may launch
  std::vector<bool> inlined = {false};  // of the rings
  uint32_t devices = 1;
  std::vector<uint32_t> rings = {4};  // entries of each ring of a device
  uint32_t launch_slots = 64;         // of each ring, at most
  uint32_t first_doorbell = 0;        // what the doorbells show at first
  uint32_t error_percent = 0;         // of launches
  uint32_t longest_retiring = 30;     // in yields
  uint32_t events = 250;              // a ring
  uint64_t seed = 1;
};

// --- A GPU.

inline constexpr uint64_t kLaunchError = 99;
inline constexpr uint64_t kRelaunchError = 98;

class FakeGpu : public EdgeThreadGpu {
 public:
  explicit FakeGpu(const Config& config) : config_(config) {
    for (int i = 0; i < 4; ++i) {
      workers_.emplace_back([this, i] { Work(config_.seed + i); });
    }
  }
  ~FakeGpu() override {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  uint64_t AddExec(simt::EventFrame* frame) {
    execs_.emplace_back(std::make_unique<Exec>());
    execs_.back()->frame = frame;
    return execs_.size() - 1;
  }

  // A host's launch of a dispatcher's graph into its own stream.
  void Start(EdgeTable* table, uint32_t dispatcher) {
    streams_[dispatcher].thread =
        std::thread([this, table, dispatcher] { Stream(table, dispatcher); });
  }
  void Synchronize() {
    for (DispatcherStream& stream : streams_) {
      if (stream.thread.joinable()) stream.thread.join();
    }
  }

  LaunchOutcome Launch(uint32_t dispatcher, uint64_t id,
                       uint64_t* error) override {
    DispatcherStream& stream = streams_[dispatcher];
    std::lock_guard lock(mutex_);
    *error = kLaunchError;
    if (stream.launched >= config_.real_budget ||
        random_() % 100 < config_.error_percent) {
      return LaunchOutcome::kError;
    }
    Exec& exec = *execs_[id];
    if (exec.running) return LaunchOutcome::kBusy;
    exec.running = true;
    exec.dispatcher = dispatcher;
    ++stream.launched;
    ++stream.children;
    ++launches_;
    queue_.push_back(&exec);
    changed_.notify_all();
    return LaunchOutcome::kLaunched;
  }
  bool Relaunch(uint32_t dispatcher, uint64_t* error) override {
    std::lock_guard lock(mutex_);
    *error = kRelaunchError;
    if (fail_relaunches_ != 0) {
      --fail_relaunches_;
      return false;
    }
    EXPECT_FALSE(streams_[dispatcher].tail) << "one pending tail launch";
    streams_[dispatcher].tail = true;
    return true;
  }
  void RunInline(const EdgeEntry&, const std::byte* args,
                 uint32_t* fail_status) override {
    *fail_status = RunMix(args);
  }
  void Trap() override {
    std::lock_guard lock(mutex_);
    alive_ = false;
    changed_.notify_all();
  }
  bool alive() const override { return alive_; }

  uint64_t launches() {
    std::lock_guard lock(mutex_);
    return launches_;
  }
  void FailRelaunches(uint32_t count) { fail_relaunches_ = count; }
  void LetStuckEnd(bool too = false) { stuck_may_end_[too] = true; }
  uint32_t stuck(bool too = false) const { return stuck_[too]; }
  // How often each event of a ring was run.
  std::vector<std::vector<std::atomic<uint8_t>>> runs;

  uint32_t RunMix(const std::byte* bytes) {
    MixArgs args;
    std::memcpy(&args, bytes, sizeof(args));
    if (args.b == kStuck || args.b == kStuckToo) {
      const bool too = args.b == kStuckToo;
      ++stuck_[too];
      while (!stuck_may_end_[too] && alive_) sched_yield();
      --stuck_[too];
    }
    args.out[0] = Mixed(args.a, args.b, args.in.size);
    ++runs[args.ring][args.a];
    return FailOf(args.b);
  }

 private:
  struct Exec {
    simt::EventFrame* frame = nullptr;
    bool running = false;
    uint32_t dispatcher = 0;
  };
  struct DispatcherStream {
    std::thread thread;
    uint32_t launched = 0;  // of this execution
    uint32_t children = 0;  // not retired
    bool tail = false;
  };

  // Executions of a dispatcher's graph, one after another.
  void Stream(EdgeTable* table, uint32_t dispatcher) {
    DispatcherStream& self = streams_[dispatcher];
    std::mt19937_64 random(config_.seed + 100 + dispatcher);
    for (;;) {
      {
        std::lock_guard lock(mutex_);
        self.launched = 0;
        self.tail = false;
      }
      const auto block = std::make_unique<EdgeBlock>();  // zeroed
      std::vector<std::thread> warps;
      for (uint32_t warp = 0; warp < table->pollers + table->event_warps;
           ++warp) {
        warps.emplace_back([&, warp] {
          EdgeThreadPort port(this, dispatcher);
          try {
            RunEdgeDispatcher(port, *table, *block, dispatcher, warp);
          } catch (const EdgeContextLost&) {
          }
        });
      }
      for (std::thread& warp : warps) warp.join();
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return self.children == 0 || !alive_; });
        if (!self.tail || !alive_) return;
      }
      for (uint64_t gap = random() % 50; gap > 0; --gap) sched_yield();
    }
  }

  // Runs what was launched, in any order.
  void Work(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (;;) {
      Exec* exec;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
        if (queue_.empty()) return;
        const auto at =
            queue_.begin() + static_cast<ptrdiff_t>(random() % queue_.size());
        exec = *at;
        queue_.erase(at);
      }
      simt::EventFrame& frame = *exec->frame;
      Finish(frame, RunMix(frame.args()));
      // The completion is out; the exec is not free yet.
      for (uint64_t i = random() % (config_.longest_retiring + 1); i > 0; --i) {
        sched_yield();
      }
      std::lock_guard lock(mutex_);
      exec->running = false;
      --streams_[exec->dispatcher].children;
      changed_.notify_all();
    }
  }

  // The epilogue of an event kernel.
  // As kernels do, it has a copy of the frame: with `slot_ended` that is its
  // launcher's again.
  static void Finish(simt::EventFrame frame, uint32_t fail_status) {
    EdgeThreadPort port(nullptr, 0);
    if (frame.life != nullptr) {
      port.StoreSystem(&frame.life->finished_ns, NowNs());
    }
    port.PutDevice(frame.slot_ended, frame.sequence);
    std::atomic_ref<uint32_t>(*frame.launcher_ended)
        .fetch_add(1, std::memory_order_release);
    port.Complete(frame.ecq,
                  fail_status == 0 ? EventState::kDone : EventState::kFailed,
                  simt::CompletionStatus(fail_status), frame.sequence);
    port.CountDevice(
        fail_status == 0 ? &frame.totals->done : &frame.totals->failed, 1);
  }

  const Config config_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_{config_.seed};
  std::vector<std::unique_ptr<Exec>> execs_;
  std::deque<Exec*> queue_;
  DispatcherStream streams_[kEdgeMaxDispatchers];
  uint64_t launches_ = 0;
  std::atomic<uint32_t> fail_relaunches_{0};
  bool closing_ = false;
  std::atomic<bool> alive_{true};
  std::atomic<bool> stuck_may_end_[2] = {false, false};
  std::atomic<uint32_t> stuck_[2] = {0, 0};
  std::vector<std::thread> workers_;
};

}  // namespace carillon::gpud::edge_test

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_TEST_GPU_H_
