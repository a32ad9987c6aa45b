// What a kernel can know of its launch, what it prints, and what is refused.
#include <gtest/gtest.h>

#include <bit>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

// --- Special registers.

struct Thread {
  Dim3 index;
  Dim3 block;
  uint32_t lane = 0;
  uint32_t warp = 0;
};

// What each thread of a grid of 2x3x2 blocks of 5x4x3 threads reads.
void ExpectSpecial(const std::string& name, uint32_t bits,
                   const std::function<uint64_t(const Thread&)>& expected) {
  constexpr Dim3 kGrid{2, 3, 2}, kBlock{5, 4, 3};
  Bench bench;
  ASSERT_EQ(bench.Load(fmt::format(
                ".visible .entry k(.param .u64 p) {{ .reg .b32 %r<20>;\n"
                ".reg .b64 %rd<9>; .reg .b{0} %v; .shared .b8 s[48];\n"
                "mov.u{0} %v, {1}; mov.u32 %r1, %ctaid.z;\n"
                "mad.lo.u32 %r1, %r1, 3, 0; mov.u32 %r2, %ctaid.y;\n"
                "add.u32 %r1, %r1, %r2; mov.u32 %r2, %ctaid.x;\n"
                "mad.lo.u32 %r1, %r1, 2, %r2; mov.u32 %r2, %tid.z;\n"
                "mad.lo.u32 %r1, %r1, 3, %r2; mov.u32 %r2, %tid.y;\n"
                "mad.lo.u32 %r1, %r1, 4, %r2; mov.u32 %r2, %tid.x;\n"
                "mad.lo.u32 %r1, %r1, 5, %r2; mul.wide.u32 %rd1, %r1, 8;\n"
                "ld.param.u64 %rd2, [p]; add.s64 %rd2, %rd2, %rd1;\n"
                "st.global.u{0} [%rd2], %v; mov.u32 %r3, s; ret; }}",
                bits, name)),
            absl::OkStatus());
  const uint64_t threads = kGrid.count() * kBlock.count();
  const DeviceAddress at = bench.Allocate(8 * threads);
  bench.dynamic_shared_bytes = 100;
  bench.options.nanoseconds = [] { return uint64_t{0x123456789abcdef0}; };
  ASSERT_EQ(bench.Run("k", kGrid, kBlock, {at}).status(), absl::OkStatus());
  const auto values = bench.At<uint64_t>(at, threads);
  for (uint32_t i = 0; i < threads; ++i) {
    const uint32_t in_block = i % 60, block = i / 60;
    const Thread thread{
        .index = {in_block % 5, in_block / 5 % 4, in_block / 20},
        .block = {block % 2, block / 2 % 3, block / 6},
        .lane = in_block % 32,
        .warp = in_block / 32};
    ASSERT_EQ(values[i], expected(thread)) << name << " of thread " << i;
  }
}

TEST(SpecialTest, ThreadsKnowWhereTheyAre) {
  const struct {
    const char* name;
    uint64_t (*of)(const Thread&);
  } kSpecials[] = {
      {"%tid.x", [](const Thread& t) -> uint64_t { return t.index.x; }},
      {"%tid.y", [](const Thread& t) -> uint64_t { return t.index.y; }},
      {"%tid.z", [](const Thread& t) -> uint64_t { return t.index.z; }},
      {"%ctaid.x", [](const Thread& t) -> uint64_t { return t.block.x; }},
      {"%ctaid.y", [](const Thread& t) -> uint64_t { return t.block.y; }},
      {"%ctaid.z", [](const Thread& t) -> uint64_t { return t.block.z; }},
      {"%ntid.x", [](const Thread&) -> uint64_t { return 5; }},
      {"%ntid.y", [](const Thread&) -> uint64_t { return 4; }},
      {"%ntid.z", [](const Thread&) -> uint64_t { return 3; }},
      {"%nctaid.x", [](const Thread&) -> uint64_t { return 2; }},
      {"%nctaid.y", [](const Thread&) -> uint64_t { return 3; }},
      {"%nctaid.z", [](const Thread&) -> uint64_t { return 2; }},
      {"%laneid", [](const Thread& t) -> uint64_t { return t.lane; }},
      {"%warpid", [](const Thread& t) -> uint64_t { return t.warp; }},
      {"%nwarpid", [](const Thread&) -> uint64_t { return 2; }},
      {"%smid", [](const Thread&) -> uint64_t { return 0; }},
      {"%nsmid", [](const Thread&) -> uint64_t { return 1; }},
      {"%lanemask_eq", [](const Thread& t) { return uint64_t{1} << t.lane; }},
      {"%lanemask_lt",
       [](const Thread& t) { return (uint64_t{1} << t.lane) - 1; }},
      {"%lanemask_le",
       [](const Thread& t) { return (uint64_t{2} << t.lane) - 1; }},
      {"%lanemask_gt",
       [](const Thread& t) {
         return 0xffffffff & ~((uint64_t{2} << t.lane) - 1);
       }},
      {"%lanemask_ge",
       [](const Thread& t) {
         return 0xffffffff & ~((uint64_t{1} << t.lane) - 1);
       }},
      {"%globaltimer_lo", [](const Thread&) -> uint64_t { return 0x9abcdef0; }},
      {"%globaltimer_hi", [](const Thread&) -> uint64_t { return 0x12345678; }},
      {"%dynamic_smem_size", [](const Thread&) -> uint64_t { return 100; }},
      {"%total_smem_size", [](const Thread&) -> uint64_t { return 148; }},
      {"%clock_hi", [](const Thread&) -> uint64_t { return 0; }},
  };
  for (const auto& special : kSpecials) {
    ExpectSpecial(special.name, 32, special.of);
  }
  ExpectSpecial("%gridid", 64, [](const Thread&) -> uint64_t { return 77; });
  ExpectSpecial("%globaltimer", 64,
                [](const Thread&) -> uint64_t { return 0x123456789abcdef0; });
}

// On the functional GPU the clock advances by one for each of the warp's
// instructions.
TEST(SpecialTest, ClocksGoOn) {
  for (const char* name : {"clock", "clock64", "globaltimer"}) {
    const int bits = name == std::string_view("clock") ? 32 : 64;
    Bench bench;
    ASSERT_EQ(bench.Load(fmt::format(
                  ".visible .entry k(.param .u64 p) {{ .reg .b{0} %v<4>;\n"
                  ".reg .b64 %rd1; ld.param.u64 %rd1, [p];\n"
                  "mov.u{0} %v1, %{1}; add.s{0} %v3, %v1, 0;\n"
                  "mov.u{0} %v2, %{1}; sub.s{0} %v3, %v2, %v1;\n"
                  "st.global.b{0} [%rd1], %v3;\nst.global.b{0} [%rd1+8], %v1; "
                  "ret; }}",
                  bits, name)),
              absl::OkStatus());
    const DeviceAddress at = bench.Allocate(16);
    ASSERT_EQ(bench.Run("k", {1, 1, 1}, {32, 1, 1}, {at}).status(),
              absl::OkStatus());
    EXPECT_EQ(bench.At<uint64_t>(at, 2)[0], 2u) << name;
    EXPECT_EQ(bench.At<uint64_t>(at, 2)[1], 1u) << name;
  }
}

TEST(LaunchTest, OnlyAKernelThatDoesWhatIsNotSupportedIsRefused) {
  Bench bench;
  EXPECT_EQ(
      bench
          .Load(".func help() { .reg .b32 %r; mov.u32 %r, 1;\n"
                "wgmma.fence.sync.aligned; ret; }\n"
                ".visible .entry good(.param .u64 p) { .reg .b64 %rd;\n"
                "ld.param.u64 %rd, [p]; st.global.u32 [%rd], 7; ret; }\n"
                ".visible .entry bad(.param .u64 p) { call.uni help; ret; }")
          .code(),
      absl::StatusCode::kUnimplemented);
  const DeviceAddress at = bench.Allocate(16);
  ASSERT_EQ(bench.Run("good", {1, 1, 1}, {32, 1, 1}, {at}).status(),
            absl::OkStatus());
  EXPECT_EQ(bench.At<uint32_t>(at, 1)[0], 7u);
  EXPECT_EQ(bench.Run("bad", {1, 1, 1}, {32, 1, 1}, {at}).status(),
            absl::UnimplementedError(
                "test.ptx:3:1: instruction 'wgmma.fence.sync.aligned' is not "
                "supported"));
}

// As after free(): whoever mapped it says so later, or never.
TEST(MemoryTest, WhatTheHostGivesAnewIsNoLongerWhatItWas) {
  constexpr uint64_t kBytes = 5000;
  constexpr uint64_t kGoneBytes = 64 << 10;
  Memory memory(Addresses::kHost);
  const DeviceAddress first = *memory.Allocate(kGoneBytes, "first");
  ASSERT_TRUE(memory.Free(first).ok());
  ASSERT_TRUE(
      memory
          .Map({reinterpret_cast<std::byte*>(first), kGoneBytes}, true, "gone")
          .ok());
  for (int i = 0; i < 100; ++i) {
    const auto again = memory.Allocate(kBytes, "again");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(
        memory.table()->segment(memory.table()->Find(*again, kBytes)).name,
        "again");
  }
}

TEST(LaunchTest, WhatOnlyNewerGpusDoIsRefusedByName) {
  for (const std::string body :
       {"cvt.rn.satfinite.e4m3x2.f32 %h, %f, %f;",
        "cvt.rna.satfinite.tf32.f32 %r, %f;",
        "atom.global.v4.f32.add {%f, %f, %f, %f}, [%rd], {%f, %f, %f, %f};"}) {
    Bench bench;
    const absl::Status status = bench.Load(
        ".visible .entry k(.param .u64 p) { .reg .b16 %h; .reg .b32 %r;\n"
        ".reg .f32 %f; .reg .b64 %rd; " +
        body + " ret; }");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_NE(status.message().find("is not supported"), std::string::npos);
  }
  Bench bench;
  EXPECT_EQ(
      bench.Load(".visible .entry k() .reqnctapercluster 2, 1, 1 { ret; }"),
      absl::UnimplementedError(
          "test.ptx:2:10: '.reqnctapercluster' of 'k' is not supported"));
}

TEST(SpecialTest, UnknownOnesAreRefused) {
  EXPECT_NE(Refusal({"mov.u32 %0, %envreg3;", "w", "w"}), "");
  EXPECT_NE(Refusal({"add.u32 %0, %1, %laneid;", "w", "w"}), "");
}

// --- printf.

struct Argument {
  uint32_t bytes;
  uint64_t value;
};
Argument Int(int64_t value) { return {4, static_cast<uint32_t>(value)}; }
Argument Long(int64_t value) { return {8, static_cast<uint64_t>(value)}; }
Argument Double(double value) { return {8, std::bit_cast<uint64_t>(value)}; }

// Stands for the address of "abc".
constexpr uint64_t kWordItself = 0x77777777;

// What two threads print.
absl::StatusOr<std::string> Printed(const std::string& format,
                                    const std::vector<Argument>& arguments) {
  std::string text =
      ".extern .func (.param .b32 r) vprintf(.param .b64 f, "
      ".param .b64 a);\n.global .align 1 .b8 word[4] = {97, 98, "
      "99, 0};\n";
  text +=
      fmt::format(".global .align 1 .b8 format[{}] = {{", format.size() + 1);
  for (const char c : format) {
    text += fmt::format("{}, ", static_cast<unsigned char>(c));
  }
  text +=
      "0};\n.visible .entry k(.param .u64 p) { .reg .b64 %rd<9>;\n"
      ".reg .b32 %r<9>; .local .align 8 .b8 depot[128];\n"
      "mov.u64 %rd1, depot; cvta.local.u64 %rd1, %rd1;\n";
  uint64_t at = 0;
  for (const Argument& argument : arguments) {
    at = (at + argument.bytes - 1) / argument.bytes * argument.bytes;
    text += argument.value == kWordItself
                ? fmt::format(
                      "mov.u64 %rd3, word; st.local.b64 [depot+{}], "
                      "%rd3;\n",
                      at)
                : fmt::format("st.local.b{} [depot+{}], {};\n",
                              8 * argument.bytes, at, argument.value);
    at += argument.bytes;
  }
  text +=
      "mov.u64 %rd2, format; cvta.global.u64 %rd2, %rd2;\n"
      "{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %rd2;\n"
      "st.param.b64 [a], %rd1; call.uni (r), vprintf, (f, a);\n"
      "ld.param.b32 %r1, [r]; } ret; }";
  Bench bench;
  if (auto status = bench.Load(text); !status.ok()) return status;
  const auto ran = bench.Run("k", {1, 1, 1}, {2, 1, 1}, {0});
  if (!ran.ok()) return ran.status();
  const std::string once = bench.printed.substr(0, bench.printed.size() / 2);
  EXPECT_EQ(bench.printed, once + once);
  return once;
}
const Argument kWord{8, kWordItself};

TEST(PrintTest, FormatsAreThoseOfC) {
  const struct {
    const char* format;
    std::vector<Argument> arguments;
    const char* printed;
  } kFormats[] = {
      {"plain 100%%\n", {}, "plain 100%\n"},
      {"%d %i %u", {Int(-5), Int(7), Int(-1)}, "-5 7 4294967295"},
      {"%x %X %#x %o",
       {Int(-1), Int(255), Int(16), Int(8)},
       "ffffffff FF 0x10 10"},
      {"%ld %lld %lu %llx",
       {Long(-5), Long(1LL << 40), Long(-1), Long(-1)},
       "-5 1099511627776 18446744073709551615 ffffffffffffffff"},
      {"%d %ld %d", {Int(1), Long(2), Int(3)}, "1 2 3"},
      {"%f %e %g %.3f",
       {Double(1.5), Double(1.5), Double(1e20), Double(2.0 / 3)},
       "1.500000 1.500000e+00 1e+20 0.667"},
      {"%a %F %G %E",
       {Double(1), Double(2), Double(0.5), Double(10)},
       "0x1p+0 2.000000 0.5 1.000000E+01"},
      {"[%5d|%-5d|%05d|%+d|% d]",
       {Int(42), Int(42), Int(42), Int(42), Int(42)},
       "[   42|42   |00042|+42| 42]"},
      {"[%*d|%-*d|%.*f]",
       {Int(6), Int(1), Int(4), Int(2), Int(2), Double(1.239)},
       "[     1|2   |1.24]"},
      {"[%*d]", {Int(-4), Int(3)}, "[3   ]"},
      {"[%.*f]", {Int(-1), Double(1.5)}, "[1.500000]"},
      {"%c%c", {Int('o'), Int('k')}, "ok"},
      {"[%s|%5s|%-5s|%.2s]",
       {kWord, kWord, kWord, kWord},
       "[abc|  abc|abc  |ab]"},
      {"%s", {Long(0)}, "(null)"},
      {"%p", {Long(0xdead0000)}, "0xdead0000"},
      {"%hd %hhd %hu %hhx",
       {Int(70000), Int(300), Int(-1), Int(-1)},
       "4464 44 65535 ff"},
      {"%zu %jd %td", {Long(1), Long(-2), Long(3)}, "1 -2 3"},
      {"%d\n%y %", {Int(1)}, "1\n%y %"},
  };
  for (const auto& format : kFormats) {
    const auto printed = Printed(format.format, format.arguments);
    ASSERT_EQ(printed.status(), absl::OkStatus()) << format.format;
    EXPECT_EQ(*printed, format.printed);
  }
}

TEST(PrintTest, AnAddressThatCannotBeReadIsAFault) {
  const auto printed = Printed("%s", {Long(8)});
  EXPECT_EQ(std::string(printed.status().message()),
            "k: test.ptx:11: call.uni: printf: an argument cannot be read; "
            "lane 0 of warp 0, block (0, 0, 0)");
}

// --- Launches.

TEST(LaunchTest, LimitsAreToldWithTheValue) {
  Bench bench;
  ASSERT_EQ(
      bench.Load(".visible .entry k(.param .u64 p) {\n"
                 ".shared .b8 s[1024]; .reg .b32 %r1; mov.u32 %r1, s; ret; }\n"
                 ".visible .entry exact() .reqntid 8, 2 { ret; }\n"
                 ".visible .entry most() .maxntid 64, 2 { ret; }\n"),
      absl::OkStatus());
  const auto error = [&](const char* kernel, Dim3 grid, Dim3 block,
                         const std::vector<uint64_t>& parameters,
                         uint32_t shared = 0) {
    bench.dynamic_shared_bytes = shared;
    const absl::Status status =
        bench.Run(kernel, grid, block, parameters).status();
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    }
    return std::string(status.message());
  };
  const std::string grids =
      ": dimensions are from 1 to 2147483647, 65535 and 65535";
  const std::string blocks =
      ": dimensions are from 1 to 1024, 1024 and 64, with at most 1024 threads";
  EXPECT_EQ(error("k", {1, 1, 1}, {1024, 1, 1}, {0}), "");
  EXPECT_EQ(error("k", {1, 1, 1}, {4, 4, 64}, {0}), "");
  EXPECT_EQ(error("k", {0, 1, 1}, {1, 1, 1}, {0}), "k: grid 0x1x1" + grids);
  EXPECT_EQ(error("k", {1, 65536, 1}, {1, 1, 1}, {0}),
            "k: grid 1x65536x1" + grids);
  EXPECT_EQ(error("k", {1, 1, 65536}, {1, 1, 1}, {0}),
            "k: grid 1x1x65536" + grids);
  EXPECT_EQ(error("k", {0x80000000, 1, 1}, {1, 1, 1}, {0}),
            "k: grid 2147483648x1x1" + grids);
  EXPECT_EQ(error("k", {1, 1, 1}, {1025, 1, 1}, {0}),
            "k: block 1025x1x1" + blocks);
  EXPECT_EQ(error("k", {1, 1, 1}, {1, 1, 65}, {0}), "k: block 1x1x65" + blocks);
  EXPECT_EQ(error("k", {1, 1, 1}, {32, 33, 1}, {0}),
            "k: block 32x33x1" + blocks);
  EXPECT_EQ(error("k", {1, 1, 1}, {1, 0, 1}, {0}), "k: block 1x0x1" + blocks);
  EXPECT_EQ(error("k", {1, 1, 1}, {1, 1, 1}, {}),
            "k: 0 bytes of parameters: it has 8");
  EXPECT_EQ(error("k", {1, 1, 1}, {1, 1, 1}, {0, 0}),
            "k: 16 bytes of parameters: it has 8");
  EXPECT_EQ(error("k", {1, 1, 1}, {1, 1, 1}, {0}, (227 << 10) - 1024), "");
  EXPECT_EQ(error("k", {1, 1, 1}, {1, 1, 1}, {0}, (227 << 10) - 1023),
            "k: 232449 bytes of shared memory: a block has 232448");
  EXPECT_EQ(error("exact", {1, 1, 1}, {8, 2, 1}, {}), "");
  EXPECT_EQ(error("exact", {1, 1, 1}, {16, 1, 1}, {}),
            "exact: block 16x1x1: the kernel is for blocks of 8x2x1");
  EXPECT_EQ(error("most", {1, 1, 1}, {128, 1, 1}, {}), "");
  EXPECT_EQ(error("most", {1, 1, 1}, {129, 1, 1}, {}),
            "most: block 129x1x1: the kernel is for at most 128 threads");
}

TEST(LaunchTest, CountsItsWarpInstructionsAndBlocks) {
  Bench bench;
  ASSERT_EQ(bench.Load(".visible .entry k() { .reg .b32 %r<3>;\n"
                       "mov.u32 %r1, 1; add.s32 %r1, %r1, %r1; ret; }"),
            absl::OkStatus());
  const auto ran = bench.Run("k", {3, 2, 1}, {33, 1, 1}, {});
  ASSERT_EQ(ran.status(), absl::OkStatus());
  EXPECT_EQ(ran->warp_instructions, 6u * 2 * 3);
  EXPECT_EQ(ran->blocks, 6u);
}

}  // namespace
}  // namespace carillon::sim
