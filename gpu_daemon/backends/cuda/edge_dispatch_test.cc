// The dispatcher of launch path `edge`, on a GPU that is played by threads:
// real apertures and rings, and execs, budgets, relaunches that misbehave as
// real ones do.
#include "gpu_daemon/backends/cuda/edge_dispatch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/edge_thread_port.h"
#include "gpu_daemon/backends/cuda/stage_entry.h"
#include "gpu_daemon/launch/test_device.h"
#include "shm/device_ring.h"
#include "shm/gpu_ring.h"

namespace carillon::gpud {
namespace {

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
constexpr simt::ParamInfo kMixParams[] = {
    CARILLON_PARAM(MixArgs, a, ""), CARILLON_PARAM(MixArgs, b, ""),
    CARILLON_PARAM(MixArgs, ring, ""), CARILLON_PARAM(MixArgs, in, ""),
    CARILLON_PARAM(MixArgs, out, "")};
constexpr simt::KernelInfo kMix = {.name = "mix",
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
constexpr uint64_t kInBytes = 256;
// The device asks for a kernel that ends only when the test says so.
constexpr uint32_t kStuck = 0xfffffffe;
constexpr uint32_t kStuckToo = 0xfffffffd;  // another gate

uint64_t Mixed(uint64_t a, uint32_t b, uint64_t in_size) {
  return (a ^ b * 0x9e3779b97f4a7c15) + in_size;
}
// 0, or the kernel's own failure.
uint32_t FailOf(uint32_t b) { return b % 11 == 3 ? 5 : 0; }

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
  uint32_t first_doorbell = 0;        // what the doorbells show at first
  uint32_t error_percent = 0;         // of launches
  uint32_t longest_retiring = 30;     // in yields
  uint32_t events = 250;              // a ring
  uint64_t seed = 1;
};

// --- A GPU.

constexpr uint64_t kLaunchError = 99;
constexpr uint64_t kRelaunchError = 98;

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

  uint64_t AddExec(EventFrame* frame) {
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
    EventFrame* frame = nullptr;
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
      EventFrame& frame = *exec->frame;
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
  static void Finish(EventFrame& frame, uint32_t fail_status) {
    EdgeThreadPort port(nullptr, 0);
    if (frame.life != nullptr) {
      port.StoreSystem(&frame.life->finished_ns, shm::NowNs());
    }
    port.CountDevice(
        fail_status == 0 ? &frame.totals->done : &frame.totals->failed, 1);
    port.PutDevice(frame.slot_ended, frame.sequence);
    std::atomic_ref<uint32_t>(*frame.launcher_ended)
        .fetch_add(1, std::memory_order_release);
    port.Complete(frame.ecq,
                  fail_status == 0 ? EventState::kDone : EventState::kFailed,
                  CompletionStatus(fail_status), frame.sequence);
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

// --- A ring with the table's entry for it, and the device that uses it.

struct Ring {
  uint32_t id = 0;     // of all
  uint32_t index = 0;  // in the table
  bool inlined = false;
  uint32_t rings_before = 0;
  TestDevice* device = nullptr;
  TestDevice::Event event;
  const uint8_t* in = nullptr;
  uint64_t* out = nullptr;
  // Device memory.
  std::vector<uint64_t> ended;
  std::vector<uint64_t> execs;
  std::vector<std::byte> frames;
  std::vector<EventScratch> scratch;
  std::vector<std::byte> arguments;

  const shm::RingLayout& layout() const { return event.ring->layout(); }
};

// What event n of a ring is, for whoever writes and for whoever checks it.
struct Rung {
  MixParameters parameters;
  EventStatus refused = EventStatus::kOk;
};
Rung EventOf(uint64_t seed, const Ring& ring, uint64_t n) {
  std::mt19937_64 random(seed ^ (ring.id * 1000003ull + n * 7919));
  Rung rung;
  rung.parameters.a = n;
  rung.parameters.b = static_cast<uint32_t>(random() % 1000);
  rung.parameters.in.offset = random() % 100;
  rung.parameters.in.length = random() % 100;
  rung.parameters.padding = 0;
  if (random() % 16 == 0) {
    rung.parameters.in.length = kInBytes;
    rung.parameters.in.offset = 1 + random() % 100;
    rung.refused = EventStatus::kBadBufferRef;
  }
  return rung;
}

// The host: makes the table, and starts and stops what serves it.
class Testbed {
 public:
  explicit Testbed(const Config& config) : config_(config), gpu_(config) {
    for (uint32_t d = 0; d < config.devices; ++d) {
      devices_.push_back(
          std::make_unique<TestDevice>("test" + std::to_string(d)));
      TestDevice& device = *devices_.back();
      // Every second device's are in its second line.
      device.next_doorbell = d % 2 == 0 ? 0 : kEdgeLanes;
      for (const uint32_t entries : config.rings) AddRing(device, d, entries);
    }
    gpu_.runs.resize(rings_.size());
    for (auto& runs : gpu_.runs) {
      runs = std::vector<std::atomic<uint8_t>>(config.events + 1);
    }
    MakeTable();
  }
  ~Testbed() {
    gpu_.LetStuckEnd();
    gpu_.LetStuckEnd(true);
    if (gpu_.alive()) {
      Command(EdgeCommand::kLeave);
    }
    gpu_.Synchronize();
  }

  FakeGpu& gpu() { return gpu_; }
  EdgeReport& report() { return report_; }
  EdgeTable& table() { return table_; }
  std::vector<std::unique_ptr<Ring>>& rings() { return rings_; }
  TestDevice& device(uint32_t i) { return *devices_[i]; }

  void Start() {
    table_.token = kEdgeTokenFree;
    std::atomic_ref<uint32_t>(report_.halted).store(0);
    Command(EdgeCommand::kServe);
    for (uint32_t i = 0; i < config_.dispatchers; ++i) gpu_.Start(&table_, i);
  }
  void Command(EdgeCommand command) {
    std::atomic_ref<uint32_t>(control_.command)
        .store(static_cast<uint32_t>(command), std::memory_order_relaxed);
  }
  void Trap() { std::atomic_ref<uint32_t>(control_.trap).store(1); }
  void Trace(EdgeTracing tracing) {
    std::atomic_ref<uint32_t>(control_.tracing)
        .store(static_cast<uint32_t>(tracing));
  }
  bool Halted() { return Load(report_.halted) == 1; }
  template <class T>
  static T Load(T& word) {
    return std::atomic_ref<T>(word).load(std::memory_order_acquire);
  }
  // Waits for a state; false after ten seconds.
  static bool Until(const std::function<bool()>& holds) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      sched_yield();
    }
    return true;
  }
  // Halts, leaves; nothing may be launched in between, and every event that was
  // taken has ended afterwards.
  void Stop() {
    Command(EdgeCommand::kHalt);
    ASSERT_TRUE(Until([&] { return Halted(); }));
    const uint64_t launches = gpu_.launches();
    Command(EdgeCommand::kLeave);
    gpu_.Synchronize();
    EXPECT_EQ(gpu_.launches(), launches);
    for (const auto& ring : rings_) {
      for (uint32_t warp = 0; warp < config_.event_warps; ++warp) {
        const EdgeHead& head = HeadOf(*ring, warp);
        if (head.next <= config_.event_warps) continue;
        const uint64_t last = head.next - config_.event_warps;
        EXPECT_GE(ring->event.kernel->ring().LoadCompletedSequence(
                      ring->layout().SlotOf(Sequence(last))),
                  last)
            << "ring " << ring->id << ", event warp " << warp;
      }
    }
  }
  EdgeHead& HeadOf(const Ring& ring, uint32_t warp) {
    return table_.HeadsOf(ring.index / kEdgeLanes,
                          warp)[ring.index % kEdgeLanes];
  }
  // As the host does it when the next event to take is `first`.
  void SetFirst(Ring& ring, uint64_t first, uint32_t rings_before) {
    for (uint32_t warp = 0; warp < config_.event_warps; ++warp) {
      HeadOf(ring, warp) =
          FirstHead(first, rings_before, warp, config_.event_warps,
                    ring.inlined ? uint32_t{kEdgeInline} : 0);
    }
    for (uint32_t slot = 0; slot < ring.layout().entries; ++slot) {
      ring.ended[slot] = FirstSlotEnded(first, slot, ring.layout().entries);
    }
  }

  // The device's side: rings in bursts, checks every completion, until all
  // events have ended.
  void RunDevice(Ring& ring) {
    std::mt19937_64 random(config_.seed * 31 + ring.id);
    shm::DeviceRing& device = *ring.event.ring;
    auto last_seen = std::chrono::steady_clock::now();
    while (device.last_consumed().value() < config_.events) {
      uint64_t burst = random() % 3 == 0 ? device.free_slots() : random() % 3;
      burst = std::min<uint64_t>(burst, device.free_slots());
      while (burst-- > 0 && device.last_committed().value() < config_.events) {
        Commit(ring,
               EventOf(config_.seed, ring, device.last_committed().value() + 1)
                   .parameters);
      }
      device.Ring();
      while (const auto completion = device.Poll()) {
        Check(ring, *completion);
        device.Consume();
        last_seen = std::chrono::steady_clock::now();
      }
      if (std::chrono::steady_clock::now() - last_seen >
          std::chrono::seconds(20)) {
        ADD_FAILURE() << "ring " << ring.id << ": event "
                      << device.last_consumed().value() + 1
                      << " does not end; seed " << config_.seed;
        return;
      }
      sched_yield();
    }
  }
  void Commit(Ring& ring, const MixParameters& parameters) {
    std::memcpy(ring.event.ring->parameters(), &parameters, sizeof(parameters));
    ring.event.ring->Commit();
  }
  void Check(const Ring& ring, const shm::Completion& completion) {
    const uint64_t n = completion.sequence.value();
    const Rung rung = EventOf(config_.seed, ring, n);
    const uint32_t fail = FailOf(rung.parameters.b);
    if (rung.refused != EventStatus::kOk) {
      EXPECT_EQ(completion.state, EventState::kFailed);
      EXPECT_EQ(completion.status, static_cast<uint32_t>(rung.refused));
      return;
    }
    EXPECT_EQ(completion.state,
              fail == 0 ? EventState::kDone : EventState::kFailed);
    EXPECT_EQ(completion.status, fail == 0 ? 0 : 1000 + fail);
    EXPECT_EQ(
        ring.out[ring.layout().SlotOf(completion.sequence)],
        Mixed(rung.parameters.a, rung.parameters.b, rung.parameters.in.length))
        << "ring " << ring.id << ", event " << n;
  }
  // Every event ran once, or was refused; and the figures say so.
  void CheckLedger() {
    for (const auto& ring : rings_) {
      EventTotals expected = {};
      for (uint64_t n = 1; n <= config_.events; ++n) {
        const Rung rung = EventOf(config_.seed, *ring, n);
        const bool refused = rung.refused != EventStatus::kOk;
        ASSERT_EQ(gpu_.runs[ring->id][n], refused ? 0 : 1)
            << "ring " << ring->id << ", event " << n;
        const bool failed = refused || FailOf(rung.parameters.b) != 0;
        expected.launched += refused ? 0 : 1;
        expected.refused += refused ? 1 : 0;
        expected.failed += failed ? 1 : 0;
        expected.done += failed ? 0 : 1;
      }
      const EventTotals& totals = table_.totals[ring->index];
      EXPECT_EQ(totals.launched, expected.launched);
      EXPECT_EQ(totals.done, expected.done);
      EXPECT_EQ(totals.failed, expected.failed);
      EXPECT_EQ(totals.refused, expected.refused);
      EXPECT_EQ(report_.violations[ring->index], 0u);
    }
  }

 private:
  void AddRing(TestDevice& device, uint32_t d, uint32_t entries) {
    auto ring = std::make_unique<Ring>();
    ring->id = static_cast<uint32_t>(rings_.size());
    ring->inlined = config_.inlined[ring->id % config_.inlined.size()];
    ring->device = &device;
    device.memory->submission().doorbells()[device.next_doorbell] =
        config_.first_doorbell;
    ring->rings_before = config_.first_doorbell;
    ring->index = d * kEdgeLanes + device.next_doorbell % kEdgeLanes;
    const auto in = *device.submission_heap->Allocate(kInBytes);
    const auto out = *device.completion_heap->Allocate(8 * entries);
    std::byte* in_data = device.memory->submission().At(in);
    std::byte* out_data = device.memory->completion().At(out);
    ring->in = reinterpret_cast<const uint8_t*>(in_data);
    ring->out = reinterpret_cast<uint64_t*>(out_data);
    ring->event = device.Register(
        {.kernel = &kMix,
         .bindings = {{.writable = true},
                      {.writable = true},
                      {.constant_bits = ring->id},
                      {.writable = true, .buffer = {in_data, kInBytes}},
                      {.buffer = {out_data, 8}, .slot_stride = 8}},
         .entries = entries});

    MixArgs image = {};
    image.ring = ring->id;
    image.out = {ring->out, 1};
    const SteppedBuffer stepped[] = {
        {.data = reinterpret_cast<uint64_t>(out_data),
         .stride = 8,
         .args_offset = offsetof(MixArgs, out)}};
    const WritableValue values[] = {{.args_offset = offsetof(MixArgs, a),
                                     .entry_offset = offsetof(MixParameters, a),
                                     .bytes = 8},
                                    {.args_offset = offsetof(MixArgs, b),
                                     .entry_offset = offsetof(MixParameters, b),
                                     .bytes = 4}};
    const WritableBuffer ranged[] = {
        {.data = reinterpret_cast<uint64_t>(in_data),
         .bytes = kInBytes,
         .args_offset = offsetof(MixArgs, in),
         .entry_offset = offsetof(MixParameters, in),
         .element_bytes = 1,
         .element_align = 1}};
    ring->arguments =
        PackArgumentSteps(std::as_bytes(std::span(&image, 1)), stepped, values,
                          ranged, sizeof(MixParameters));
    rings_.push_back(std::move(ring));
  }

  void MakeTable() {
    const uint32_t lines = config_.devices;
    entries_.resize(lines * kEdgeLanes);
    heads_.resize(lines * kEdgeLanes * config_.event_warps);
    totals_.resize(lines * kEdgeLanes);
    table_.control = &control_;
    table_.report = &report_;
    table_.entries = entries_.data();
    table_.heads = heads_.data();
    table_.totals = totals_.data();
    table_.dispatcher_count = config_.dispatchers;
    table_.pollers = config_.pollers;
    table_.event_warps = config_.event_warps;
    table_.budget = config_.budget;
    table_.report_every = 4;
    table_.line_count = lines;
    for (uint32_t d = 0; d < lines; ++d) {
      table_.lines[d].doorbells =
          devices_[d]->memory->submission().doorbells() +
          (d % 2 == 0 ? 0 : kEdgeLanes);
    }
    for (const auto& ring : rings_) FillIn(*ring);
  }

  void FillIn(Ring& ring) {
    const shm::RingLayout& layout = ring.layout();
    const shm::Aperture& submission = ring.device->memory->submission();
    const shm::Aperture& completion = ring.device->memory->completion();
    const auto frame_bytes =
        static_cast<uint32_t>(EventFrameBytes(sizeof(MixArgs)));
    ring.ended.resize(layout.entries);
    ring.execs.resize(2 * layout.entries);
    ring.frames.resize(2ull * layout.entries * frame_bytes);
    ring.scratch.resize(2 * layout.entries);
    EdgeEntry& entry = entries_[ring.index];
    entry.esq = submission.At(layout.esq_offset);
    entry.ecq =
        reinterpret_cast<shm::EcqEntry*>(completion.At(layout.ecq_offset));
    entry.lives =
        reinterpret_cast<shm::EventLife*>(completion.At(layout.life_offset));
    entry.ended = ring.ended.data();
    entry.execs = reinterpret_cast<uint64_t(*)[2]>(ring.execs.data());
    entry.frames = ring.frames.data();
    entry.scratch = ring.scratch.data();
    entry.arguments = &ArgumentStepsIn(ring.arguments);
    entry.entries = layout.entries;
    entry.entry_bytes = layout.entry_bytes;
    entry.parameter_offset = layout.parameter_offset;
    entry.parameter_bytes = layout.parameter_bytes;
    entry.generation = layout.generation.value();
    entry.frame_bytes = frame_bytes;
    entry.flags = ring.inlined ? uint32_t{kEdgeInline} : 0;
    for (uint32_t slot = 0; slot < layout.entries; ++slot) {
      for (uint32_t copy = 0; copy < 2; ++copy) {
        entry.execs[slot][copy] = gpu_.AddExec(entry.Frame(slot, copy));
      }
    }
    SetFirst(ring, 1, ring.rings_before);
  }

  const Config config_;
  // Aligned as the heap aligns them, whatever a sanitizer does to a stack.
  struct Memory {
    EdgeControl control;
    EdgeReport report;
    EdgeTable table;
  };
  const std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
  EdgeControl& control_ = memory_->control;
  EdgeReport& report_ = memory_->report;
  EdgeTable& table_ = memory_->table;
  std::vector<std::unique_ptr<TestDevice>> devices_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<EdgeEntry> entries_;
  std::vector<EdgeHead> heads_;
  std::vector<EventTotals> totals_;
  FakeGpu gpu_;
};

class Devices {
 public:
  explicit Devices(Testbed& testbed) {
    running_ = static_cast<int64_t>(testbed.rings().size());
    for (auto& ring : testbed.rings()) {
      threads_.emplace_back([&testbed, &ring, this] {
        testbed.RunDevice(*ring);
        --running_;
      });
    }
  }
  ~Devices() { Join(); }
  bool running() const { return running_ > 0; }
  void Join() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  std::atomic<int64_t> running_{0};
  std::vector<std::thread> threads_;
};

class EdgeDispatchTest : public testing::TestWithParam<Config> {};

TEST_P(EdgeDispatchTest, EveryRingEndsOnceWithTheRightOutput) {
  Testbed testbed(GetParam());
  testbed.Start();
  Devices(testbed).Join();
  testbed.Stop();
  testbed.CheckLedger();
  // What the configuration is for has happened.
  const EdgeFigures& figures = testbed.report().figures;
  const bool launches = GetParam().name != "AllInline";
  EXPECT_EQ(figures.launched, testbed.gpu().launches());
  EXPECT_EQ(figures.launched != 0, launches);
  EXPECT_EQ(figures.relays != 0, launches);
  if (GetParam().name == "ExecsStayBusy") {
    EXPECT_GT(figures.busy, 0u);
  }
  if (GetParam().real_budget < GetParam().budget ||
      GetParam().error_percent != 0) {
    EXPECT_GT(figures.launch_errors, 0u);
    EXPECT_EQ(figures.last_error, kLaunchError);
  } else {
    EXPECT_EQ(figures.launch_errors, 0u);
  }
}

TEST_P(EdgeDispatchTest, StoppedAndStartedAgainNothingIsLostOrRunTwice) {
  Testbed testbed(GetParam());
  Devices devices(testbed);
  std::mt19937_64 random(GetParam().seed);
  int starts = 0;
  for (; devices.running(); ++starts) {
    testbed.Start();
    for (uint64_t i = random() % 200; i > 0; --i) sched_yield();
    if (random() % 3 == 0) {
      // At once, without waiting for the acknowledgement.
      testbed.Command(EdgeCommand::kLeave);
      testbed.gpu().Synchronize();
    } else {
      testbed.Stop();
    }
  }
  EXPECT_GT(starts, 1);
  devices.Join();
  testbed.CheckLedger();
}

std::vector<Config> Configs() {
  return {
      {.name = "OneLaunchAtATime", .budget = 1, .real_budget = 1},
      {.name = "OneDispatcherAlone",
       .dispatchers = 1,
       .event_warps = 3,
       .budget = 8,
       .real_budget = 8,
       .rings = {1, 4}},
      {.name = "EightLaunchesThreeDispatchers",
       .dispatchers = 3,
       .pollers = 2,
       .rings = {2, 16},
       .first_doorbell = 0xffffffe0},
      {.name = "AllLaunches",
       .event_warps = 4,
       .budget = 110,
       .real_budget = 120,
       .rings = {64, 1, 8},
       .events = 400},
      {.name = "FewerLaunchesThanTold", .budget = 110, .real_budget = 5},
      {.name = "LaunchesFail",
       .budget = 8,
       .real_budget = 8,
       .rings = {4, 4},
       .error_percent = 20},
      {.name = "ExecsStayBusy",
       .event_warps = 3,
       .budget = 110,
       .real_budget = 120,
       .rings = {1, 2},
       .longest_retiring = 400,
       .events = 100},
      {.name = "SeveralDevicesSomeInline",
       .dispatchers = 2,
       .pollers = 2,
       .event_warps = 2,
       .budget = 8,
       .real_budget = 8,
       .inlined = {true, false, false},
       .devices = 3,
       .rings = {8, 2},
       .first_doorbell = 0xfffffff0,
       .events = 300},
      {.name = "AllInline", .inlined = {true}, .rings = {1, 32}},
  };
}

// --- One thing at a time.

MixParameters Parameters(uint64_t n, uint32_t b) {
  return {.a = n, .b = b, .padding = 0, .in = {.offset = 0, .length = 8}};
}

// The oldest completion, by polling: a GPU wakes nobody.
shm::Completion Poll(Ring& ring) {
  std::optional<shm::Completion> completion;
  Testbed::Until(
      [&] { return (completion = ring.event.ring->Poll()).has_value(); });
  if (completion) ring.event.ring->Consume();
  return completion.value_or(shm::Completion{});
}

// Rings one event and waits until it has ended.
shm::Completion RingAndWait(Testbed& testbed, Ring& ring,
                            const MixParameters& parameters) {
  testbed.Commit(ring, parameters);
  ring.event.ring->Ring();
  return Poll(ring);
}

TEST(EdgeDispatchOneTest, SomebodyIsUpWhateverKernelsDo) {
  Testbed testbed({.name = "",
                   .dispatchers = 2,
                   .budget = 1,
                   .real_budget = 1,
                   .inlined = {false, false, true},
                   .rings = {4, 4, 4},
                   .events = 200});
  testbed.Start();
  Ring& stuck = *testbed.rings()[0];
  Ring& launched = *testbed.rings()[1];
  Ring& inlined = *testbed.rings()[2];
  const auto ring_stuck = [&](uint64_t n) {
    testbed.Commit(stuck, Parameters(n, kStuck));
    stuck.event.ring->Ring();
    ASSERT_TRUE(Testbed::Until([&] { return testbed.gpu().stuck() == n; }));
  };
  // One dispatcher waits for an event that does not end: the other one relays
  // with itself.
  ring_stuck(1);
  for (uint64_t n = 1; n <= 50; ++n) {
    ASSERT_EQ(RingAndWait(testbed, launched, Parameters(n, 1)).state,
              EventState::kDone);
  }
  // So does the other one's: it stays up, without launches, for the rest.
  ring_stuck(2);
  testbed.Commit(launched, Parameters(51, 1));
  launched.event.ring->Ring();
  ASSERT_TRUE(Testbed::Until([&] {
    int inline_only = 0;
    for (auto& dispatcher : testbed.report().dispatchers) {
      inline_only += Testbed::Load(dispatcher.state) ==
                     static_cast<uint32_t>(EdgeState::kInlineOnly);
    }
    return inline_only == 1;
  }));
  for (uint64_t n = 1; n <= 50; ++n) {
    ASSERT_EQ(RingAndWait(testbed, inlined, Parameters(n, 1)).state,
              EventState::kDone);
  }
  testbed.Command(EdgeCommand::kHalt);
  ASSERT_TRUE(Testbed::Until([&] { return testbed.Halted(); }));
  testbed.Trap();
  EXPECT_TRUE(Testbed::Until([&] { return !testbed.gpu().alive(); }));
}

TEST(EdgeDispatchOneTest, AnInlineKernelThatDoesNotEndIsSeenAndStopped) {
  Testbed testbed({.name = "", .dispatchers = 1, .inlined = {true}});
  testbed.Start();
  Ring& ring = *testbed.rings()[0];
  testbed.Commit(ring, Parameters(1, kStuck));
  ring.event.ring->Ring();
  ASSERT_TRUE(Testbed::Until([&] { return testbed.gpu().stuck() == 1; }));
  // The other event warp goes on.
  testbed.Commit(ring, Parameters(2, 1));
  ring.event.ring->Ring();
  EXPECT_TRUE(Testbed::Until(
      [&] { return ring.event.kernel->ring().LoadCompletedSequence(2) == 2; }));
  const uint64_t beat =
      Testbed::Load(testbed.report().dispatchers[0].heartbeat);
  EXPECT_TRUE(Testbed::Until([&] {
    return Testbed::Load(testbed.report().dispatchers[0].heartbeat) > beat + 2;
  }));
  testbed.Command(EdgeCommand::kHalt);
  testbed.Trap();
  EXPECT_TRUE(Testbed::Until([&] { return !testbed.gpu().alive(); }));
  EXPECT_FALSE(testbed.Halted());
}

// Or the next dispatcher would run the same event again.
TEST(EdgeDispatchOneTest, TheTokenWaitsForAnInlineKernel) {
  Testbed testbed({.name = "",
                   .dispatchers = 2,
                   .event_warps = 2,
                   .budget = 1,
                   .real_budget = 1,
                   .inlined = {true, false},
                   .rings = {4, 4}});
  testbed.Start();
  Ring& inlined = *testbed.rings()[0];
  Ring& launched = *testbed.rings()[1];
  const auto in_state = [&](EdgeState state) {
    uint32_t count = 0;
    for (auto& dispatcher : testbed.report().dispatchers) {
      count += Testbed::Load(dispatcher.state) == static_cast<uint32_t>(state);
    }
    return count;
  };
  // One dispatcher waits for its event; so would the other one, and has no
  // launch left.
  for (const uint64_t n : {1, 2, 3}) {
    testbed.Commit(launched, Parameters(n, n < 3 ? kStuck : 1));
  }
  launched.event.ring->Ring();
  ASSERT_TRUE(Testbed::Until([&] {
    return testbed.gpu().stuck() == 2 && in_state(EdgeState::kInlineOnly) == 1;
  }));
  testbed.Commit(inlined, Parameters(1, kStuckToo));
  inlined.event.ring->Ring();
  ASSERT_TRUE(Testbed::Until([&] { return testbed.gpu().stuck(true) == 1; }));
  // The first one comes back and waits; the other one would hand over.
  testbed.gpu().LetStuckEnd();
  ASSERT_TRUE(
      Testbed::Until([&] { return in_state(EdgeState::kStandby) == 1; }));
  const auto beats = [&] {
    return Testbed::Load(testbed.report().dispatchers[0].heartbeat) +
           Testbed::Load(testbed.report().dispatchers[1].heartbeat);
  };
  const uint64_t before = beats();
  ASSERT_TRUE(Testbed::Until([&] { return beats() > before + 100; }));
  EXPECT_EQ(testbed.gpu().stuck(true), 1u);
  EXPECT_EQ(testbed.gpu().launches(), 2u);
  testbed.gpu().LetStuckEnd(true);
  EXPECT_EQ(Poll(inlined).state, EventState::kDone);
  for (const uint64_t n : {1, 2, 3}) {
    EXPECT_EQ(Poll(launched).sequence, Sequence(n));
  }
  EXPECT_EQ(testbed.gpu().runs[0][1], 1);
}

TEST(StageEntryTest, BuildsTheFrameOrEndsTheEvent) {
  Testbed testbed({.name = "", .dispatchers = 1, .rings = {4}});
  Ring& ring = *testbed.rings()[0];
  const EdgeEntry& entry = testbed.table().entries[ring.index];
  EventTotals totals = {};
  EdgeThreadPort port(nullptr, 0);
  alignas(16) std::byte copy[256];
  MixParameters bad = Parameters(2, 1);
  bad.in.offset = kInBytes + 1;
  testbed.Commit(ring, Parameters(1, 7));
  testbed.Commit(ring, bad);
  ring.event.ring->Ring();
  StageEntry(port, entry, &totals, nullptr, 1, copy);
  StageEntry(port, entry, &totals, nullptr, 2, copy);

  EventFrame& good = *entry.Frame(1, 0);
  EXPECT_EQ(good.sequence, 1u);
  EXPECT_EQ(good.ecq, &entry.ecq[1]);
  EXPECT_EQ(good.scratch, &entry.scratch[2]);
  MixArgs args;
  std::memcpy(&args, good.args(), sizeof(args));
  EXPECT_EQ(args.b, 7u);
  EXPECT_EQ(args.out.data, ring.out + 1);
  EXPECT_FALSE(ring.event.ring->Poll().has_value());
  EXPECT_EQ(entry.Frame(2, 0)->ecq, nullptr);
  EXPECT_EQ(ring.event.kernel->ring().LoadCompletedSequence(2), 2u);
  EXPECT_EQ(static_cast<EventStatus>(entry.ecq[2].status),
            EventStatus::kBadBufferRef);
  EXPECT_EQ(totals.launched, 1u);
  EXPECT_EQ(totals.refused, 1u);
}

// The host lets a stream go whose doorbell has not rung.
TEST(StageEntryTest, AClosedGateRunsAndEndsNothing) {
  Testbed testbed({.name = "", .dispatchers = 1, .rings = {4}});
  Ring& ring = *testbed.rings()[0];
  const EdgeEntry& entry = testbed.table().entries[ring.index];
  EdgeThreadPort port(&testbed.gpu(), 0);
  alignas(16) std::byte copy[256];
  alignas(128) uint32_t closed[32] = {};
  testbed.Commit(ring, Parameters(1, 7));
  StageEntry(port, entry, nullptr, closed, 1, copy);
  EXPECT_NE(entry.Frame(1, 0)->ecq, nullptr) << "open";
  closed[0] = 1;
  // One that is there and one that nobody has written.
  for (const uint64_t sequence : {1, 2}) {
    StageEntry(port, entry, nullptr, closed, sequence, copy);
    EXPECT_EQ(entry.Frame(entry.SlotOf(sequence), 0)->ecq, nullptr);
    EXPECT_EQ(entry.ecq[entry.SlotOf(sequence)].sequence, 0u);
  }
}

TEST(EdgeDispatchOneTest, ADeviceThatRingsTooOftenStopsItsOwnEntryOnly) {
  for (const bool inlined : {false, true}) {
    Testbed testbed({.name = "",
                     .dispatchers = 1,
                     .inlined = {inlined, false},
                     .rings = {2, 2}});
    testbed.Start();
    Ring& hostile = *testbed.rings()[0];
    Ring& honest = *testbed.rings()[1];
    uint32_t* doorbell = &hostile.device->memory->submission()
                              .doorbells()[hostile.layout().doorbell.value()];
    // More than the ring has slots, and all of them at once.
    std::atomic_ref<uint32_t>(*doorbell).store(1 << 30);
    ASSERT_TRUE(Testbed::Until([&] {
      return Testbed::Load(testbed.report().violations[hostile.index]) == 1;
    }));
    EXPECT_EQ(RingAndWait(testbed, honest, Parameters(1, 1)).state,
              EventState::kDone);
    testbed.Stop();
    EXPECT_EQ(testbed.report().violations[honest.index], 0u);
    // Both event warps saw it at their own event, at once.
    EXPECT_EQ(testbed.table().totals[hostile.index].refused, 0u);
  }
}

TEST(EdgeDispatchOneTest, AFrameInUseIsNeverWrittenAgain) {
  Testbed testbed({.name = "", .dispatchers = 1, .budget = 8, .rings = {2, 2}});
  testbed.Start();
  Ring& hostile = *testbed.rings()[0];
  Ring& honest = *testbed.rings()[1];
  for (const uint64_t n : {1, 2}) {
    testbed.Commit(hostile, Parameters(n, kStuck));
  }
  hostile.event.ring->Ring();
  ASSERT_TRUE(Testbed::Until([&] { return testbed.gpu().stuck() == 2; }));
  // One more, whose entry is flawless, into the first one's slot.
  uint32_t* doorbell = &hostile.device->memory->submission()
                            .doorbells()[hostile.layout().doorbell.value()];
  auto* header = reinterpret_cast<shm::EsqEntryHeader*>(
      hostile.device->memory->submission().At(
          hostile.layout().esq_offset +
          hostile.layout().SlotOf(Sequence(3)) * hostile.layout().entry_bytes));
  header->sequence = 3;
  std::atomic_ref<uint32_t>(*doorbell).store(3);
  ASSERT_TRUE(Testbed::Until([&] {
    return Testbed::Load(testbed.report().violations[hostile.index]) == 1;
  }));
  EXPECT_EQ(RingAndWait(testbed, honest, Parameters(1, 1)).state,
            EventState::kDone);
  EXPECT_EQ(testbed.gpu().launches(), 3u);
  testbed.gpu().LetStuckEnd();
  EXPECT_EQ(Poll(hostile).state, EventState::kDone);
}

TEST(EdgeDispatchOneTest, BadHeadersAreRefusedAsOnACpu) {
  for (const bool inlined : {false, true}) {
    Testbed testbed(
        {.name = "", .dispatchers = 1, .inlined = {inlined}, .rings = {4}});
    testbed.Start();
    Ring& ring = *testbed.rings()[0];
    uint64_t n = 0;
    const auto refused = [&](auto spoil) {
      ++n;
      testbed.Commit(ring, Parameters(n, 1));
      spoil(*reinterpret_cast<shm::EsqEntryHeader*>(
          ring.device->memory->submission().At(
              ring.layout().esq_offset +
              ring.layout().SlotOf(Sequence(n)) * ring.layout().entry_bytes)));
      ring.event.ring->Ring();
      const shm::Completion completion = Poll(ring);
      EXPECT_EQ(completion.sequence, Sequence(n));
      EXPECT_EQ(completion.state, EventState::kFailed);
      return static_cast<EventStatus>(completion.status);
    };
    EXPECT_EQ(refused([](auto& header) { ++header.generation; }),
              EventStatus::kStaleGeneration);
    EXPECT_EQ(refused([](auto& header) { ++header.sequence; }),
              EventStatus::kBadSequence);
    EXPECT_EQ(refused([](auto& header) { header.flags = 2; }),
              EventStatus::kBadFlags);
    EXPECT_EQ(
        refused([](auto& header) { header.flags = shm::kEsqKmdOverride; }),
        EventStatus::kBadFlags);
    EXPECT_EQ(RingAndWait(testbed, ring, Parameters(5, 1)).state,
              EventState::kDone);
    testbed.Stop();
    EXPECT_EQ(testbed.table().totals[0].refused, 4u);
    EXPECT_EQ(testbed.gpu().launches(), inlined ? 0u : 1u);
  }
}

// After a fault: the host ends what was rung by other means and lets the GPU go
// on after it.
TEST(EdgeDispatchOneTest, GoesOnAtALaterSequence) {
  Testbed testbed({.name = "",
                   .event_warps = 3,
                   .rings = {4},
                   .first_doorbell = 0xfffffffd});
  Ring& ring = *testbed.rings()[0];
  for (uint64_t first = 1; first < 40; first += 5) {
    testbed.SetFirst(ring, first,
                     ring.rings_before + static_cast<uint32_t>(first - 1));
    testbed.Start();
    for (uint64_t n = first; n < first + 3; ++n) {
      ASSERT_EQ(RingAndWait(testbed, ring, Parameters(n, 1)).sequence,
                Sequence(n));
    }
    testbed.Stop();
    for (uint64_t n = first + 3; n < first + 5; ++n) {
      testbed.Commit(ring, Parameters(n, 1));
      ring.event.ring->Ring();
      ring.event.kernel->ring().Complete(Sequence(n), EventState::kDone, 0);
      ASSERT_EQ(Poll(ring).sequence, Sequence(n));
      EXPECT_EQ(testbed.gpu().runs[0][n], 0);
    }
  }
}

TEST(EdgeDispatchOneTest, ADispatcherThatCannotRelaunchLeavesTheTokenToOthers) {
  Testbed testbed(
      {.name = "", .dispatchers = 2, .budget = 1, .real_budget = 1});
  testbed.gpu().FailRelaunches(1);
  testbed.Start();
  Ring& ring = *testbed.rings()[0];
  for (uint64_t n = 1; n <= 20; ++n) {
    ASSERT_EQ(RingAndWait(testbed, ring, Parameters(n, 1)).state,
              EventState::kDone);
  }
  testbed.Stop();
  EXPECT_EQ(testbed.report().figures.last_error, kRelaunchError);
  int lost = 0;
  for (const auto& dispatcher : testbed.report().dispatchers) {
    lost += dispatcher.state == static_cast<uint32_t>(EdgeState::kLost);
  }
  EXPECT_EQ(lost, 1);
}

TEST(EdgeDispatchOneTest, LivesAreStampedWhileTracingAndClearedAfterwards) {
  for (const bool inlined : {false, true}) {
    Testbed testbed({.name = "", .inlined = {inlined}, .rings = {1}});
    testbed.Trace(EdgeTracing::kOn);
    testbed.Start();
    Ring& ring = *testbed.rings()[0];
    const auto life_of = [&](uint64_t n) {
      testbed.Commit(ring, Parameters(n, 1));
      ring.event.ring->Ring();
      EXPECT_TRUE(
          Testbed::Until([&] { return ring.event.ring->Poll().has_value(); }));
      const shm::EventLife life = ring.event.ring->life();
      ring.event.ring->Consume();
      return life;
    };
    const shm::Nanoseconds before = shm::NowNs();
    const shm::EventLife life = life_of(1);
    EXPECT_GE(life.seen_ns, before);
    EXPECT_GE(life.queued_ns, life.seen_ns);
    EXPECT_GE(life.dispatched_ns, life.queued_ns);
    EXPECT_GE(life.finished_ns, life.dispatched_ns);
    EXPECT_LE(life.finished_ns, shm::NowNs());
    testbed.Trace(EdgeTracing::kClear);
    uint64_t n = 1;
    EXPECT_TRUE(Testbed::Until([&] { return life_of(++n).seen_ns == 0; }) ||
                n > 300);
    EXPECT_EQ(life_of(++n).finished_ns, 0u);
  }
}

TEST(EdgeHeadTest, WarpsShareTheSequencesFromAnyFirstOneOn) {
  for (uint32_t warps = 1; warps <= kEdgeMaxEventWarps; ++warps) {
    for (uint64_t first = 1; first < 40; ++first) {
      for (uint32_t warp = 0; warp < warps; ++warp) {
        const EdgeHead head = FirstHead(first, 0xfffffffe, warp, warps, 0);
        EXPECT_EQ(head.next % warps, warp);
        EXPECT_GE(head.next, first);
        EXPECT_LT(head.next, first + warps);
        // Event `first` is rung when the doorbell shows 0xffffffff.
        EXPECT_EQ(head.ring,
                  static_cast<uint32_t>(0xffffffffu + head.next - first));
      }
      for (const uint32_t entries : {1u, 4u, 16u}) {
        for (uint64_t n = first; n < first + entries; ++n) {
          EXPECT_EQ(FirstSlotEnded(first, n % entries, entries), n - entries);
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, EdgeDispatchTest, testing::ValuesIn(Configs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace carillon::gpud
