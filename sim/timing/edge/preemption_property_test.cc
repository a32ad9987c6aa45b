// Whatever is preempted, when and how: kernels and events compute what they
// compute alone, and all of them end.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

using Random = std::mt19937_64;

uint32_t Pick(Random& random, uint32_t least, uint32_t most) {
  return least + static_cast<uint32_t>(random() % (most - least + 1));
}

// Each snippet works on %r1. It knows %tid.x in %r0, its word of shared memory
// in %r20, the table in %d1 and the counters in %d2, and may use %r21 to %r29.
std::string Snippet(Random& random, int label) {
  switch (Pick(random, 0, 14)) {
    case 0:  // loads of different lines
      return fmt::format(
          "and.b32 %r21, %r1, 1023; mul.wide.u32 %d5, %r21, 4;"
          "add.u64 %d5, %d5, %d1; ld.global.u32 %r22, [%d5];"
          "mul.wide.u32 %d6, %r0, 4; add.u64 %d6, %d6, %d1;"
          "ld.global.u32 %r23, [%d6]; add.u32 %r1, %r1, %r22;"
          "xor.b32 %r1, %r1, %r23;\n");
    case 1:  // a neighbour's word, between barriers
      return fmt::format(
          "st.shared.u32 [%r20], %r1; bar.sync 0; xor.b32 %r21, %r20, 128;"
          "ld.shared.u32 %r22, [%r21]; bar.sync 0; add.u32 %r1, %r1, %r22;\n");
    case 2:
      return fmt::format(
          "and.b32 %r21, %r1, 15; mul.wide.u32 %d5, %r21, 4;"
          "add.u64 %d5, %d5, %d2; red.global.add.u32 [%d5], {};\n",
          Pick(random, 1, 9));
    case 3:  // lanes leave one by one
      return fmt::format(
          "and.b32 %r21, %r1, 7; l{0}: setp.eq.u32 %p1, %r21, 0;"
          "@%p1 bra e{0}; mad.lo.u32 %r1, %r1, 5, %r21;"
          "sub.u32 %r21, %r21, 1; bra l{0}; e{0}:\n",
          label);
    case 4:
      return "div.u32 %r21, %r1, 7; add.u32 %r1, %r1, %r21;\n";
    case 5:  // local memory
      return fmt::format(
          "mov.u64 %d5, local; and.b32 %r21, %r1, 12;"
          "cvt.u64.u32 %d6, %r21; add.u64 %d5, %d5, %d6;"
          "st.local.u32 [%d5], %r1; ld.local.u32 %r22, [%d5];"
          "add.u32 %r1, %r1, %r22;\n");
    case 6:
      return "nanosleep.u32 40;\n";
    case 7:  // a store that a fence waits for
      return "st.global.u32 [%d3], %r1; membar.gl;\n";
    case 8:  // a value of an atomic
      return "atom.global.or.b32 %r21, [%d3], 0; and.b32 %r21, %r21, 0;"
             "add.u32 %r1, %r1, %r21;\n";
    case 9:
      return "shfl.sync.bfly.b32 %r21, %r1, 3, 31, -1; xor.b32 %r1, %r1, %r21;"
             "vote.sync.any.pred %p1, %p0, -1;\n";
    case 10:  // all threads' votes
      return fmt::format(
          "and.b32 %r21, %r1, 1; setp.eq.u32 %p1, %r21, 0;"
          "bar.red.popc.u32 %r22, 0, %p1; add.u32 %r1, %r1, %r22;\n");
    case 11:
      return "ld.volatile.global.u32 %r21, [%d1]; ld.const.u32 %r22, [words];"
             "add.u32 %r1, %r1, %r21; add.u32 %r1, %r1, %r22;"
             "mad.lo.u32 %r1, %r1, 3, 1;\n";
    default:  // loads that nobody waits for soon
      return fmt::format(
          "add.u32 %r21, %r6, {}; and.b32 %r21, %r21, 1023;"
          "mul.wide.u32 %d5, %r21, 4; add.u64 %d5, %d5, %d1;"
          "ld.global.u32 %r22, [%d5]; ld.volatile.global.u32 %r23, [%d5];"
          "ld.shared.u32 %r24, [shared]; mad.lo.u32 %r1, %r1, 3, 1;"
          "mad.lo.u32 %r1, %r1, 5, 1; add.u32 %r1, %r1, %r22;"
          "add.u32 %r1, %r1, %r23;\n",
          Pick(random, 0, 1000));
  }
}

// The warps of a block must do the same because of barriers; blocks differ.
std::string Kernels(Random& random) {
  std::string body;
  const uint32_t count = Pick(random, 2, 6);
  for (uint32_t i = 0; i < count; ++i) {
    body += Snippet(random, static_cast<int>(i));
  }
  return fmt::format(R"(
.version 7.0
.target sm_75
.address_size 64
.const .align 4 .u32 words[4] = {{5, 6, 7, 8}};
.visible .entry background(.param .u64 table, .param .u64 counters,
                           .param .u64 out, .param .u32 times)
{{
  .reg .pred %p<4>;
  .reg .b32 %r<30>;
  .reg .b64 %d<10>;
  .shared .align 16 .b8 shared[1024];
  .local .align 16 .b8 local[16];
  ld.param.u64 %d1, [table];
  ld.param.u64 %d2, [counters];
  ld.param.u64 %d3, [out];
  ld.param.u32 %r3, [times];
  mov.u32 %r0, %tid.x;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %ntid.x;
  mad.lo.u32 %r6, %r4, %r5, %r0;
  mul.wide.u32 %d4, %r6, 4;
  add.u64 %d3, %d3, %d4;
  mov.u32 %r20, shared;
  mad.lo.u32 %r20, %r0, 4, %r20;
  mov.u32 %r1, %r6;
  and.b32 %r4, %r4, 1;
  add.u32 %r3, %r3, %r4;
again:
  {}
  sub.u32 %r3, %r3, 1;
  setp.ne.u32 %p0, %r3, 0;
  @%p0 bra again;
  st.global.u32 [%d3], %r1;
  ret;
}}

// out[thread] = the sum of what its words of the table are to a chain of three.
.visible .entry event(.param .u64 table, .param .u64 out, .param .u32 seed)
{{
  .reg .pred %p<4>;
  .reg .b32 %r<10>;
  .reg .b64 %d<6>;
  .local .align 16 .b8 own[16];
  ld.param.u64 %d0, [table];
  ld.param.u64 %d1, [out];
  ld.param.u32 %r0, [seed];
  mov.u32 %r1, %tid.x;
  mov.u32 %r6, %ctaid.x;
  mov.u32 %r7, %ntid.x;
  mad.lo.u32 %r1, %r6, %r7, %r1;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d1, %d1, %d2;
  add.u32 %r0, %r0, %r1;
  mov.u32 %r2, 3;
  mov.u32 %r3, 0;
next:
  and.b32 %r4, %r0, 1023;
  mul.wide.u32 %d3, %r4, 4;
  add.u64 %d3, %d3, %d0;
  ld.global.u32 %r0, [%d3];
  mov.u64 %d4, own;
  st.local.u32 [%d4], %r0;
  add.u32 %r3, %r3, %r0;
  ld.local.u32 %r5, [%d4];
  add.u32 %r3, %r3, %r5;
  sub.u32 %r2, %r2, 1;
  setp.ne.u32 %p0, %r2, 0;
  @%p0 bra next;
  bar.sync 0;
  st.global.u32 [%d1], %r3;
  ret;
}}
)",
                     body);
}

constexpr uint32_t kTable = 1024;
constexpr Cycle kLongAfter = 1'000'000;

struct Trial {
  Config config;
  std::string kernels;
  uint32_t blocks = 1;
  uint32_t threads = 32;
  uint32_t times = 1;
  struct Event {
    Cycle at = 0;
    uint32_t blocks = 1;
    uint32_t threads = 32;
    uint32_t registers = 0;
  };
  std::vector<Event> events;
};

// All memory that kernels write.
struct Image {
  std::vector<uint32_t> counters;
  std::vector<uint32_t> out;
  bool operator==(const Image&) const = default;
};

// A trial's kernels and their memory, for one run after the other.
class Scene {
 public:
  explicit Scene(const Trial& trial) : trial_(trial) {
    runner_.Load(trial.kernels);
    table_ = runner_.Allocate(kTable * 4);
    counters_ = runner_.Allocate(kCounters * 4);
    out_ = runner_.Allocate(trial.blocks * trial.threads * 4);
    for (const Trial::Event& event : trial.events) {
      outputs_.push_back(runner_.Allocate(event.blocks * event.threads * 4));
    }
    const auto table = runner_.At<uint32_t>(table_, kTable);
    for (uint32_t i = 0; i < kTable; ++i) table[i] = i * 2654435761u >> 5;
  }

  // Restores the memory as if nothing had run.
  void Reset() {
    std::ranges::fill(runner_.At<uint32_t>(counters_, kCounters), 0);
    std::ranges::fill(Out(), 0);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      std::ranges::fill(OutOf(i), 0);
    }
  }

  Launch Background() {
    return runner_.MakeLaunch("background", {trial_.blocks, 1, 1},
                              {trial_.threads, 1, 1}, {table_, counters_, out_},
                              {trial_.times});
  }
  Launch Event(size_t which) {
    const Trial::Event& event = trial_.events[which];
    return runner_.MakeLaunch("event", {event.blocks, 1, 1},
                              {event.threads, 1, 1}, {table_, outputs_[which]},
                              {SeedOf(which)});
  }
  bool EventIsRight(size_t which) {
    const auto table = runner_.At<uint32_t>(table_, kTable);
    const auto out = OutOf(which);
    for (uint32_t i = 0; i < out.size(); ++i) {
      uint32_t at = SeedOf(which) + i, sum = 0;
      for (int n = 0; n < 3; ++n) {
        at = table[at % kTable];
        sum += 2 * at;
      }
      if (out[i] != sum) return false;
    }
    return true;
  }
  Image Look() {
    const auto counters = runner_.At<uint32_t>(counters_, kCounters);
    return {{counters.begin(), counters.end()}, {Out().begin(), Out().end()}};
  }
  Memory* memory() { return &runner_.memory(); }

 private:
  static constexpr uint32_t kCounters = 16;
  static uint32_t SeedOf(size_t which) {
    return static_cast<uint32_t>(which) * 17;
  }
  std::span<uint32_t> Out() {
    return runner_.At<uint32_t>(out_, trial_.blocks * trial_.threads);
  }
  std::span<uint32_t> OutOf(size_t which) {
    const Trial::Event& event = trial_.events[which];
    return runner_.At<uint32_t>(outputs_[which], event.blocks * event.threads);
  }

  const Trial& trial_;
  KernelRunner runner_;
  DeviceAddress table_ = 0, counters_ = 0, out_ = 0;
  std::vector<DeviceAddress> outputs_;
};

Image Alone(Scene& scene) {
  const auto result = FunctionalGpu(scene.memory(), {}).Run(scene.Background());
  EXPECT_TRUE(result.ok()) << result.status();
  return scene.Look();
}

void ExpectNothingLeft(const Gpu& gpu) {
  for (uint32_t i = 0; i < gpu.config().sm.count; ++i) {
    const Sm& sm = gpu.sm(i);
    EXPECT_EQ(sm.free(), ContextsOfSm(gpu.config()));
    EXPECT_EQ(sm.warps().used, 0u);
    EXPECT_EQ(sm.warps().held, 0u);
    EXPECT_EQ(sm.event_warps().used(), 0u);
  }
}

// Returns the statistics and reports errors. Advances `step` cycles at a time.
std::string RunTrial(const Trial& trial, Scene& scene, const Image& expected,
                     SmCounters* total, Cycle step = kNever) {
  scene.Reset();
  Gpu gpu(trial.config, scene.memory(), {.no_progress_limit = 1 << 20});
  const auto background = gpu.Submit(scene.Background(), {});
  EXPECT_TRUE(background.ok()) << background.status();
  std::vector<GridId> events;
  for (uint32_t i = 0; i < trial.events.size(); ++i) {
    const Trial::Event& event = trial.events[i];
    const auto id = gpu.Submit(
        scene.Event(i),
        {.not_before = event.at, .registers = event.registers, .event = true});
    EXPECT_TRUE(id.ok()) << id.status();
    events.push_back(*id);
  }
  if (step != kNever) {
    for (Cycle until = step; !gpu.Run(until); until += step) continue;
  }
  // Both runs count up to the same cycle, so that their statistics compare.
  gpu.Run(kLongAfter);
  EXPECT_TRUE(gpu.Run());
  EXPECT_TRUE(gpu.result(*background)->status.ok())
      << gpu.result(*background)->status;
  for (uint32_t i = 0; i < events.size(); ++i) {
    const GridResult& result = *gpu.result(events[i]);
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_TRUE(scene.EventIsRight(i)) << i;
    EXPECT_NE(result.place, EventPlace::kNone);
    EXPECT_LE(result.arrived, result.dispatched);
    EXPECT_LT(result.dispatched, result.completed);
    if (result.place == EventPlace::kPreempted) {
      EXPECT_LE(result.arrived, result.selected);
      EXPECT_LT(result.selected, result.flushed);
      EXPECT_LT(result.flushed, result.dispatched);
    }
  }
  EXPECT_EQ(scene.Look(), expected);
  ExpectNothingLeft(gpu);
  const Statistics statistics = gpu.statistics();
  *total = Total(statistics);
  EXPECT_EQ(total->loads_dropped, total->loads_replayed);
  EXPECT_EQ(total->events_tb_scheduler + total->events_free +
                total->events_reserved + total->events_preempting,
            [&] {
              uint64_t blocks = 0;
              for (const auto& event : trial.events) blocks += event.blocks;
              return blocks;
            }());
  return ToJson(statistics);
}

Trial Any(Random& random) {
  Trial trial;
  trial.config = *LoadConfig("tiny");
  trial.config.dispatch.device_cycles = 0;
  trial.kernels = Kernels(random);
  trial.blocks = Pick(random, 6, 12);
  trial.threads = 64 * Pick(random, 1, 3);
  trial.times = Pick(random, 1, 2);
  Config& c = trial.config;
  c.sm.warps = trial.threads / 32 + Pick(random, 1, 2);
  c.sm.count = Pick(random, 1, 2);
  c.scheduler.policy =
      Pick(random, 0, 1) ? SchedulerPolicy::kLrr : SchedulerPolicy::kGto;
  c.scheduler.count = Pick(random, 1, 2);
  c.scheduler.width = Pick(random, 1, 2);
  c.edge.event_warps = Pick(random, 1, 4);
  c.edge.larger_events = Pick(random, 0, 1);
  c.edge.several_victims = Pick(random, 0, 2) == 0;
  c.edge.event_priority = static_cast<EventPriority>(Pick(random, 0, 3));
  // Not all events find free registers.
  c.sm.registers = Pick(random, 0, 1) ? 8192 : 256 * 36;
  const uint32_t period = Pick(random, 1, 150);
  const uint32_t count = Pick(random, 1, 40);
  Cycle at = Pick(random, 0, 300);
  for (uint32_t i = 0; i < count; ++i) {
    const bool large = c.edge.several_victims && Pick(random, 0, 3) == 0;
    trial.events.push_back({.at = at,
                            .blocks = large ? Pick(random, 1, 2) : 1,
                            .threads = large ? 32 * Pick(random, 1, 3) : 32,
                            .registers = Pick(random, 0, 4) == 0 ? 40u : 0u});
    at += Pick(random, 1, 2 * period);
  }
  return trial;
}

// Picks switches that a configuration may have together.
void PickSwitches(Random& random, Config* config) {
  auto& edge = config->edge;
  edge.path =
      Pick(random, 0, 9) == 0 ? EventPath::kTbScheduler : EventPath::kWarp;
  edge.victim = static_cast<VictimPolicy>(Pick(random, 0, 3));
  edge.victim_priority = Pick(random, 0, 1);
  edge.skip_barriers = Pick(random, 0, 1);
  edge.flush_i_buffer = Pick(random, 0, 1);
  edge.replay_loads = Pick(random, 0, edge.flush_i_buffer);
  edge.registers = static_cast<EventRegisters>(Pick(random, 0, 1));
}

TEST(PreemptionProperty, NobodyComputesAnythingElseForBeingPreempted) {
  SmCounters all;
  uint64_t runs = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Random random(seed);
    Trial trial = Any(random);
    Scene scene(trial);
    const Image expected = Alone(scene);
    for (uint32_t victim = 0; victim < 5; ++victim) {
      for (uint32_t switches = 0; switches < 16; ++switches) {
        for (uint32_t registers = 0; registers < 2; ++registers) {
          auto& edge = trial.config.edge;
          edge.victim = static_cast<VictimPolicy>(victim);
          edge.victim_priority = switches & 1;
          edge.skip_barriers = switches >> 1 & 1;
          edge.flush_i_buffer = switches >> 2 & 1;
          edge.replay_loads = switches >> 3;
          edge.registers = static_cast<EventRegisters>(registers);
          if (edge.replay_loads > edge.flush_i_buffer) continue;
          SCOPED_TRACE(fmt::format("seed {} victim {} switches {} registers {}",
                                   seed, victim, switches, registers));
          SmCounters total;
          RunTrial(trial, scene, expected, &total);
          if (testing::Test::HasFailure()) return;
          ++runs;
          all.preemptions += total.preemptions;
          all.reselections += total.reselections;
          all.barriers_skipped += total.barriers_skipped;
          all.loads_replayed += total.loads_replayed;
          all.registers_restored += total.registers_restored;
          all.events_reserved += total.events_reserved;
        }
      }
    }
  }
  // The trials have met every case.
  EXPECT_GT(all.preemptions, 2 * runs);
  EXPECT_GT(all.reselections, 0u);
  EXPECT_GT(all.barriers_skipped, 20u);
  EXPECT_GT(all.loads_replayed, 20u);
  EXPECT_GT(all.registers_restored, runs);
  EXPECT_GT(all.events_reserved, 0u);
}

// The event arrives in the middle of the background, one cycle later in each
// run.
TEST(PreemptionProperty, NoCycleIsAnExceptionToIt) {
  for (uint64_t seed = 100; seed < 108; ++seed) {
    Random random(seed);
    Trial trial = Any(random);
    trial.times = 1;
    trial.config.sm.count = 1;
    trial.config.sm.warps = trial.threads / 32;
    trial.blocks = 3;
    trial.events.resize(1);
    trial.events[0] = {};
    Scene scene(trial);
    const Image expected = Alone(scene);
    uint64_t preemptions = 0;
    const Cycle first = Pick(random, 60, 400);
    for (Cycle at = first; at < first + 120; ++at) {
      PickSwitches(random, &trial.config);
      trial.config.edge.path = EventPath::kWarp;
      trial.config.edge.several_victims = 0;
      trial.events[0].at = at;
      SCOPED_TRACE(fmt::format("seed {} cycle {}", seed, at));
      SmCounters total;
      RunTrial(trial, scene, expected, &total);
      if (testing::Test::HasFailure()) return;
      preemptions += total.preemptions;
    }
    EXPECT_GT(preemptions, 20u) << seed;
  }
}

TEST(PreemptionProperty, TheSameRunGivesTheSameStatistics) {
  for (uint64_t seed = 200; seed < 215; ++seed) {
    Random random(seed);
    Trial trial = Any(random);
    PickSwitches(random, &trial.config);
    Scene scene(trial);
    const Image expected = Alone(scene);
    SmCounters total;
    const std::string once = RunTrial(trial, scene, expected, &total);
    EXPECT_EQ(RunTrial(trial, scene, expected, &total), once) << seed;
    EXPECT_EQ(RunTrial(trial, scene, expected, &total, 7), once) << seed;
  }
}

// A grid that is cancelled leaves nothing behind, and harms no other.
TEST(PreemptionProperty, GridsMayBeCancelledAtAnyTime) {
  uint64_t preemptions = 0;
  for (uint64_t seed = 300; seed < 500; ++seed) {
    Random random(seed);
    Trial trial = Any(random);
    PickSwitches(random, &trial.config);
    Scene scene(trial);
    SCOPED_TRACE(seed);
    Gpu gpu(trial.config, scene.memory(), {});
    const GridId background = *gpu.Submit(scene.Background(), {});
    std::vector<GridId> events;
    for (size_t i = 0; i < trial.events.size(); ++i) {
      events.push_back(
          *gpu.Submit(scene.Event(i), {.not_before = trial.events[i].at,
                                       .registers = trial.events[i].registers,
                                       .event = true}));
    }
    const Cycle end = Pick(random, 1, 2000);
    for (Cycle at = 0; at < end; at += Pick(random, 1, 100)) {
      if (gpu.Run(at)) break;
      (void)gpu.Cancel(events[Pick(random, 0, events.size() - 1)]);
    }
    gpu.Run(end);
    (void)gpu.Cancel(background);
    EXPECT_TRUE(gpu.Run());
    for (size_t i = 0; i < events.size(); ++i) {
      const absl::Status& status = gpu.result(events[i])->status;
      EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kCancelled)
          << status;
      if (status.ok()) {
        EXPECT_TRUE(scene.EventIsRight(i));
      }
    }
    ExpectNothingLeft(gpu);
    preemptions += Total(gpu.statistics()).preemptions;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(preemptions, 200u);
}

}  // namespace
}  // namespace carillon::sim::timing
