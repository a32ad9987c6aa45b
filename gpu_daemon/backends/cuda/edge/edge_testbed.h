// The host's side of the dispatchers, and devices with real apertures and rings,
// for tests.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_TESTBED_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_TESTBED_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/edge/edge_test_gpu.h"
#include "gpu_daemon/event/test_device.h"
#include "shm/device_ring.h"
#include "shm/gpu_ring.h"

namespace carillon::gpud::edge_test {

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
  std::vector<simt::EventScratch> scratch;
  std::vector<std::byte> arguments;

  const shm::RingLayout& layout() const { return event.ring->layout(); }
};

// What event n of a ring is, for whoever writes and for whoever checks it.
struct Rung {
  MixParameters parameters;
  EventStatus refused = EventStatus::kOk;
};
inline Rung EventOf(uint64_t seed, const Ring& ring, uint64_t n) {
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
      device.RingDoorbell();
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
      simt::EventTotals expected = {};
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
      const simt::EventTotals& totals = table_.totals[ring->index];
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
        static_cast<uint32_t>(simt::EventFrameBytes(sizeof(MixArgs)));
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
    entry.launch_slots = ring.inlined
                             ? layout.entries
                             : std::min(layout.entries, config_.launch_slots);
    entry.entry_bytes = layout.entry_bytes;
    entry.parameter_offset = layout.parameter_offset;
    entry.parameter_bytes = layout.parameter_bytes;
    entry.generation = layout.generation.value();
    entry.frame_bytes = frame_bytes;
    entry.flags = ring.inlined ? uint32_t{kEdgeInline} : 0;
    if (layout.stamped()) entry.flags |= kEdgeStamped;
    for (uint32_t slot = 0; slot < entry.launch_slots; ++slot) {
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
  std::vector<simt::EventTotals> totals_;
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

// --- One thing at a time.

inline MixParameters Parameters(uint64_t n, uint32_t b) {
  return {.a = n, .b = b, .padding = 0, .in = {.offset = 0, .length = 8}};
}

// The oldest completion, by polling: a GPU wakes nobody.
inline shm::Completion Poll(Ring& ring) {
  std::optional<shm::Completion> completion;
  Testbed::Until(
      [&] { return (completion = ring.event.ring->Poll()).has_value(); });
  if (completion) ring.event.ring->Consume();
  return completion.value_or(shm::Completion{});
}

// Rings one event and waits until it has ended.
inline shm::Completion RingAndWait(Testbed& testbed, Ring& ring,
                                   const MixParameters& parameters) {
  testbed.Commit(ring, parameters);
  ring.event.ring->RingDoorbell();
  return Poll(ring);
}

}  // namespace carillon::gpud::edge_test

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_TESTBED_H_
