// What the lanes of a warp do with each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

// One warp executes `text` on its lanes' %a, %b and %c (32 bits), %w (64) and
// %q (bit 0 of a), and on %members; the results are %d and %p. Lanes that are
// not in `active` branch around it and keep 0x5555 and false.
class WarpTest : public testing::Test {
 protected:
  absl::Status Run(const std::string& text, uint32_t active, uint32_t members,
                   uint32_t block = 32) {
    const auto [found, added] = benches_.try_emplace(text);
    Bench& bench = found->second;
    if (!added) return Run(bench, active, members, block);
    auto status = bench.Load(
        ".visible .entry k(.param .u64 p, .param .u64 active,\n"
        ".param .u64 members) { .reg .b32 %r<9>, %a, %b, %c, %d, %members;\n"
        ".reg .b64 %rd<9>, %w; .reg .pred %x, %q, %p; .reg .b32 %e, %t;\n"
        "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 32;\n"
        "ld.param.u64 %rd2, [p]; add.s64 %rd2, %rd2, %rd1;\n"
        "ld.param.u32 %r2, [active]; ld.param.u32 %members, [members];\n"
        "ld.global.u32 %a, [%rd2]; ld.global.u32 %b, [%rd2+4];\n"
        "ld.global.u32 %c, [%rd2+8]; ld.global.u64 %w, [%rd2+16];\n"
        "and.b32 %e, %a, 1; setp.ne.u32 %q, %e, 0; mov.u32 %d, 0x5555;\n"
        "setp.ne.u32 %p, 0, 0; shr.u32 %r3, %r2, %r1; and.b32 %r3, %r3, 1;\n"
        "setp.eq.u32 %x, %r3, 0; @%x bra AROUND;\n" +
        text +
        "\nAROUND: st.global.u32 [%rd2+24], %d; selp.u32 %r4, 1, 0, %p;\n"
        "st.global.u32 [%rd2+28], %r4; ret; }");
    return status.ok() ? Run(bench, active, members, block) : status;
  }
  absl::Status Run(Bench& bench, uint32_t active, uint32_t members,
                   uint32_t block) {
    const DeviceAddress at = bench.Allocate(32 * 32);
    const auto words = bench.At<uint32_t>(at, 8 * 32);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      words[8 * lane] = a_[lane];
      words[8 * lane + 1] = b_[lane];
      words[8 * lane + 2] = c_[lane];
      words[8 * lane + 4] = static_cast<uint32_t>(w_[lane]);
      words[8 * lane + 5] = static_cast<uint32_t>(w_[lane] >> 32);
    }
    const auto ran =
        bench.Run("k", {1, 1, 1}, {block, 1, 1}, {at, active, members});
    for (uint32_t lane = 0; lane < 32; ++lane) {
      d_[lane] = words[8 * lane + 6];
      p_[lane] = words[8 * lane + 7];
    }
    return ran.status();
  }
  std::string Error(const std::string& text, uint32_t active,
                    uint32_t members) {
    const absl::Status status = Run(text, active, members);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    return std::string(status.message());
  }
  void Randomize(uint32_t bits) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const Values v = {random_() >> (64 - bits), random_() >> (64 - bits),
                        random_()};
      a_[lane] = static_cast<uint32_t>(v[0]);
      b_[lane] = static_cast<uint32_t>(v[1]);
      w_[lane] = v[2];
    }
  }
  // Expects that an inactive lane kept its values.
  void ExpectUntouched(uint32_t lane) {
    EXPECT_EQ(d_[lane], 0x5555u) << lane;
    EXPECT_EQ(p_[lane], 0u) << lane;
  }

  std::map<std::string, Bench> benches_;
  std::mt19937_64 random_{20};
  std::array<uint32_t, 32> a_{}, b_{}, c_{}, d_{}, p_{};
  std::array<uint64_t, 32> w_{};
};

// CUDA's __shfl functions: the warp in groups of `width` lanes.
TEST_F(WarpTest, ShufflesStayWithinTheirGroup) {
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    for (uint32_t width = 1; width <= 32; width *= 2) {
      for (uint32_t by = 0; by < 32; ++by) {
        Randomize(32);
        const bool up = mode == std::string_view("up");
        b_.fill(by);
        c_.fill((32 - width) << 8 | (up ? 0 : 31));
        ASSERT_EQ(
            Run(fmt::format("shfl.sync.{}.b32 %d|%p, %a, %b, %c, %members;",
                            mode),
                ~0u, ~0u),
            absl::OkStatus());
        for (uint32_t lane = 0; lane < 32; ++lane) {
          const uint32_t first = lane / width * width;
          const uint32_t last = first + width - 1;
          int64_t from = up                                 ? int64_t{lane} - by
                         : mode == std::string_view("down") ? int64_t{lane} + by
                         : mode == std::string_view("bfly")
                             ? lane ^ by
                             : first + by % width;
          // bfly may read lower groups, of those that are there already.
          const bool within = up ? from >= first : from <= last;
          if (!within) from = lane;
          ASSERT_EQ(d_[lane], a_[static_cast<size_t>(from)])
              << mode << " " << width << " " << by << " lane " << lane;
          ASSERT_EQ(p_[lane], within) << mode << " " << lane;
        }
      }
    }
  }
}

// PTX ISA, shfl.sync, its pseudo code, with what no __shfl makes: each lane
// with its own distance, clamp and segment.
TEST_F(WarpTest, ShufflesTakeAnyClampAndSegment) {
  for (int round = 0; round < 200; ++round) {
    Randomize(32);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      c_[lane] = static_cast<uint32_t>(w_[lane]);
    }
    for (const std::string mode : {"up", "down", "bfly", "idx"}) {
      ASSERT_EQ(Run(fmt::format("shfl.sync.{}.b32 %d|%p, %a, %b, %c, %members;",
                                mode),
                    ~0u, ~0u),
                absl::OkStatus());
      for (int lane = 0; lane < 32; ++lane) {
        const auto i = static_cast<size_t>(lane);
        const int by = static_cast<int>(b_[i] % 32);
        const int clamp = static_cast<int>(c_[i] % 32);
        const int segment = static_cast<int>(c_[i] >> 8) & 31;
        const int limit = (lane & segment) | (clamp & (31 - segment));
        int from = mode == "up"     ? lane - by
                   : mode == "down" ? lane + by
                   : mode == "bfly" ? lane ^ by
                                    : (lane & segment) | (by & (31 - segment));
        const bool within = mode == "up" ? from >= limit : from <= limit;
        if (!within) from = lane;
        ASSERT_EQ(d_[i], a_[static_cast<size_t>(from)]) << mode << lane;
        ASSERT_EQ(p_[i], within) << mode << lane;
      }
    }
  }
}

TEST_F(WarpTest, ShufflesWorkAmongTheActive) {
  Randomize(32);
  // Odd lanes: each takes from the next odd one.
  ASSERT_EQ(
      Run("shfl.sync.down.b32 %d|%p, %a, 2, 31, 0xaaaaaaaa;", 0xaaaaaaaa, 0),
      absl::OkStatus());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (lane % 2 == 0) {
      ExpectUntouched(lane);
    } else {
      EXPECT_EQ(d_[lane], a_[lane == 31 ? 31 : lane + 2]);
    }
  }
  // Without a second result; into its own source.
  ASSERT_EQ(Run("shfl.sync.idx.b32 %a, %a, 5, 31, -1; mov.b32 %d, %a;", ~0u, 0),
            absl::OkStatus());
  EXPECT_EQ(d_[17], a_[5]);
}

TEST_F(WarpTest, VotesCountTheActive) {
  for (const uint32_t active : {~0u, 0x0000ffffu, 0xaaaaaaaau, 0x80000000u}) {
    for (int round = 0; round < 20; ++round) {
      Randomize(32);
      if (round < 3) a_.fill(round == 0 ? 0 : 1);
      if (round == 2) a_[31] = 0;
      uint32_t votes = 0;
      for (uint32_t i = 0; i < 32; ++i) votes |= (a_[i] & 1) << i;
      for (const bool negated : {false, true}) {
        const uint32_t yes = (negated ? ~votes : votes) & active;
        const struct {
          const char* mode;
          bool holds;
        } kModes[] = {{"all", yes == active},
                      {"any", yes != 0},
                      {"uni", yes == 0 || yes == active}};
        for (const auto& mode : kModes) {
          ASSERT_EQ(Run(fmt::format("vote.sync.{}.pred %p, {}%q, %members;",
                                    mode.mode, negated ? "!" : ""),
                        active, active),
                    absl::OkStatus());
          for (uint32_t i = 0; i < 32; ++i) {
            ASSERT_EQ(p_[i], (active >> i & 1) != 0 && mode.holds) << i;
          }
        }
        ASSERT_EQ(Run(fmt::format("vote.sync.ballot.b32 %d, {}%q, %members;",
                                  negated ? "!" : ""),
                      active, active),
                  absl::OkStatus());
        for (uint32_t i = 0; i < 32; ++i) {
          ASSERT_EQ(d_[i], (active >> i & 1) != 0 ? yes : 0x5555) << i;
        }
      }
    }
  }
}

TEST_F(WarpTest, MatchesFindEqualValues) {
  for (const uint32_t active : {~0u, 0x0ff0f00fu}) {
    for (uint32_t bits = 0; bits < 4; ++bits) {
      if (bits == 0) {
        a_.fill(7), w_.fill(7);
      } else {
        Randomize(bits);
        // Only the upper half differs.
        for (uint32_t i = 0; i < 32; ++i) w_[i] = uint64_t{a_[i]} << 40;
      }
      for (const bool wide : {false, true}) {
        const std::string source = wide ? "b64 %d, %w" : "b32 %d, %a";
        const auto value = [&](uint32_t i) {
          return wide ? w_[i] : uint64_t{a_[i]};
        };
        ASSERT_EQ(
            Run("match.any.sync." + source + ", %members;", active, active),
            absl::OkStatus());
        bool all = true;
        for (uint32_t i = 0; i < 32; ++i) {
          if ((active >> i & 1) == 0) {
            ExpectUntouched(i);
            continue;
          }
          uint32_t same = 0;
          for (uint32_t j = 0; j < 32; ++j) {
            const bool equal = value(i) == value(j);
            same |= static_cast<uint32_t>(equal && (active >> j & 1)) << j;
          }
          all &= same == active;
          ASSERT_EQ(d_[i], same) << i;
        }
        const std::string both = wide ? "b64 %d|%p, %w" : "b32 %d|%p, %a";
        ASSERT_EQ(Run("match.all.sync." + both + ", %members;", active, active),
                  absl::OkStatus());
        for (uint32_t i = 0; i < 32; ++i) {
          if ((active >> i & 1) == 0) continue;
          ASSERT_EQ(d_[i], all ? active : 0);
          ASSERT_EQ(p_[i], all);
        }
        const std::string second = wide ? "b64 _|%p, %w" : "b32 _|%p, %a";
        ASSERT_EQ(
            Run("match.all.sync." + second + ", %members;", active, active),
            absl::OkStatus());
        for (uint32_t i = 0; i < 32; ++i) {
          ASSERT_EQ(d_[i], 0x5555u);
          ASSERT_EQ(p_[i], (active >> i & 1) != 0 && all);
        }
      }
    }
  }
}

TEST_F(WarpTest, ReductionsAreOfTheActive) {
  for (const uint32_t active : {~0u, 0xf0f0f0f0u, 1u}) {
    Randomize(32);
    std::vector<uint32_t> values;
    for (uint32_t i = 0; i < 32; ++i) {
      if ((active >> i & 1) != 0) values.push_back(a_[i]);
    }
    uint32_t sum = 0, all = ~0u, any = 0, odd = 0;
    for (const uint32_t value : values) {
      sum += value, all &= value, any |= value, odd ^= value;
    }
    const auto by_sign = [](uint32_t a, uint32_t b) {
      return static_cast<int32_t>(a) < static_cast<int32_t>(b);
    };
    const struct {
      const char* name;
      uint32_t result;
    } kReductions[] = {
        {"add.u32", sum},
        {"add.s32", sum},
        {"min.u32", *std::min_element(values.begin(), values.end())},
        {"max.u32", *std::max_element(values.begin(), values.end())},
        {"min.s32", *std::min_element(values.begin(), values.end(), by_sign)},
        {"max.s32", *std::max_element(values.begin(), values.end(), by_sign)},
        {"and.b32", all},
        {"or.b32", any},
        {"xor.b32", odd}};
    for (const auto& reduction : kReductions) {
      ASSERT_EQ(
          Run(fmt::format("redux.sync.{} %d, %a, %members;", reduction.name),
              active, active),
          absl::OkStatus());
      for (uint32_t i = 0; i < 32; ++i) {
        ASSERT_EQ(d_[i], (active >> i & 1) != 0 ? reduction.result : 0x5555)
            << reduction.name << " " << i;
      }
    }
  }
}

TEST_F(WarpTest, ActiveMaskIsOfThePath) {
  ASSERT_EQ(Run("activemask.b32 %d;", 0x00ff1234, 0), absl::OkStatus());
  EXPECT_EQ(d_[2], 0x00ff1234u);
  ExpectUntouched(0);
}

// The warp's block ends in the warp's middle; threads that do not exist need
// not arrive.
TEST_F(WarpTest, MembersMayBeThreadsThatAreNotThere) {
  Randomize(32);
  ASSERT_EQ(
      Run("vote.sync.ballot.b32 %d, !%x, -1; bar.warp.sync -1;", ~0u, 0, 20),
      absl::OkStatus());
  EXPECT_EQ(d_[19], 0xfffffu);
}

TEST_F(WarpTest, MembersMayHaveExited) {
  Randomize(32);
  ASSERT_EQ(Run("@!%q exit; vote.sync.ballot.b32 %d, 1, -1;\n"
                "redux.sync.add.u32 %e, %d, -1; match.all.sync.b32 %t|%p, %e, "
                "-1;",
                ~0u, 0),
            absl::OkStatus());
  uint32_t odd = 0;
  for (uint32_t i = 0; i < 32; ++i) odd |= (a_[i] & 1) << i;
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(d_[i], (odd >> i & 1) != 0 ? odd : 0) << i;
    EXPECT_EQ(p_[i], odd >> i & 1) << i;
  }
}

// Cooperative groups' tiles and labeled_partition() are made of these.
TEST_F(WarpTest, EachGroupOfMembersIsForItself) {
  Randomize(32);
  const std::string tile =
      "and.b32 %r5, %r1, 24; shl.b32 %r6, 255, %r5; mov.b32 %members, %r6;\n";
  ASSERT_EQ(Run(tile + "shfl.sync.idx.b32 %d, %a, 2, 0x181f, %members;\n"
                       "vote.sync.any.pred %p, %q, %members;",
                0xffff0ff0, 0),
            absl::OkStatus());
  for (uint32_t i = 4; i < 32; ++i) {
    if (i >= 12 && i < 16) continue;
    const uint32_t first = i & 24;
    uint32_t any = 0;
    for (uint32_t lane = first; lane < first + 8; ++lane) {
      if (0xffff0ff0 >> lane & 1) any |= a_[lane] & 1;
    }
    EXPECT_EQ(p_[i], any) << i;
    if (first >= 16) {
      EXPECT_EQ(d_[i], a_[first + 2]) << i;
    }
  }
  // Those with an equal value are the next operation's members.
  for (uint32_t& a : a_) a %= 5;
  ASSERT_EQ(Run("match.any.sync.b32 %r5, %a, -1;\n"
                "redux.sync.add.u32 %d, %r1, %r5; bar.warp.sync %r5;",
                ~0u, 0),
            absl::OkStatus());
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t sum = 0;
    for (uint32_t other = 0; other < 32; ++other) {
      if (a_[other] == a_[i]) sum += other;
    }
    EXPECT_EQ(d_[i], sum) << i;
  }
}

// The upper half takes another way to each; what is complete goes on.
TEST_F(WarpTest, LanesWaitForMembersOnOtherPaths) {
  Randomize(32);
  ASSERT_EQ(Run("setp.ge.u32 %x, %r1, 16; mov.u32 %r5, 100; @%x bra UPPER;\n"
                "bar.warp.sync -1; add.u32 %r5, %r5, 1; bra BOTH;\n"
                "UPPER: add.u32 %r5, %r5, 7; bar.warp.sync -1;\n"
                "BOTH: redux.sync.add.u32 %d, %r5, -1;",
                ~0u, 0),
            absl::OkStatus());
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(d_[i], 16u * 101 + 16 * 107);
  // Three groups of one path, of which one waits for lanes that come later.
  ASSERT_EQ(Run("mov.u32 %r5, 0x000000ff; setp.ge.u32 %x, %r1, 8;\n"
                "@%x mov.u32 %r5, 0xf000ff00; setp.ge.u32 %x, %r1, 16;\n"
                "@%x mov.u32 %r5, 0x00ff0000; setp.ge.u32 %x, %r1, 24;\n"
                "@%x mov.u32 %r5, 0x0f000000; setp.ge.u32 %x, %r1, 28;\n"
                "@%x mov.u32 %r5, 0xf000ff00; mov.u32 %r6, 0; mov.u32 %r7, 0;\n"
                "AGAIN: setp.lt.u32 %q, %r6, 3; @%x bra MORE; bra VOTE;\n"
                "MORE: @!%q bra VOTE; add.u32 %r6, %r6, 1; bra AGAIN;\n"
                "VOTE: redux.sync.add.u32 %d, 1, %r5;",
                ~0u, 0),
            absl::OkStatus());
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(d_[i], i < 8    ? 8
                     : i < 16 ? 12
                     : i < 24 ? 8
                     : i < 28 ? 4
                              : 12u)
        << i;
  }
}

TEST_F(WarpTest, MembersThatCannotComeAreAFault) {
  constexpr char kWhere[] = "; lane {} of warp 0, block (0, 0, 0)";
  const struct {
    const char* text;
    const char* name;
  } kOperations[] = {
      {"shfl.sync.idx.b32 %d, %a, 0, 31, %members;", "shfl.sync.idx.b32"},
      {"vote.sync.ballot.b32 %d, %q, %members;", "vote.sync.ballot.b32"},
      {"match.any.sync.b32 %d, %a, %members;", "match.any.sync.b32"},
      {"match.all.sync.b32 %d|%p, %a, %members;", "match.all.sync.b32"},
      {"redux.sync.add.u32 %d, %a, %members;", "redux.sync.add.u32"},
      {"bar.warp.sync %members;", "bar.warp.sync"}};
  for (const auto& operation : kOperations) {
    const std::string place =
        fmt::format("k: test.ptx:13: {}: ", operation.name);
    EXPECT_EQ(Error("setp.lt.u32 %x, %r1, 16; @%x bra SOME; bar.sync 0;\n"
                    "bra AROUND; SOME: " +
                        std::string(operation.text),
                    ~0u, ~0u),
              fmt::format("k: test.ptx:14: {}: lanes 0x0000ffff wait for lanes "
                          "0xffff0000 of the warp, which never come",
                          operation.name) +
                  fmt::format(fmt::runtime(kWhere), 16));
    EXPECT_EQ(Error(operation.text, 0x0000000f, 0x00000007),
              place + "member mask 0x00000007 does not name the lane itself" +
                  fmt::format(fmt::runtime(kWhere), 3));
    EXPECT_THAT(Error(std::string("mov.b32 %members, -1; setp.eq.u32 %p, %r1, "
                                  "5;\n@%p mov.b32 %members, 0xff;\n") +
                          operation.text,
                      ~0u, 0),
                testing::HasSubstr(
                    "member mask 0x000000ff, where lane 0 names 0xffffffff"));
  }
}

}  // namespace
}  // namespace carillon::sim
