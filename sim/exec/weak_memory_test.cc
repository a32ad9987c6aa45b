// Litmus tests of the weak memory: what fences forbid is never seen, and what
// their absence allows is seen.
#include "sim/exec/weak_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/exec/interleaved.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

constexpr uint64_t kSeeds = 10'000;
constexpr int kTurns = 200'000;

enum class Threads { kBlocks, kWarps, kLanes };

std::string Replaced(std::string text, std::string_view from,
                     std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The kernel k whose threads run one text each. %rd1 is the address of global
// memory that is zero at first: x is at 0, y at 64, z at 128, the results r at
// 192 and up; in a text, "x" in brackets and so on. "s" is shared memory. '$'
// makes labels and predicates of a thread its own.
std::string Kernel(Threads threads, const std::vector<std::string>& texts) {
  const char* const which = threads == Threads::kBlocks  ? "%ctaid.x"
                            : threads == Threads::kWarps ? "%warpid"
                                                         : "%laneid";
  std::string kernel = fmt::format(R"(
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<40>; .reg .b64 %rd<8>; .reg .pred %q<9>;
  .shared .align 16 .b32 s[64];
  ld.param.u64 %rd1, [p];
  mov.u32 %r39, {};
)",
                                   which);
  if (threads == Threads::kWarps) {
    kernel += "  mov.u32 %r38, %laneid; setp.ne.u32 %q8, %r38, 0; @%q8 ret;\n";
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    kernel +=
        fmt::format("  setp.eq.u32 %q8, %r39, {0};\n  @%q8 bra T{0};\n", i);
  }
  kernel += "  ret;\n";
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string text = Replaced(texts[i], "$", std::to_string(i));
    text = Replaced(text, "[x]", "[%rd1]");
    text = Replaced(text, "[y]", "[%rd1+64]");
    text = Replaced(text, "[z]", "[%rd1+128]");
    for (int r = 0; r < 8; ++r) {
      text = Replaced(text, fmt::format("[r{}]", r),
                      fmt::format("[%rd1+{}]", 192 + 4 * r));
    }
    kernel += fmt::format("T{}:\n{}\n  ret;\n", i, text);
  }
  return kernel + "}\n";
}

class Weak : public testing::Test {
 protected:
  struct Memory {
    std::array<uint32_t, 256> words{};
    uint32_t x() const { return words[0]; }
    uint32_t y() const { return words[16]; }
    uint32_t z() const { return words[32]; }
    uint32_t r(size_t i) const { return words[48 + i]; }
  };
  using Seen = std::function<bool(const Memory&)>;

  void Load(const std::string& text) {
    bench_.emplace();
    const absl::Status loaded = bench_->Load(text, {.device_graphs = true});
    ASSERT_TRUE(loaded.ok()) << loaded << text;
    at_ = bench_->Allocate(sizeof(Memory));
  }
  Memory& Words() {
    return *reinterpret_cast<Memory*>(
        bench_->At<uint32_t>(at_, sizeof(Memory) / 4).data());
  }
  // Runs the kernel once. `beside` is called after each turn.
  void Run(uint64_t seed, Dim3 grid, Dim3 block,
           const std::function<void()>& beside = {}) {
    Launch launch{.program = &bench_->program(),
                  .kernel = bench_->program().FindEntry("k"),
                  .grid = grid,
                  .block = block};
    launch.parameters.resize(8);
    std::memcpy(launch.parameters.data(), &at_, 8);
    InterleavedGpu gpu(&bench_->memory(),
                       {.seed = seed, .longest_turn = 64, .weak_memory = true});
    absl::Status status = absl::UnknownError("it did not end");
    ASSERT_TRUE(
        gpu.Begin(launch, 0, [&](absl::Status how) { status = std::move(how); })
            .ok());
    for (int i = 0; i < kTurns && gpu.grids() != 0; ++i) {
      gpu.Step();
      if (beside) beside();
    }
    ASSERT_TRUE(status.ok()) << status << ", seed " << seed;
  }
  // Returns the first seed that gives such an end; kSeeds if none does.
  uint64_t FirstSeed(Dim3 grid, Dim3 block, const Seen& seen) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Words() = {};
      Run(seed, grid, block);
      if (HasFatalFailure() || seen(Words())) return seed;
    }
    return kSeeds;
  }
  uint64_t FirstSeedOf(Threads threads, const std::vector<std::string>& texts,
                       const Seen& seen) {
    Load(Kernel(threads, texts));
    if (HasFatalFailure()) return 0;
    const auto count = static_cast<uint32_t>(texts.size());
    return FirstSeed({threads == Threads::kBlocks ? count : 1},
                     {threads == Threads::kBlocks  ? 1
                      : threads == Threads::kWarps ? 32 * count
                                                   : 32},
                     seen);
  }
  void ExpectNever(Threads threads, const std::vector<std::string>& texts,
                   const Seen& seen) {
    EXPECT_EQ(FirstSeedOf(threads, texts, seen), kSeeds)
        << "was seen: " << Kernel(threads, texts);
  }
  void ExpectSeen(Threads threads, const std::vector<std::string>& texts,
                  const Seen& seen) {
    EXPECT_LT(FirstSeedOf(threads, texts, seen), kSeeds)
        << "was not seen: " << Kernel(threads, texts);
  }

  std::optional<Bench> bench_;
  DeviceAddress at_ = 0;
};

// Waits until a load of [y], in the words of `load`, is not `than`.
std::string Await(std::string_view load, std::string_view place = "[y]",
                  int than = 0) {
  return fmt::format(R"(W$: {} %r1, {};
  setp.eq.u32 %q$, %r1, {};
  @%q$ bra W$;
)",
                     load, place, than);
}
// The reader had x in its hands before, as code that runs for the second time.
std::vector<std::string> MessagePassing(
    std::string_view release, std::string_view acquire,
    std::string_view store = "st.relaxed.sys.global.u32",
    std::string_view load = "ld.relaxed.sys.global.u32") {
  return {fmt::format("st.global.u32 [x], 1; {} {} [y], 1;", release, store),
          Await(load) + std::string(acquire) +
              "ld.global.u32 %r2, [x]; st.global.u32 [r0], %r2;"};
}
bool IsStale(const auto& memory) { return memory.r(0) == 0; }

// --- Message passing.

TEST_F(Weak, MessagesAreWholeWithEachFormOfReleaseAndAcquire) {
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  for (const std::string release :
       {"fence.acq_rel.gpu;", "fence.release.gpu;", "fence.sc.gpu;",
        "membar.gl;", "fence.acq_rel.sys;", "membar.sys;"}) {
    ExpectNever(Threads::kBlocks, MessagePassing(release, "fence.acq_rel.gpu;"),
                stale);
  }
  for (const std::string acquire :
       {"fence.acquire.gpu;", "fence.sc.sys;", "membar.gl;"}) {
    ExpectNever(Threads::kBlocks, MessagePassing("fence.acq_rel.gpu;", acquire),
                stale);
  }
  ExpectNever(Threads::kBlocks,
              MessagePassing("", "", "st.release.gpu.global.u32",
                             "ld.acquire.gpu.global.u32"),
              stale);
  ExpectNever(
      Threads::kBlocks,
      MessagePassing("", "fence.acquire.gpu;", "red.release.gpu.global.add.u32",
                     "ld.relaxed.gpu.global.u32"),
      stale);
  ExpectNever(Threads::kBlocks,
              {"st.global.u32 [x], 1;"
               "atom.release.gpu.global.exch.b32 %r5, [y], 1;",
               R"(W$: atom.acquire.gpu.global.cas.b32 %r1, [y], 1, 1;
                  setp.eq.u32 %q$, %r1, 0;
                  @%q$ bra W$;
                  ld.global.u32 %r2, [x]; st.global.u32 [r0], %r2;)"},
              stale);
}

TEST_F(Weak, AMissingReleaseIsSeen) {
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  for (const std::string store :
       {"st.relaxed.gpu.global.u32", "st.global.u32", "st.volatile.global.u32",
        "st.release.cta.global.u32", "red.relaxed.gpu.global.add.u32"}) {
    ExpectSeen(Threads::kBlocks,
               MessagePassing("", "fence.acq_rel.gpu;", store), stale);
  }
  for (const std::string fence :
       {"fence.acq_rel.cta;", "fence.acquire.gpu;", "membar.cta;"}) {
    ExpectSeen(Threads::kBlocks, MessagePassing(fence, "fence.acq_rel.gpu;"),
               stale);
  }
}

TEST_F(Weak, AMissingAcquireIsSeen) {
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  for (const std::string load :
       {"ld.relaxed.gpu.global.u32", "ld.volatile.global.u32",
        "ld.acquire.cta.global.u32"}) {
    ExpectSeen(Threads::kBlocks,
               MessagePassing("fence.acq_rel.gpu;", "",
                              "st.relaxed.sys.global.u32", load),
               stale);
  }
  for (const std::string fence :
       {"fence.acq_rel.cta;", "fence.release.gpu;", "membar.cta;"}) {
    ExpectSeen(Threads::kBlocks, MessagePassing("fence.acq_rel.gpu;", fence),
               stale);
  }
}

TEST_F(Weak, WarpsOfABlockNeedItsScope) {
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  ExpectNever(Threads::kWarps,
              MessagePassing("fence.acq_rel.cta;", "fence.acq_rel.cta;"),
              stale);
  ExpectNever(Threads::kWarps,
              MessagePassing("", "", "st.release.cta.global.u32",
                             "ld.acquire.cta.global.u32"),
              stale);
  ExpectSeen(Threads::kWarps, MessagePassing("", "fence.acq_rel.cta;"), stale);
  ExpectSeen(Threads::kWarps, MessagePassing("fence.acq_rel.cta;", ""), stale);
}

TEST_F(Weak, SharedMemoryIsAsWeak) {
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  const auto shared = [](std::string_view release, std::string_view acquire) {
    return std::vector<std::string>{
        fmt::format("st.shared.u32 [s], 1; st.{}.shared.u32 [s+16], 1;",
                    release),
        // No zero is left of another run.
        Await(fmt::format("ld.{}.shared.u32", acquire), "[s+16]") +
            "ld.shared.u32 %r2, [s]; st.global.u32 [r0], %r2;"};
  };
  ExpectNever(Threads::kWarps, shared("release.cta", "acquire.cta"), stale);
  ExpectSeen(Threads::kWarps, shared("relaxed.cta", "acquire.cta"), stale);
  ExpectSeen(Threads::kWarps, shared("release.cta", "relaxed.cta"), stale);
  // In generic addresses, too.
  const std::string generic =
      "mov.u32 %r3, s; cvt.u64.u32 %rd2, %r3;"
      "cvta.shared.u64 %rd2, %rd2;";
  ExpectNever(Threads::kWarps,
              {generic + "st.u32 [%rd2], 1; st.release.cta.u32 [%rd2+16], 1;",
               generic + Await("ld.acquire.cta.u32", "[%rd2+16]") +
                   "ld.u32 %r2, [%rd2]; st.global.u32 [r0], %r2;"},
              stale);
  ExpectSeen(Threads::kWarps,
             {generic + "st.u32 [%rd2], 1; st.relaxed.cta.u32 [%rd2+16], 1;",
              generic + Await("ld.acquire.cta.u32", "[%rd2+16]") +
                  "ld.u32 %r2, [%rd2]; st.global.u32 [r0], %r2;"},
             stale);
}

TEST_F(Weak, ABarrierOrdersItsBlock) {
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  const auto with = [](std::string_view first, std::string_view second) {
    return std::vector<std::string>{
        fmt::format("st.global.u32 [x], 1; st.shared.u32 [s], 1; {}", first),
        fmt::format("{} ld.global.u32 %r2, [x]; ld.shared.u32 %r3, [s];"
                    "and.b32 %r2, %r2, %r3; st.global.u32 [r0], %r2;",
                    second)};
  };
  ExpectNever(Threads::kWarps, with("bar.sync 0;", "bar.sync 0;"), stale);
  ExpectNever(Threads::kWarps, with("bar.arrive 1, 64;", "bar.sync 1, 64;"),
              stale);
  ExpectSeen(Threads::kWarps, with("", ""), stale);
}

// --- Lanes of a warp.

TEST_F(Weak, LanesOfAWarpAreThreads) {
  const auto text = [](std::string_view between) {
    return fmt::format(R"(
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %q<4>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %laneid;
  setp.eq.u32 %q1, %r1, 0;
  setp.eq.u32 %q2, %r1, 5;
  @%q1 st.global.u32 [%rd1], 1;
  {}
  @%q2 ld.global.u32 %r2, [%rd1];
  @%q2 st.global.u32 [%rd1+192], %r2;
  ret;
}})",
                       between);
  };
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  for (const std::string between :
       {"bar.warp.sync -1;", "or.pred %q3, %q1, %q2; @%q3 bar.warp.sync 33;",
        "bar.sync 0;"}) {
    Load(text(between));
    EXPECT_EQ(FirstSeed({}, {32}, stale), kSeeds) << between;
  }
  // A vote is no barrier, and neither is one of other lanes.
  for (const std::string between :
       {"", "vote.sync.ballot.b32 %r3, 1, -1;", "fence.acq_rel.gpu;",
        "setp.gt.u32 %q3, %r1, 7; @%q3 bar.warp.sync 0xffffff00;"}) {
    Load(text(between));
    EXPECT_LT(FirstSeed({}, {32}, stale), kSeeds) << between;
  }
}

// All lanes store; one of them tells another block.
TEST_F(Weak, OneLaneReleasesTheOthersStoresOnlyAfterAWarpBarrier) {
  const auto text = [](std::string_view between, std::string_view release) {
    return fmt::format(R"(
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %q<4>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %laneid;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  mov.u32 %r2, %ctaid.x;
  setp.eq.u32 %q1, %r2, 1;
  @%q1 bra READER;
  st.global.u32 [%rd2+512], 1;
  {}
  setp.ne.u32 %q2, %r1, 0;
  @%q2 ret;
  {}
  ret;
READER:
  ld.acquire.gpu.global.u32 %r3, [%rd1];
  setp.eq.u32 %q2, %r3, 0;
  @%q2 bra READER;
  ld.global.u32 %r4, [%rd2+512];
  st.global.u32 [%rd2+192], %r4;
  ret;
}})",
                       between, release);
  };
  const Seen any = [](const Memory& m) {
    for (size_t i = 0; i < 32; ++i) {
      if (m.r(i) == 0) return true;
    }
    return false;
  };
  for (const std::string release :
       {"st.release.gpu.global.u32 [%rd1], 1;",
        "fence.acq_rel.gpu; atom.global.add.u32 %r5, [%rd1], 1;",
        "fence.sc.gpu; st.relaxed.gpu.global.u32 [%rd1], 1;"}) {
    Load(text("bar.warp.sync -1;", release));
    EXPECT_EQ(FirstSeed({2}, {32}, any), kSeeds) << release;
    Load(text("", release));
    EXPECT_LT(FirstSeed({2}, {32}, any), kSeeds) << release;
  }
  Load(text("bar.warp.sync -1;", "st.relaxed.gpu.global.u32 [%rd1], 1;"));
  EXPECT_LT(FirstSeed({2}, {32}, any), kSeeds);
}

// Rows that ldmatrix reads were stored by several lanes, those that stmatrix
// stores are read by others.
TEST_F(Weak, MatricesPassBetweenLanesByAWarpBarrier) {
  const auto text = [](std::string_view access, std::string_view between) {
    std::string store = "st.shared.u32 [%r2], 0x10001;";
    std::string load = "ld.shared.u32 %r4, [%r3];";
    (access == "ldmatrix" ? load : store) =
        access == "ldmatrix"
            ? "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r3];"
            : "mov.u32 %r4, 0x10001;\n"
              "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r4};\n"
              "add.u32 %r3, %r2, 0;";
    return fmt::format(R"(
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<9>; .reg .b64 %rd<4>;
  .shared .align 16 .b32 s[128];
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %laneid;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  mov.u32 %r5, s;
  mad.lo.u32 %r2, %r1, 4, %r5;
  mad.lo.u32 %r3, %r1, 16, %r5;
  {}
  {}
  {}
  st.global.u32 [%rd2+192], %r4;
  ret;
}})",
                       store, between, load);
  };
  const Seen stale = [](const Memory& m) {
    for (size_t i = 0; i < 32; ++i) {
      if (m.r(i) != 0x10001) return true;
    }
    return false;
  };
  for (const std::string access : {"ldmatrix", "stmatrix"}) {
    Load(text(access, "bar.warp.sync -1;"));
    EXPECT_EQ(FirstSeed({}, {32}, stale), kSeeds) << access;
    Load(text(access, ""));
    EXPECT_LT(FirstSeed({}, {32}, stale), kSeeds) << access;
  }
}

// Each lane stores several elements of the fragment, which others load.
TEST_F(Weak, AFragmentIsReleasedLikeOtherStores) {
  const auto text = [](std::string_view between) {
    return fmt::format(R"(
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<9>; .reg .b64 %rd<4>, %v<4>; .reg .pred %q<4>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %laneid;
  mov.u32 %r2, %ctaid.x;
  setp.eq.u32 %q1, %r2, 1;
  @%q1 bra READER;
  mov.u64 %v0, 0x100000001;
  wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%rd1+512], {{%v0, %v0}};
  {}
  setp.ne.u32 %q2, %r1, 0;
  @%q2 ret;
  st.release.gpu.global.u32 [%rd1], 1;
  ret;
READER:
  ld.acquire.gpu.global.u32 %r3, [%rd1];
  setp.eq.u32 %q2, %r3, 0;
  @%q2 bra READER;
  wmma.load.c.sync.aligned.col.m8n8k4.global.f64 {{%v1, %v2}}, [%rd1+512];
  and.b64 %v1, %v1, %v2;
  cvt.u32.u64 %r4, %v1;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2+192], %r4;
  ret;
}})",
                       between);
  };
  const Seen any = [](const Memory& m) {
    for (size_t i = 0; i < 32; ++i) {
      if (m.r(i) == 0) return true;
    }
    return false;
  };
  Load(text("bar.warp.sync -1;"));
  EXPECT_EQ(FirstSeed({2}, {32}, any), kSeeds);
  Load(text(""));
  EXPECT_LT(FirstSeed({2}, {32}, any), kSeeds);
}

// --- Several places and threads.

std::vector<std::string> StoreBuffering(std::string_view fence) {
  return {fmt::format("st.relaxed.gpu.global.u32 [x], 1; {}"
                      "ld.relaxed.gpu.global.u32 %r1, [y];"
                      "st.global.u32 [r0], %r1;",
                      fence),
          fmt::format("st.relaxed.gpu.global.u32 [y], 1; {}"
                      "ld.relaxed.gpu.global.u32 %r1, [x];"
                      "st.global.u32 [r1], %r1;",
                      fence)};
}
TEST_F(Weak, StoreBufferingNeedsSequentialFences) {
  const Seen both = [](const Memory& m) { return m.r(0) == 0 && m.r(1) == 0; };
  ExpectNever(Threads::kBlocks, StoreBuffering("fence.sc.gpu;"), both);
  ExpectNever(Threads::kBlocks, StoreBuffering("membar.gl;"), both);
  ExpectSeen(Threads::kBlocks, StoreBuffering("fence.acq_rel.gpu;"), both);
  ExpectSeen(Threads::kBlocks, StoreBuffering("fence.sc.cta;"), both);
  ExpectSeen(Threads::kBlocks, StoreBuffering(""), both);
  ExpectNever(Threads::kWarps, StoreBuffering("fence.sc.cta;"), both);
}

TEST_F(Weak, PlacesAreCoherent) {
  // Each order of loads and both kinds of stores: values never go back.
  const std::string reader =
      "ld.relaxed.gpu.global.u32 %r1, [x]; ld.global.u32 %r2, [x];"
      "ld.volatile.global.u32 %r3, [x]; ld.global.u32 %r4, [x];"
      "st.global.u32 [r0], %r1; st.global.u32 [r1], %r2;"
      "st.global.u32 [r2], %r3; st.global.u32 [r3], %r4;";
  const Seen back = [](const Memory& m) {
    return m.r(0) > m.r(1) || m.r(1) > m.r(2) || m.r(2) > m.r(3) || m.x() != 3;
  };
  const std::string writer =
      "st.global.u32 [x], 1; st.relaxed.gpu.global.u32 [x], 2;"
      "st.global.u32 [x], 3;";
  for (const Threads threads :
       {Threads::kBlocks, Threads::kWarps, Threads::kLanes}) {
    ExpectNever(threads, {writer, reader}, back);
    // The values differ between two loads now and then.
    ExpectSeen(threads, {writer, reader},
               [](const Memory& m) { return m.r(0) < m.r(3); });
  }
  // Two writers: readers agree on who was first.
  const auto two = [](int place) {
    return fmt::format(
        "ld.relaxed.gpu.global.u32 %r1, [x]; ld.relaxed.gpu.global.u32 %r2, "
        "[x]; st.global.u32 [r{}], %r1; st.global.u32 [r{}], %r2;",
        place, place + 1);
  };
  ExpectNever(
      Threads::kBlocks,
      {"st.global.u32 [x], 1;", "st.global.u32 [x], 2;", two(0), two(2)},
      [](const Memory& m) {
        return (m.r(0) == 1 && m.r(1) == 2 && m.r(2) == 2 && m.r(3) == 1) ||
               (m.r(0) == 2 && m.r(1) == 1 && m.r(2) == 1 && m.r(3) == 2);
      });
  // A thread reads its own store, or what came after it.
  ExpectNever(Threads::kBlocks,
              {"st.global.u32 [x], 1; ld.global.u32 %r1, [x];"
               "ld.global.u32 %r2, [x]; st.global.u32 [r0], %r1;"
               "st.global.u32 [r1], %r2;",
               "st.global.u32 [x], 2;"},
              [](const Memory& m) {
                return m.r(0) == 0 || (m.r(0) == 2 && m.r(1) == 1) ||
                       (m.r(1) == 2 && m.x() == 1);
              });
}

// What a store without order may do to a later one of another thread.
TEST_F(Weak, ALateStoreOverwritesANewerOne) {
  const auto texts = [](std::string_view fence) {
    return std::vector<std::string>{
        fmt::format("st.global.u32 [x], 1; {}"
                    "atom.relaxed.gpu.global.exch.b32 %r1, [y], 1;",
                    fence),
        Await("ld.acquire.gpu.global.u32") + "st.global.u32 [x], 2;"};
  };
  const Seen lost = [](const Memory& m) { return m.x() == 1; };
  ExpectSeen(Threads::kBlocks, texts(""), lost);
  ExpectNever(Threads::kBlocks, texts("fence.acq_rel.gpu;"), lost);
}

TEST_F(Weak, IndependentReadsOfIndependentWritesNeedFences) {
  const auto texts = [](std::string_view fence) {
    const auto reader = [&](std::string_view a, std::string_view b, int r) {
      return fmt::format(
          "ld.relaxed.gpu.global.u32 %r1, {}; {} ld.relaxed.gpu.global.u32 "
          "%r2, {}; st.global.u32 [r{}], %r1; st.global.u32 [r{}], %r2;",
          a, fence, b, r, r + 1);
    };
    return std::vector<std::string>{"st.relaxed.gpu.global.u32 [x], 1;",
                                    "st.relaxed.gpu.global.u32 [y], 1;",
                                    reader("[x]", "[y]", 0),
                                    reader("[y]", "[x]", 2)};
  };
  const Seen apart = [](const Memory& m) {
    return m.r(0) == 1 && m.r(1) == 0 && m.r(2) == 1 && m.r(3) == 0;
  };
  ExpectNever(Threads::kBlocks, texts("fence.sc.gpu;"), apart);
  ExpectSeen(Threads::kBlocks, texts(""), apart);
}

TEST_F(Weak, ReleasesAreCumulative) {
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  const auto chain = [](std::string_view acquire, std::string_view release) {
    return std::vector<std::string>{
        "st.relaxed.gpu.global.u32 [x], 1;",
        Await("ld.relaxed.gpu.global.u32", "[x]") + std::string(acquire) +
            fmt::format("st.{}.gpu.global.u32 [y], 1;", release),
        Await("ld.acquire.gpu.global.u32") +
            "ld.global.u32 %r2, [x]; st.global.u32 [r0], %r2;"};
  };
  ExpectNever(Threads::kBlocks, chain("fence.acq_rel.gpu;", "relaxed"), stale);
  ExpectNever(Threads::kBlocks, chain("", "release"), stale);
}

// Thread 0 of block 0 tells a warp of its own block, which tells block 1.
TEST_F(Weak, ScopesChain) {
  const auto text = [](std::string_view inner, std::string_view outer) {
    return fmt::format(R"(
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %q<4>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %laneid;
  setp.ne.u32 %q1, %r1, 0;
  @%q1 ret;
  mov.u32 %r1, %ctaid.x;
  setp.eq.u32 %q1, %r1, 1;
  @%q1 bra LAST;
  mov.u32 %r1, %warpid;
  setp.eq.u32 %q1, %r1, 1;
  @%q1 bra SECOND;
  st.global.u32 [%rd1], 1;
  st.{0}.cta.global.u32 [%rd1+64], 1;
  ret;
SECOND:
  ld.acquire.cta.global.u32 %r3, [%rd1+64];
  setp.eq.u32 %q2, %r3, 0;
  @%q2 bra SECOND;
  st.{1}.global.u32 [%rd1+128], 1;
  ret;
LAST:
  ld.acquire.gpu.global.u32 %r3, [%rd1+128];
  setp.eq.u32 %q2, %r3, 0;
  @%q2 bra LAST;
  ld.global.u32 %r4, [%rd1];
  st.global.u32 [%rd1+192], %r4;
  ret;
}})",
                       inner, outer);
  };
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  Load(text("release", "release.gpu"));
  EXPECT_EQ(FirstSeed({2}, {64}, stale), kSeeds);
  Load(text("relaxed", "release.gpu"));
  EXPECT_LT(FirstSeed({2}, {64}, stale), kSeeds);
  Load(text("release", "release.cta"));
  EXPECT_LT(FirstSeed({2}, {64}, stale), kSeeds);
}

TEST_F(Weak, AReleaseSequenceGoesThroughAtomics) {
  const auto texts = [](std::string_view store) {
    return std::vector<std::string>{
        fmt::format("st.global.u32 [x], 1; {} [y], 1;", store),
        "atom.relaxed.gpu.global.add.u32 %r1, [y], 2;",
        "W$: ld.acquire.gpu.global.u32 %r1, [y];"
        // The other order of the two leaves 1.
        "setp.eq.u32 %q$, %r1, 0; @%q$ bra W$;"
        "setp.eq.u32 %q$, %r1, 2; @%q$ bra W$;"
        "ld.global.u32 %r2, [x]; st.global.u32 [r0], %r2;"};
  };
  const Seen stale = [](const Memory& m) { return IsStale(m); };
  ExpectNever(Threads::kBlocks, texts("st.release.gpu.global.u32"), stale);
  ExpectSeen(Threads::kBlocks, texts("st.relaxed.gpu.global.u32"), stale);
}

// --- Atomics and locks.

TEST_F(Weak, AtomicsLoseNothing) {
  // Beside stores that are late, and loads that are old, at the same place.
  for (const std::string space : {"global", "shared"}) {
    const std::string at = space == "global" ? "[x]" : "[s]";
    const std::string add = fmt::format(
        "ld.{0}.u32 %r1, {1}; atom.{0}.add.u32 %r2, {1}, 1;"
        "atom.{0}.add.u32 %r3, {1}, 1; ld.{0}.u32 %r4, {1};"
        "setp.le.u32 %q$, %r3, %r2; @%q$ bra WRONG$;"
        "setp.gt.u32 %q$, %r4, %r3; @%q$ bra RIGHT$;"
        "WRONG$: st.global.u32 [r1], 1;"
        "RIGHT$: bar.sync 0; ld.{0}.u32 %r5, {1}; st.global.u32 [r0], %r5;",
        space, at);
    ExpectNever(Threads::kWarps, {add, add, add},
                [](const Memory& m) { return m.r(0) != 6 || m.r(1) != 0; });
  }
}

// Each of 4 blocks adds 1 under a lock, twice.
std::vector<std::string> Locked(std::string_view acquire,
                                std::string_view release) {
  return std::vector<std::string>(4, fmt::format(R"(
  mov.u32 %r5, 0;
W$: atom.{}.global.cas.b32 %r1, [y], 0, 1;
  setp.ne.u32 %q$, %r1, 0;
  @%q$ bra W$;
  ld.global.u32 %r2, [x];
  add.u32 %r2, %r2, 1;
  st.global.u32 [x], %r2;
  {}
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %q$, %r5, 2;
  @%q$ bra W$;
)",
                                                 acquire, release));
}
TEST_F(Weak, ALockNeedsItsOrder) {
  const Seen lost = [](const Memory& m) { return m.x() != 8; };
  const std::string store = "st.release.gpu.global.u32 [y], 0;";
  ExpectNever(Threads::kBlocks, Locked("acquire.gpu", store), lost);
  ExpectNever(Threads::kBlocks,
              Locked("acquire.gpu", "red.release.gpu.global.add.u32 [y], -1;"),
              lost);
  ExpectNever(Threads::kBlocks,
              Locked("acquire.gpu",
                     "fence.acq_rel.gpu; atom.global.exch.b32 %r6, [y], 0;"),
              lost);
  ExpectSeen(Threads::kBlocks, Locked("relaxed.gpu", store), lost);
  ExpectSeen(Threads::kBlocks, Locked("acquire.cta", store), lost);
  ExpectSeen(Threads::kBlocks,
             Locked("acquire.gpu", "st.relaxed.gpu.global.u32 [y], 0;"), lost);
  ExpectSeen(Threads::kBlocks,
             Locked("acquire.gpu", "atom.global.exch.b32 %r6, [y], 0;"), lost);
}

// Each block stores; the one that comes last sums up.
TEST_F(Weak, TheLastBlockNeedsBothFences) {
  const auto texts = [](std::string_view before, std::string_view after) {
    std::vector<std::string> blocks;
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(fmt::format(
          R"(
  ld.global.u32 %r6, [r0]; ld.global.u32 %r7, [r1]; ld.global.u32 %r8, [r2];
  st.global.u32 [r{}], 1;
  {}
  atom.relaxed.gpu.global.add.u32 %r1, [y], 1;
  {}
  setp.ne.u32 %q$, %r1, 2;
  @%q$ ret;
  ld.global.u32 %r2, [r0]; ld.global.u32 %r3, [r1]; ld.global.u32 %r4, [r2];
  add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;
  st.global.u32 [x], %r2;
)",
          i, before, after));
    }
    return blocks;
  };
  const Seen lost = [](const Memory& m) { return m.x() != 3; };
  const std::string fence = "fence.acq_rel.gpu;";
  ExpectNever(Threads::kBlocks, texts(fence, fence), lost);
  ExpectSeen(Threads::kBlocks, texts("", fence), lost);
  ExpectSeen(Threads::kBlocks, texts(fence, ""), lost);
}

// --- The host.

TEST_F(Weak, TheHostSeesWhatIsReleasedToTheSystem) {
  const auto stale = [this](std::string_view fence) {
    // It goes on after its stores: its end would publish them.
    Load(Kernel(Threads::kBlocks, {MessagePassing(fence, "").front() +
                                   "mov.u32 %r3, 0; G$: add.u32 %r3, %r3, 1;"
                                   "setp.lt.u32 %q$, %r3, 99; @%q$ bra G$;"}));
    int count = 0;
    for (uint64_t seed = 0; seed < kSeeds && count == 0; ++seed) {
      Words() = {};
      bool told = false;
      Run(seed, {1}, {1}, [&] {
        if (Words().y() == 1 && !std::exchange(told, true)) {
          count += Words().x() == 0;
        }
      });
      if (Words().x() != 1 || Words().y() != 1) return -1;  // at its end
    }
    return count;
  };
  EXPECT_EQ(stale("fence.acq_rel.sys;"), 0);
  EXPECT_EQ(stale("membar.sys;"), 0);
  EXPECT_EQ(stale("fence.release.sys;"), 0);
  EXPECT_GT(stale("fence.acq_rel.gpu;"), 0);
  EXPECT_GT(stale("membar.gl;"), 0);
  EXPECT_GT(stale(""), 0);
}

TEST_F(Weak, WhatTheHostStoresNeedsAnAcquireOfTheSystem) {
  const auto stale = [this](std::string_view acquire) {
    Load(Kernel(Threads::kBlocks,
                {"ld.global.u32 %r2, [x]; st.global.u32 [r1], %r2;" +
                 Await("ld.relaxed.sys.global.u32") + std::string(acquire) +
                 "ld.global.u32 %r2, [x]; st.global.u32 [r0], %r2;"}));
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Words() = {};
      int turns = 0;
      Run(seed, {1}, {1}, [&] {
        if (++turns == 20) {
          Words().words[0] = 1;
          Words().words[16] = 1;
        }
      });
      if (IsStale(Words())) return true;
    }
    return false;
  };
  EXPECT_FALSE(stale("fence.acq_rel.sys;"));
  EXPECT_FALSE(stale("fence.acquire.sys;"));
  EXPECT_TRUE(stale("fence.acq_rel.gpu;"));
  EXPECT_TRUE(stale("fence.release.sys;"));
  EXPECT_TRUE(stale(""));
}

TEST_F(Weak, ALaunchSeesWhatTheHostStoredBefore) {
  Load(Kernel(Threads::kBlocks, {"ld.u32 %r1, [x]; st.u32 [r0], %r1;"
                                 "mov.u32 %r2, 1; st.u32 [x], %r2;"}));
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Launch launch{.program = &bench_->program(),
                  .kernel = bench_->program().FindEntry("k"),
                  .grid = {1},
                  .block = {1}};
    launch.parameters.resize(8);
    std::memcpy(launch.parameters.data(), &at_, 8);
    InterleavedGpu gpu(&bench_->memory(), {.seed = seed, .weak_memory = true});
    for (uint32_t n = 10; n < 13; ++n) {
      Words().words[0] = n;
      ASSERT_TRUE(gpu.Begin(launch, 0, [](const absl::Status&) {}).ok());
      for (int i = 0; i < kTurns && gpu.grids() != 0; ++i) gpu.Step();
      ASSERT_EQ(Words().r(0), n) << "seed " << seed;
    }
  }
}

// CUDA says no more of a wait than that the work behind it begins later.
TEST_F(Weak, AGridBehindAStreamsWaitMayHaveReadAhead) {
  const auto stale = [this](std::string_view fence, bool waits) {
    Load(Kernel(Threads::kBlocks,
                {fmt::format("{} ld.u32 %r1, [x]; st.u32 [r0], %r1;", fence)}));
    for (uint64_t seed = 0; seed < kSeeds && !HasFatalFailure(); ++seed) {
      Words() = {};
      Launch launch{.program = &bench_->program(),
                    .kernel = bench_->program().FindEntry("k")};
      launch.parameters.resize(8);
      std::memcpy(launch.parameters.data(), &at_, 8);
      InterleavedGpu gpu(&bench_->memory(),
                         {.seed = seed, .weak_memory = true});
      const auto since = gpu.ReadAhead(at_, 16);
      EXPECT_TRUE(since.ok()) << since.status();
      Words().words[0] = 1;
      EXPECT_TRUE(gpu.Begin(
                         launch, 0, [](const absl::Status&) {}, {.count = 1},
                         waits ? std::optional(*since) : std::nullopt)
                      .ok());
      for (int i = 0; i < kTurns && gpu.grids() != 0; ++i) gpu.Step();
      if (Words().r(0) == 0) return true;
    }
    return false;
  };
  EXPECT_TRUE(stale("", true));
  EXPECT_TRUE(stale("fence.acquire.gpu;", true));
  EXPECT_FALSE(stale("fence.acquire.sys;", true));
  EXPECT_FALSE(stale("", false));
}

// As a GPU reads host memory; PTX does not say so.
TEST_F(Weak, OneLoadReads32BytesOfTheHostAtOneTime) {
  const auto torn = [this](uint32_t distance) {
    Load(fmt::format(R"(
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %q;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %laneid;
  mul.wide.u32 %rd2, %r1, {};
  add.u64 %rd2, %rd1, %rd2;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd3, %rd1, %rd3;
L:
  ld.relaxed.sys.global.u32 %r2, [%rd2];
  shfl.sync.idx.b32 %r3, %r2, 1, 31, 3;
  setp.eq.u32 %q, %r3, 0;
  @%q bra L;
  st.global.u32 [%rd3+192], %r2;
  ret;
}}
)",
                     distance));
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Words() = {};
      int turns = 0;
      Run(seed, {1}, {2}, [&] {
        if (++turns != 20) return;
        Words().words[0] = 1;
        Words().words[distance / 4] = 1;
      });
      if (HasFatalFailure() || IsStale(Words())) return true;
    }
    return false;
  };
  EXPECT_FALSE(torn(16));
  EXPECT_TRUE(torn(32));
}

// Also when what others store elsewhere makes them arrive sooner.
TEST_F(Weak, StoresOfOneThreadToOnePlaceKeepTheirOrder) {
  const std::string racing =
      "mov.u32 %r1, $; st.u32 [x], %r1; st.u32 [x], %r1; st.u32 [x], %r1;"
      "st.u32 [x], %r1; st.u32 [x], %r1; st.u32 [x], %r1;";
  const std::string counting =
      "mov.u32 %r1, 1; st.u32 [y], %r1; mov.u32 %r2, 7; st.u32 [z], %r2;"
      "mov.u32 %r1, 2; st.u32 [y], %r1;";
  ExpectNever(Threads::kBlocks, {counting, racing, racing},
              [](const Memory& m) { return m.y() != 2; });
}

// --- Launches by kernels.

TEST_F(Weak, ALaunchedGridSeesWhatAFencePutBeforeTheLaunch) {
  const auto stale = [this](std::string_view fence) {
    Load(fmt::format(R"(
.extern .func (.param .b32 result) cudaGraphLaunch
(.param .b64 exec, .param .b64 stream);
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %q<4>;
  .param .b64 exec; .param .b64 stream; .param .b32 result;
  ld.param.u64 %rd1, [p];
  st.global.u32 [%rd1], 1;
  {}
  mov.u64 %rd2, 7;
  st.param.b64 [exec], %rd2;
  st.param.b64 [stream], %rd2;
  call.uni (result), cudaGraphLaunch, (exec, stream);
  mov.u32 %r1, 0;
AGAIN:  // its end would publish the store
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %q1, %r1, 99;
  @%q1 bra AGAIN;
  ret;
}}
.visible .entry child(.param .u64 p) {{
  .reg .b32 %r<9>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd1+192], %r1;
  ret;
}})",
                     fence));
    for (uint64_t seed = 0; seed < kSeeds && !HasFatalFailure(); ++seed) {
      Words() = {};
      Launch launch{.program = &bench_->program(),
                    .kernel = bench_->program().FindEntry("k")};
      launch.parameters.resize(8);
      std::memcpy(launch.parameters.data(), &at_, 8);
      Launch child = launch;
      child.kernel = bench_->program().FindEntry("child");
      bool launched = false;
      InterleavedGpu gpu(
          &bench_->memory(),
          {.seed = seed,
           .longest_turn = 4,
           .weak_memory = true,
           .launch_graph = [&](const Warp&, uint64_t exec, uint64_t) {
             EXPECT_EQ(exec, 7u);
             launched = true;
             return 0u;
           }});
      const auto ended = [](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
      };
      EXPECT_TRUE(gpu.Begin(launch, 0, ended).ok());
      for (int i = 0; i < kTurns && gpu.grids() != 0; ++i) {
        gpu.Step();
        if (!std::exchange(launched, false)) continue;
        EXPECT_TRUE(gpu.Begin(child, 0, ended).ok());
      }
      if (IsStale(Words())) return true;
    }
    return false;
  };
  EXPECT_FALSE(stale("fence.acq_rel.gpu;"));
  EXPECT_FALSE(stale("membar.gl;"));
  EXPECT_TRUE(stale("fence.acq_rel.cta;"));
  EXPECT_TRUE(stale(""));
}

// --- Accesses of several elements.

TEST_F(Weak, AnElementIsWholeAndAVectorIsNot) {
  const auto texts = [](std::string_view store) {
    return std::vector<std::string>{
        fmt::format("mov.u64 %rd2, 0x100000001; mov.u32 %r1, 1; {}", store),
        "ld.global.u64 %rd3, [x]; st.global.u64 [r0], %rd3;"};
  };
  const Seen torn = [](const Memory& m) { return m.r(0) != m.r(1); };
  ExpectNever(Threads::kBlocks, texts("st.global.u64 [x], %rd2;"), torn);
  ExpectSeen(Threads::kBlocks, texts("st.global.v2.u32 [x], {%r1, %r1};"),
             torn);
}

// --- The run as a whole.

// More stores than may be on their way at once.
TEST_F(Weak, ManyStoresArriveAll) {
  Load(R"(
.visible .entry k(.param .u64 p) {
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %q<4>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  mov.u32 %r2, 0;
AGAIN:
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd2], %r2;
  st.global.v4.u32 [%rd1+512], {%r2, %r2, %r2, %r2};
  ld.global.u32 %r3, [%rd2];
  setp.ne.u32 %q1, %r3, %r2;
  @%q1 trap;
  setp.lt.u32 %q1, %r2, 50;
  @%q1 bra AGAIN;
  ret;
})");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Words() = {};
    Run(seed, {1}, {128});
    for (size_t i = 0; i < 128; ++i) ASSERT_EQ(Words().words[i], 50u);
    for (size_t i = 128; i < 132; ++i) ASSERT_EQ(Words().words[i], 50u);
  }
}

TEST_F(Weak, ASeedGivesTheSameValues) {
  Load(
      Kernel(Threads::kBlocks, Locked("relaxed.gpu", "st.global.u32 [y], 0;")));
  std::vector<uint32_t> first;
  int different = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Words() = {};
    Run(seed, {4}, {1});
    first.push_back(Words().x());
    different += first.back() != first.front();
  }
  EXPECT_GT(different, 0);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Words() = {};
    Run(seed, {4}, {1});
    ASSERT_EQ(Words().x(), first[seed]) << seed;
  }
}

TEST_F(Weak, FreedMemoryIsNotWrittenToLater) {
  Load(Kernel(Threads::kBlocks, {"ld.global.u64 %rd2, [x];"
                                 "st.global.u32 [%rd2], 1;"
                                 "st.release.sys.global.u32 [y], 1;" +
                                 Await("ld.relaxed.sys.global.u32", "[z]")}));
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Words() = {};
    std::vector<uint32_t> mapped(1);
    const auto at = bench_->memory().Map(
        std::as_writable_bytes(std::span(mapped)), true, "mapped");
    ASSERT_TRUE(at.ok());
    std::memcpy(Words().words.data(), &*at, 8);
    bool freed = false;
    // At once after the store, which may still be on its way.
    int turns = 0;
    Run(seed, {1}, {1}, [&] {
      if (freed || (++turns < 40 && Words().y() == 0)) return;
      freed = true;
      ASSERT_TRUE(bench_->memory().Free(*at).ok());
      mapped[0] = 7;
      Words().words[32] = 1;
    });
    ASSERT_EQ(mapped[0], 7u) << seed;
  }
}

}  // namespace
}  // namespace carillon::sim
