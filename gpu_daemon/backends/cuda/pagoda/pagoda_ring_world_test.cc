// The MasterKernel of launch path pagoda_ring from its PTX, in many orders, on
// memory as weak as PTX allows, with rings of a device that does one thing at a
// time. A seed chooses all that happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gpu_daemon/backends/cuda/fake/fake_image.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_module.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"
#include "gpu_daemon/backends/cuda/pagoda/task_kernels.h"
#include "gpu_daemon/backends/cuda/sim_driver/world.h"
#include "gpu_daemon/event/test_device.h"
#include "sim/exec/interleaved.h"
#include "sim/exec/program.h"
#include "sim/exec/seeded_random.h"

namespace carillon::gpud::cuda {
namespace {

// Turns without an end of an event.
constexpr uint64_t kPatience = 2'000'000;

enum class RingWorldKind {
  kPlain,
  kMeets,  // one of the rings is of a kernel with barriers and shared memory
  // Two columns, and one of the rings has no events and a doorbell that never
  // rests.
  kRestlessDoorbell,
};

class RingWorld {
 public:
  RingWorld(WorldCode* code, uint64_t seed,
            RingWorldKind kind = RingWorldKind::kPlain)
      : code_(code),
        restless_(kind == RingWorldKind::kRestlessDoorbell),
        random_(seed * 0x9e3779b97f4a7c15 + 3),
        memory_(code),
        device_("test", uint64_t{1} << 17),
        gpu_(&code->memory(),
             {.seed = seed,
              .longest_turn = 64,
              .weak_memory = true,
              .sms = 2,
              .nanoseconds = [this] { return gpu_.clock() * 32; }}) {
    memory_.Map(device_);
    columns_ = restless_ ? 2 : 1 + Below(2);
    rows_ = 1 + Below(3);
    executors_ = 2 + Below(2);
    restarts_left_ = Below(3);
    events_ = 8 + Below(10);
    control_ = memory_.TakeZeros<PagodaControl>(1);
    report_ = memory_.TakeZeros<PagodaReport>(1);
    words_ = memory_.TakeZeros<PagodaWords>(1);
    rings_ = memory_.TakeZeros<PagodaRing>(2);
    tasks_ = memory_.TakeZeros<TaskEntry>(columns_ * rows_);
    records_ = memory_.Take<RingTask>(columns_ * rows_);
    tracing_ = static_cast<EdgeTracing>(Below(3));
    control_->clock_offset_ns = kWorldClockOffset;
    for (uint32_t i = 0; i < 2; ++i) {
      Make(i, seed, kind == RingWorldKind::kMeets && i == 0);
    }
  }

  void Run() {
    Start();
    uint64_t ended = 0;
    for (uint64_t turns = 0; !over_ && !testing::Test::HasFailure(); ++turns) {
      gpu_.Step();
      if (random_.OneIn(4)) HostStep();
      for (auto& ring : of_device_) {
        if (random_.OneIn(4)) DeviceStep(*ring);
      }
      if (restless_) {
        // Always another one, and never one that stands for an event.
        std::atomic_ref(*const_cast<uint32_t*>(rings_[1].doorbell))
            .store(rings_[1].ring_of_zero - 1 -
                   static_cast<uint32_t>(turns % 1'000'000));
      }
      if (const uint64_t now = Consumed(); now != ended) {
        ended = now;
        turns = 0;
      }
      ASSERT_LT(turns, kPatience) << ended << " events have ended";
    }
    for (uint32_t i = 0; i < 2; ++i) {
      const simt::EventTotals& totals = rings_[i].totals;
      EXPECT_EQ(totals.failed, of_device_[i]->failed);
      EXPECT_EQ(totals.refused, of_device_[i]->refused);
      EXPECT_EQ(totals.done + totals.failed, EventsOf(i));
    }
  }

  // Whether its scheduler warp has begun a task.
  bool HasBegun(uint32_t column) const {
    const TaskEntry* const rows = tasks_ + uint64_t{column} * rows_;
    return std::any_of(rows, rows + rows_,
                       [](const TaskEntry& task) { return task.blocks != 0; });
  }

  // One MTB more than have room.
  void RunWithoutRoom() {
    const uint32_t there = columns_++;
    Start(there);
    for (int i = 0; i < 100'000; ++i) {
      gpu_.Step();
      for (auto& ring : of_device_) DeviceStep(*ring);
    }
    EXPECT_GT(of_device_[0]->device().last_rung().value(), 0u);
    EXPECT_EQ(Consumed(), 0u);
    EXPECT_EQ(rings_[0].head, 1u);
    EXPECT_EQ(report_->up, 0u);
    Command(kPagodaLeave);
    for (uint64_t i = 0; running_ && i < kPatience; ++i) gpu_.Step();
    EXPECT_FALSE(running_);
  }

 private:
  uint64_t EventsOf(uint32_t ring) const {
    return restless_ && ring == 1 ? 0 : events_;
  }
  uint32_t Below(uint64_t n) { return static_cast<uint32_t>(random_.Below(n)); }

  void Make(uint32_t i, uint64_t seed, bool meets) {
    constexpr uint32_t kThreads[] = {8, 20, 32, 40, 64};
    const uint32_t rings = random_.OneIn(2) ? 0u - 5 : 7;  // wraps early
    std::atomic_ref(device_.memory->submission().doorbells()[i]).store(rings);
    const WorldRing::Spec spec = {
        .seed = seed,
        .id = i,
        .kernel = meets    ? WorldKernel::kMatmul
                  : i == 0 ? WorldKernel::kEcho
                           : WorldKernel::kFailIf,
        .matmul = "matmul_shared",
        .entries = 1u << Below(4),
        .grid = {1 + Below(3), 1, 1},
        .block = {meets ? 32 * (1 + Below(2))
                        : kThreads[Below(std::size(kThreads))],
                  1, 1},
        .skipped = 1,
        .longest = meets ? 8u : 48u,
        .bad_headers = true};
    of_device_.push_back(std::make_unique<WorldRing>(spec, device_));
    const EventKernel& event = *of_device_[i]->event.kernel;
    PagodaRing& ring = rings_[i];
    ring.entry = of_device_[i]->MakeEntry(memory_, 1);
    ring.entry.ended = memory_.Take<uint64_t>(spec.entries);
    for (uint32_t slot = 0; slot < spec.entries; ++slot) {
      ring.entry.ended[slot] = FirstSlotEnded(1, slot, spec.entries);
    }
    ring.doorbell = &device_.memory->submission().doorbells()[event.event_id()];
    ring.kernel = static_cast<uint64_t>(meets    ? TaskKernel::matmul_shared
                                        : i == 0 ? TaskKernel::echo
                                                 : TaskKernel::fail_if);
    const KernelMetadata& kmd = event.kmd();
    ring.sync = kmd.kernel->uses_barriers ? 1 : 0;
    ring.static_shared_bytes = kmd.kernel->static_shared_bytes;
    ring.shared_bytes = kmd.total_shared();
    ring.ring_of_zero = event.cursor().first_ring();
    ring.grid = spec.grid;
    ring.block = spec.block;
    ring.head = 1;
  }

  // --- The host.

  void Command(uint32_t command) {
    std::atomic_ref(control_->command).store(command | PagodaTracing(tracing_));
  }
  void Start(uint32_t there = 0) {
    *words_ = PagodaWords{};
    for (uint32_t i = 0; i < 2; ++i) {
      words_->doorbells[i] =
          rings_[i].ring_of_zero + static_cast<uint32_t>(rings_[i].head - 1);
    }
    words_->command = PagodaTracing(tracing_);
    Command(0);
    ending_ = false;
    running_ = true;
    const PagodaRingTable table{.tasks = {.entries = tasks_,
                                          .command = nullptr,
                                          .columns = columns_,
                                          .rows = rows_,
                                          .executors = executors_},
                                .records = records_,
                                .rings = rings_,
                                .words = words_,
                                .control = control_,
                                .report = report_,
                                .ring_count = 2};
    const auto* const bytes = reinterpret_cast<const std::byte*>(&table);
    const auto begun = gpu_.Begin(
        {.program = &code_->program(),
         .kernel = code_->program().FindEntry("carillon_pagoda_ring"),
         .grid = {there != 0 ? there : columns_, 1, 1},
         .block = {(1 + executors_) * simt::kWarpSize, 1, 1},
         .parameters = {bytes, bytes + sizeof(table)}},
        0, [this](absl::Status status) {
          running_ = false;
          EXPECT_EQ(status, absl::OkStatus());
        });
    ASSERT_TRUE(begun.ok()) << begun.status();
  }
  void HostStep() {
    const bool all = Consumed() == EventsOf(0) + EventsOf(1);
    if (!running_) {
      CheckLeft();
      over_ = all;
      if (!over_) Start();
      return;
    }
    if (ending_ || !(all || (restarts_left_ != 0 && random_.OneIn(2000)))) {
      return;
    }
    if (!all) --restarts_left_;
    ending_ = true;
    Command(kPagodaLeave);
  }
  // All that was taken has ended, and nothing else.
  void CheckLeft() {
    EXPECT_TRUE(ending_) << "they have left by themselves";
    for (uint32_t i = 0; i < 2; ++i) {
      const shm::DeviceRing& device = of_device_[i]->device();
      shm::Sequence ended = device.last_consumed();
      while (ended < device.last_rung() && device.EndOf(ended + 1)) ++ended;
      EXPECT_EQ(rings_[i].head, ended.value() + 1);
      EXPECT_EQ(rings_[i].totals.done + rings_[i].totals.failed, ended.value());
    }
    for (uint32_t i = 0; i < columns_ * rows_; ++i) {
      EXPECT_EQ(tasks_[i].state, TaskState::kFree);
    }
  }

  // --- The device.

  uint64_t Consumed() const {
    uint64_t consumed = 0;
    for (const auto& ring : of_device_) {
      consumed += ring->device().last_consumed().value();
    }
    return consumed;
  }
  void DeviceStep(WorldRing& ring) {
    shm::DeviceRing& device = ring.device();
    if (const auto completion = device.Poll()) {
      std::string wrong = ring.Check(*completion);
      if (wrong.empty()) wrong = ring.CheckLife(tracing_ == EdgeTracing::kOn);
      EXPECT_EQ(wrong, "");
      device.Consume();
    }
    const uint64_t events = EventsOf(&ring == of_device_[0].get() ? 0 : 1);
    if (device.last_committed().value() < events && device.free_slots() > 0 &&
        random_.OneIn(3)) {
      ring.Commit();
    }
    if (events > 0 && random_.OneIn(2)) device.RingDoorbell();
  }

  WorldCode* const code_;
  const bool restless_;
  sim::SeededRandom random_;
  WorldMemory memory_;
  TestDevice device_;
  std::vector<std::unique_ptr<WorldRing>> of_device_;
  uint32_t columns_ = 0;
  uint32_t rows_ = 0;
  uint32_t executors_ = 0;
  uint32_t restarts_left_ = 0;
  uint64_t events_ = 0;  // of each ring
  EdgeTracing tracing_ = EdgeTracing::kOff;
  PagodaControl* control_ = nullptr;
  PagodaReport* report_ = nullptr;
  PagodaWords* words_ = nullptr;
  PagodaRing* rings_ = nullptr;
  TaskEntry* tasks_ = nullptr;
  RingTask* records_ = nullptr;
  bool running_ = false;
  bool ending_ = false;  // the host has said so
  bool over_ = false;
  sim::InterleavedGpu gpu_;
};

class PagodaRingWorldTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto ptx = PtxOfFatbin(PagodaModule().data());
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    auto code = WorldCode::Load(*ptx);
    ASSERT_TRUE(code.ok()) << code.status();
    code_ = *std::move(code);
  }
  std::unique_ptr<WorldCode> code_;
};

TEST_F(PagodaRingWorldTest, EveryEventEndsOnceWithItsOutputAndIsTakenInOrder) {
  for (uint64_t seed = 0; seed < 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::make_unique<RingWorld>(code_.get(), seed)->Run();
  }
}

TEST_F(PagodaRingWorldTest, BlocksThatMeetInSharedMemoryComputeWhatTheyShall) {
  for (uint64_t seed = 0; seed < 25 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::make_unique<RingWorld>(code_.get(), seed, RingWorldKind::kMeets)
        ->Run();
  }
}

// It is the one that looks at the doorbells for all columns.
TEST_F(PagodaRingWorldTest, ADoorbellThatNeverRestsKeepsColumn0FromNoEvent) {
  bool has_begun = false;
  for (uint64_t seed = 0; seed < 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const auto world = std::make_unique<RingWorld>(
        code_.get(), seed, RingWorldKind::kRestlessDoorbell);
    world->Run();
    has_begun |= world->HasBegun(0);
  }
  EXPECT_TRUE(has_begun);
}

TEST_F(PagodaRingWorldTest, NoEventIsTakenBeforeAllMtbsAreThere) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    std::make_unique<RingWorld>(code_.get(), seed)->RunWithoutRoom();
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda
