// Whichever blocks make room, when and how: kernels compute what they compute
// alone, all of them end, and nothing is left on the GPU.
#include <gtest/gtest.h>

#include <algorithm>
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
// in %r20, the table in %d1, the counters in %d2 and its word of the output in
// %d3, and may use %r21 to %r29.
std::string Snippet(Random& random, int label) {
  switch (Pick(random, 0, 10)) {
    case 0:  // loads of different lines
      return "and.b32 %r21, %r1, 1023; mul.wide.u32 %d5, %r21, 4;"
             "add.u64 %d5, %d5, %d1; ld.global.u32 %r22, [%d5];"
             "add.u32 %r1, %r1, %r22;\n";
    case 1:  // a neighbour's word, between barriers
      return "st.shared.u32 [%r20], %r1; bar.sync 0; xor.b32 %r21, %r20, 128;"
             "ld.shared.u32 %r22, [%r21]; bar.sync 0; add.u32 %r1, %r1, "
             "%r22;\n";
    case 2:  // others see it
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
      return "mov.u64 %d5, local; and.b32 %r21, %r1, 12;"
             "cvt.u64.u32 %d6, %r21; add.u64 %d5, %d5, %d6;"
             "st.local.u32 [%d5], %r1; ld.local.u32 %r22, [%d5];"
             "add.u32 %r1, %r1, %r22;\n";
    case 6:
      return "nanosleep.u32 40;\n";
    case 7:  // what it has added to its own word so far, so not idempotent
      return "ld.global.u32 %r21, [%d3]; add.u32 %r21, %r21, %r1;"
             "st.global.u32 [%d3], %r21; membar.gl;\n";
    case 8:  // a value of an atomic
      return "atom.global.add.u32 %r21, [%d3], 1; add.u32 %r1, %r1, %r21;\n";
    case 9:
      return "shfl.sync.bfly.b32 %r21, %r1, 3, 31, -1; xor.b32 %r1, %r1, %r21;"
             "vote.sync.any.pred %p1, %p0, -1;\n";
    default:  // all threads' votes
      return "and.b32 %r21, %r1, 1; setp.eq.u32 %p1, %r21, 0;"
             "bar.red.popc.u32 %r22, 0, %p1; add.u32 %r1, %r1, %r22;\n";
  }
}

// The warps of a block must do the same because of barriers; blocks differ.
std::string Kernel(Random& random, const char* name) {
  std::string body;
  const uint32_t count = Pick(random, 2, 5);
  for (uint32_t i = 0; i < count; ++i) {
    body += Snippet(random, static_cast<int>(i));
  }
  return fmt::format(R"(
.visible .entry {}(.param .u64 table, .param .u64 counters, .param .u64 out,
                   .param .u32 times)
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
  ld.global.u32 %r21, [%d3];
  add.u32 %r1, %r1, %r21;
  st.global.u32 [%d3], %r1;
  ret;
}}
)",
                     name, body);
}

constexpr uint32_t kTable = 1024;
constexpr uint32_t kCounters = 16;

struct Trial {
  Config config;
  std::string kernels;
  struct Grid {
    uint32_t blocks = 1;
    uint32_t threads = 32;
    uint32_t times = 1;
    uint32_t priority = 0;
    Cycle at = 0;
    bool announced = false;
    Cycle announced_at = 0;
    bool arrives = true;  // else it is only announced
  };
  std::vector<Grid> grids;
};

// A trial's kernels and their memory, for one run after the other. Each grid
// has a kernel and memory of its own.
class Scene {
 public:
  explicit Scene(const Trial& trial) : trial_(trial) {
    runner_.Load(trial.kernels);
    table_ = runner_.Allocate(kTable * 4);
    for (const Trial::Grid& grid : trial.grids) {
      counters_.push_back(runner_.Allocate(kCounters * 4));
      outputs_.push_back(runner_.Allocate(grid.blocks * grid.threads * 4));
    }
    const auto table = runner_.At<uint32_t>(table_, kTable);
    for (uint32_t i = 0; i < kTable; ++i) table[i] = i * 2654435761u >> 5;
  }

  void Reset() {
    for (size_t i = 0; i < trial_.grids.size(); ++i) {
      std::ranges::fill(Counters(i), 0);
      std::ranges::fill(Out(i), 0);
    }
  }
  Launch LaunchOf(size_t i) {
    const Trial::Grid& grid = trial_.grids[i];
    return runner_.MakeLaunch(fmt::format("kernel{}", i).c_str(),
                              {grid.blocks, 1, 1}, {grid.threads, 1, 1},
                              {table_, counters_[i], outputs_[i]},
                              {grid.times});
  }
  using Image = std::vector<uint32_t>;
  Image Look(size_t i) {
    Image image(Counters(i).begin(), Counters(i).end());
    image.insert(image.end(), Out(i).begin(), Out(i).end());
    return image;
  }
  // What each grid computes alone.
  std::vector<Image> Alone() {
    Reset();
    std::vector<Image> images;
    for (size_t i = 0; i < trial_.grids.size(); ++i) {
      const auto result = FunctionalGpu(memory(), {}).Run(LaunchOf(i));
      EXPECT_TRUE(result.ok()) << result.status();
      images.push_back(Look(i));
    }
    return images;
  }
  Memory* memory() { return &runner_.memory(); }

 private:
  std::span<uint32_t> Counters(size_t i) {
    return runner_.At<uint32_t>(counters_[i], kCounters);
  }
  std::span<uint32_t> Out(size_t i) {
    const Trial::Grid& grid = trial_.grids[i];
    return runner_.At<uint32_t>(outputs_[i], grid.blocks * grid.threads);
  }

  const Trial& trial_;
  KernelRunner runner_;
  DeviceAddress table_ = 0;
  std::vector<DeviceAddress> counters_, outputs_;
};

void ExpectNothingLeft(const Gpu& gpu) {
  for (uint32_t i = 0; i < gpu.config().sm.count; ++i) {
    const Sm& sm = gpu.sm(i);
    EXPECT_EQ(sm.free(), ContextsOfSm(gpu.config()));
    EXPECT_EQ(sm.warps().used, 0u);
    EXPECT_EQ(sm.warps().held, 0u);
    EXPECT_TRUE(sm.block_switch()->idle());
    EXPECT_EQ(sm.block_switch()->favored(), nullptr);
    for (const MemoryOperation& operation : sm.lsu().operations()) {
      EXPECT_FALSE(operation.used);
    }
  }
}

struct Sums {
  uint64_t switched = 0, flushed = 0, drained = 0, restored = 0, refused = 0,
           waits = 0, bases = 0, incremental = 0, in_place = 0, slices = 0,
           lost = 0, early = 0, ended = 0, after_drain = 0;
  void Add(const Preemption& preemption) {
    const PreemptionCounters& c = preemption.counters();
    switched += c.switched;
    flushed += c.flushed;
    drained += c.drained;
    restored += c.restored;
    refused += c.flushes_refused;
    waits += c.waits;
    bases += c.bases;
    slices += c.slices;
    lost += c.launches_lost;
    early += c.launches_early;
    ended += c.ended_stopping;
    for (const PreemptionRecord& record : preemption.records()) {
      for (const PreemptedBlock& block : record.blocks) {
        incremental += block.saved.incremental;
        in_place += block.saved.in_place;
        after_drain += block.way == PreemptionCase::kDrainOneCheckpoint ||
                       block.way == PreemptionCase::kDrainTwoCheckpoints;
      }
    }
  }
};

void SubmitAll(const Trial& trial, Scene& scene, Gpu& gpu,
               std::vector<GridId>* ids) {
  for (size_t i = 0; i < trial.grids.size(); ++i) {
    const Trial::Grid& grid = trial.grids[i];
    SubmitOptions options{.priority = grid.priority, .not_before = grid.at};
    if (grid.announced) {
      const auto id =
          gpu.Announce(scene.LaunchOf(i), options, grid.announced_at);
      ASSERT_TRUE(id.ok()) << id.status();
      options.announcement = *id;
    }
    ids->push_back(0);
    if (!grid.arrives) continue;
    const auto id = gpu.Submit(scene.LaunchOf(i), options);
    ASSERT_TRUE(id.ok()) << id.status();
    ids->back() = *id;
  }
}

// Returns the statistics and reports errors. Advances `step` cycles at a time.
std::string RunTrial(const Trial& trial, Scene& scene,
                     const std::vector<Scene::Image>& expected, Sums* sums,
                     Cycle step = kNever) {
  scene.Reset();
  Gpu gpu(trial.config, scene.memory(), {.no_progress_limit = 1 << 20});
  std::vector<GridId> ids;
  SubmitAll(trial, scene, gpu, &ids);
  if (testing::Test::HasFatalFailure()) return "";
  if (step != kNever) {
    for (Cycle until = step; !gpu.Run(until); until += step) continue;
  }
  // Long after all: stores that nobody waits for are acknowledged by then.
  gpu.Run(2'000'000);
  EXPECT_TRUE(gpu.Run());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!trial.grids[i].arrives) continue;
    const GridResult& result = *gpu.result(ids[i]);
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.blocks, trial.grids[i].blocks);
    EXPECT_EQ(scene.Look(i), expected[i]) << "grid " << i;
  }
  ExpectNothingLeft(gpu);
  const PreemptionCounters& counters = gpu.preemption()->counters();
  EXPECT_EQ(counters.switched, counters.restored);
  sums->Add(*gpu.preemption());
  return ToJson(gpu.statistics());
}

Trial Any(Random& random) {
  Trial trial;
  trial.config = *LoadConfig("tiny");
  Config& c = trial.config;
  const uint32_t count = Pick(random, 2, 4);
  trial.kernels = ".version 7.0\n.target sm_75\n.address_size 64\n";
  Cycle at = 0;
  for (uint32_t i = 0; i < count; ++i) {
    trial.kernels += Kernel(random, fmt::format("kernel{}", i).c_str());
    Trial::Grid grid;
    grid.blocks = Pick(random, 1, 10);
    grid.threads = 64 * Pick(random, 1, 2);
    grid.times = i == 0 ? Pick(random, 1, 16) : Pick(random, 1, 4);
    grid.priority = i == 0 ? 0 : Pick(random, 0, 2);
    grid.at = at;
    grid.announced = i != 0 && Pick(random, 0, 2) != 0;
    grid.announced_at = at - std::min<Cycle>(at, Pick(random, 0, 2500));
    grid.arrives = !grid.announced || Pick(random, 0, 4) != 0;
    trial.grids.push_back(grid);
    at += Pick(random, 50, Pick(random, 0, 1) ? 900 : 4000);
  }
  c.sm.count = Pick(random, 1, 2);
  c.sm.registers = Pick(random, 0, 1) ? 8192 : 5120;
  c.scheduler.policy =
      Pick(random, 0, 1) ? SchedulerPolicy::kLrr : SchedulerPolicy::kGto;
  c.scheduler.count = Pick(random, 1, 2);
  c.scheduler.width = Pick(random, 1, 2);
  c.dispatch.host_cycles = Pick(random, 0, 30);
  c.dispatch.grids = 4;
  auto& p = c.preemption;
  p.dirty = Pick(random, 0, 1);
  p.sms = Pick(random, 0, 1);
  p.deadline_ns = Pick(random, 0, 1000);
  p.predicted_ns = Pick(random, 0, 800);
  p.trap_ns = Pick(random, 0, 200);
  p.timeout_ns = Pick(random, 1, 3000);
  p.new_block_instructions = Pick(random, 1, 40);
  p.control_lines = Pick(random, 0, 2);
  p.shared_lines = Pick(random, 0, 1);
  p.in_place_cycles = Pick(random, 0, 2);
  p.quantum_ns = Pick(random, 0, 2) == 0 ? Pick(random, 200, 2000) : 0;
  p.whole_sm = Pick(random, 0, 1);
  return trial;
}

struct Technique {
  PreemptionTechnique technique;
  uint32_t flush = 0;
  uint32_t in_place = 0;
};
constexpr Technique kTechniques[] = {
    {PreemptionTechnique::kDrain},      {PreemptionTechnique::kFlush},
    {PreemptionTechnique::kSwitch},     {PreemptionTechnique::kChimera},
    {PreemptionTechnique::kChimera, 1}, {PreemptionTechnique::kPep},
    {PreemptionTechnique::kPep, 0, 1},
};

void Use(const Technique& technique, Config* config) {
  config->preemption.technique = technique.technique;
  config->preemption.flush = technique.flush;
  config->preemption.in_place = technique.in_place;
}

TEST(BlockPreemptionProperty, NobodyComputesAnythingElseForMakingRoom) {
  Sums sums;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    Trial trial = Any(random);
    Scene scene(trial);
    const auto expected = scene.Alone();
    for (const Technique& technique : kTechniques) {
      Use(technique, &trial.config);
      SCOPED_TRACE(fmt::format("seed {} technique {} flush {} in place {}",
                               seed, static_cast<int>(technique.technique),
                               technique.flush, technique.in_place));
      RunTrial(trial, scene, expected, &sums);
      if (testing::Test::HasFailure()) return;
    }
  }
  // The trials have met every case.
  EXPECT_GT(sums.switched, 500u);
  EXPECT_GT(sums.flushed, 50u);
  EXPECT_GT(sums.refused, 50u);
  EXPECT_GT(sums.drained, 500u);
  EXPECT_GT(sums.waits, 20u);
  EXPECT_GT(sums.bases, 100u);
  EXPECT_GT(sums.incremental, 100u);
  EXPECT_GT(sums.in_place, 100u);
  EXPECT_GT(sums.slices, 100u);
  EXPECT_GT(sums.lost, 20u);
  EXPECT_GT(sums.early, 20u);
  EXPECT_GT(sums.ended, 0u);
  EXPECT_GT(sums.after_drain, 0u);
}

// The second grid arrives in the middle of the first, one cycle later in each
// run.
TEST(BlockPreemptionProperty, NoCycleIsAnExceptionToIt) {
  for (uint64_t seed = 1000; seed < 1003; ++seed) {
    Random random(seed);
    Trial trial = Any(random);
    trial.config.sm.count = 1;
    trial.config.preemption.quantum_ns = 0;
    trial.grids.resize(2);
    trial.grids[0].blocks = 4;
    trial.grids[0].times = 1;
    trial.grids[1].priority = 1;
    trial.grids[1].arrives = true;
    trial.grids[1].announced = true;
    trial.grids[1].blocks = 4;
    Scene scene(trial);
    const auto expected = scene.Alone();
    Sums sums;
    const Cycle first = Pick(random, 20, 200);
    const Cycle lead = Pick(random, 0, 300);
    for (const Technique& technique : kTechniques) {
      Use(technique, &trial.config);
      for (Cycle at = first; at < first + 120; ++at) {
        trial.grids[1].at = at;
        trial.grids[1].announced_at = at - std::min(at, lead);
        SCOPED_TRACE(fmt::format("seed {} technique {} cycle {}", seed,
                                 static_cast<int>(technique.technique), at));
        RunTrial(trial, scene, expected, &sums);
        if (testing::Test::HasFailure()) return;
      }
    }
    EXPECT_GT(sums.switched, 100u) << seed;
  }
}

TEST(BlockPreemptionProperty, TheSameRunGivesTheSameStatistics) {
  for (uint64_t seed = 2000; seed < 2020; ++seed) {
    Random random(seed);
    Trial trial = Any(random);
    Use(kTechniques[Pick(random, 0, std::size(kTechniques) - 1)],
        &trial.config);
    Scene scene(trial);
    const auto expected = scene.Alone();
    Sums sums;
    const std::string once = RunTrial(trial, scene, expected, &sums);
    EXPECT_EQ(RunTrial(trial, scene, expected, &sums), once) << seed;
    EXPECT_EQ(RunTrial(trial, scene, expected, &sums, 7), once) << seed;
  }
}

// A grid that is cancelled leaves nothing behind, and harms no other: neither
// while its blocks are saved, are away or come back, nor while others make room
// for it.
TEST(BlockPreemptionProperty, GridsMayBeCancelledAtAnyTime) {
  Sums sums;
  uint64_t cancelled = 0;
  for (uint64_t seed = 3000; seed < 3400; ++seed) {
    Random random(seed);
    Trial trial = Any(random);
    Use(kTechniques[Pick(random, 0, std::size(kTechniques) - 1)],
        &trial.config);
    Scene scene(trial);
    const auto expected = scene.Alone();
    SCOPED_TRACE(seed);
    scene.Reset();
    Gpu gpu(trial.config, scene.memory(), {.no_progress_limit = 1 << 20});
    std::vector<GridId> ids;
    SubmitAll(trial, scene, gpu, &ids);
    ASSERT_FALSE(HasFatalFailure());
    const Cycle end = Pick(random, 1, 3000);
    for (Cycle at = 0; at < end; at += Pick(random, 1, 300)) {
      if (gpu.Run(at)) break;
      if (Pick(random, 0, 3) != 0) continue;
      const GridId id = ids[Pick(random, 0, ids.size() - 1)];
      if (id != 0) (void)gpu.Cancel(id);
    }
    gpu.Run(2'000'000);
    EXPECT_TRUE(gpu.Run());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == 0) continue;
      const absl::Status& status = gpu.result(ids[i])->status;
      if (status.ok()) {
        EXPECT_EQ(scene.Look(i), expected[i]) << "grid " << i;
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
        ++cancelled;
      }
    }
    ExpectNothingLeft(gpu);
    sums.Add(*gpu.preemption());
    if (HasFailure()) return;
  }
  EXPECT_GT(cancelled, 100u);
  EXPECT_GT(sums.switched, sums.restored);
}

}  // namespace
}  // namespace carillon::sim::timing
