// Loads and stores: sizes, spaces, addresses, and what is wrong with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

struct Type {
  const char* name;
  uint32_t bits;
  bool is_signed;
};
constexpr Type kTypes[] = {
    {"b8", 8, false},   {"u8", 8, false},   {"s8", 8, true},
    {"b16", 16, false}, {"u16", 16, false}, {"s16", 16, true},
    {"b32", 32, false}, {"u32", 32, false}, {"s32", 32, true},
    {"f32", 32, false}, {"b64", 64, false}, {"u64", 64, false},
    {"s64", 64, true},  {"f64", 64, false}};

uint32_t BitsOf(char letter) {
  return letter == 'h' ? 16 : letter == 'w' ? 32 : 64;
}
std::string LettersOf(const Type& type) {
  return type.bits <= 16 ? "hwd" : type.bits == 32 ? "wd" : "d";
}
uint64_t Low(uint64_t value, uint32_t bits) {
  return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
}
// The element of 64 bits of memory, in a register.
uint64_t Loaded(const Type& type, char letter, uint64_t memory, uint32_t n) {
  uint64_t value = Low(memory >> (n * type.bits), type.bits);
  if (type.is_signed && type.bits < 64 && value >> (type.bits - 1) != 0) {
    value |= ~uint64_t{0} << type.bits;
  }
  return Low(value, BitsOf(letter));
}

// The address of 8 bytes that belong to the thread, and the suffix that
// accesses them: "ld" + suffix.
struct Place {
  const char* name;
  const char* suffix;
  const char* text;
};
constexpr Place kPlaces[] = {
    {"global", ".global", "mov.u64 a, %scratch;"},
    {"local", ".local", ".local .align 8 .b64 box; mov.u64 a, box;"},
    {"shared", ".shared",
     ".shared .align 8 .b64 box[64]; mul.wide.u32 t, %thread, 8; mov.u64 a, "
     "box;"
     "add.s64 a, a, t;"},
    {"global, generic", "", "cvta.global.u64 a, %scratch;"},
    {"local, generic", "",
     ".local .align 8 .b64 box; mov.u64 t, box; cvta.local.u64 a, t;"},
    {"shared, generic", "",
     ".shared .align 8 .b64 box[64]; mul.wide.u32 t, %thread, 8;"
     "cvta.shared.u64 a, box; add.s64 a, a, t;"}};

std::string In(const Place& place, const std::string& text) {
  return fmt::format("{{ .reg .b64 a, t; {} {} }}", place.text, text);
}
std::string Vector(uint32_t elements, uint32_t first) {
  std::string list = fmt::format("%{}", first);
  for (uint32_t n = 1; n < elements; ++n) {
    list += fmt::format(", %{}", first + n);
  }
  return elements == 1 ? list : "{" + list + "}";
}

TEST(AccessTest, LoadsFillTheirRegister) {
  for (const Place& place : kPlaces) {
    for (const Type& type : kTypes) {
      for (const char letter : LettersOf(type)) {
        for (uint32_t elements = 1; elements <= 4; elements *= 2) {
          if (elements * type.bits > 64) continue;
          const std::string vector =
              elements == 1 ? "" : fmt::format(".v{}", elements);
          ExpectOutputs(
              {In(place,
                  fmt::format("st{0}.b64 [a], %{1}; ld{0}{2}.{3} {4}, [a];",
                              place.suffix, elements, vector, type.name,
                              Vector(elements, 0))),
               std::string(elements, letter), "d"},
              IntegerCases({64}, 100), [&](const Values& v) {
                Values result;
                for (uint32_t n = 0; n < elements; ++n) {
                  result.push_back(Loaded(type, letter, v[0], n));
                }
                return result;
              });
        }
      }
    }
  }
}

TEST(AccessTest, StoresTakeTheLowBitsAndLeaveTheirNeighbours) {
  for (const Place& place : kPlaces) {
    for (const Type& type : kTypes) {
      for (const char letter : LettersOf(type)) {
        for (uint32_t elements = 1; elements <= 4; elements *= 2) {
          const uint32_t bits = elements * type.bits;
          if (bits > 64) continue;
          const uint32_t offset = bits == 64 ? 0 : bits / 8;
          std::vector<uint32_t> widths(elements, BitsOf(letter));
          widths.insert(widths.begin(), 64);
          ExpectOutputs(
              {In(place, fmt::format(
                             "st{0}.b64 [a], %1; st{0}{1}.{2} [a+{3}], {4};"
                             "ld{0}.b64 %0, [a];",
                             place.suffix,
                             elements == 1 ? "" : fmt::format(".v{}", elements),
                             type.name, offset, Vector(elements, 2))),
               "d", "d" + std::string(elements, letter)},
              RandomIntegers(widths, 100), [&](const Values& v) -> Values {
                uint64_t result = v[0];
                for (uint32_t n = 0; n < elements; ++n) {
                  const uint32_t at = 8 * offset + n * type.bits;
                  result &= ~(Low(~uint64_t{0}, type.bits) << at);
                  result |= Low(v[n + 1], type.bits) << at;
                }
                return {result};
              });
        }
      }
    }
  }
}

TEST(AccessTest, EveryOrderAndHintReadsAndWrites) {
  for (const char* load :
       {"ld.volatile.global", "ld.relaxed.gpu.global", "ld.acquire.sys.global",
        "ld.global.nc", "ld.global.ca", "ld.global.cg", "ld.global.cs",
        "ld.global.lu", "ld.global.cv", "ldu.global", "ld.weak.global",
        "ld.mmio.relaxed.sys.global", "ld.global.L1::evict_last"}) {
    ExpectOutputs({fmt::format("{}.u32 %0, [%in];", load), "w", "w"},
                  {{5}, {0xffffffff}}, [](const Values& v) { return v; });
  }
  for (const char* store :
       {"st.volatile.global", "st.relaxed.gpu.global", "st.release.sys.global",
        "st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt",
        "st.weak.global", "st.mmio.relaxed.sys.global"}) {
    ExpectOutputs(
        {fmt::format("{}.u32 [%scratch], %1; membar.sys; fence.sc.gpu;"
                     "fence.acq_rel.cta; ld.global.u32 %0, [%scratch];",
                     store),
         "w", "w"},
        {{5}, {0xffffffff}}, [](const Values& v) { return v; });
  }
}

TEST(AccessTest, PartsOfAVectorMayBeThrownAway) {
  // Other registers stay as they are.
  ExpectOutputs({"mov.b64 %1, %4; mov.b64 %2, %5; mov.b64 %3, %6; "
                 "ld.global.v2.u32 {_, %0}, [%in];",
                 "wddd", "ddd"},
                {{0x1122334455667788, 5, 6}}, [](const Values& v) -> Values {
                  return {0x11223344, v[0], v[1], v[2]};
                });
  EXPECT_NE(Refusal({"ld.global.u32 _, [%in];", "w", "w"}), "");
}

// --- Kernels of one warp.

// `p`: a buffer of 512 bytes; %rd3: 16 of them for each thread. %q1: thread 3.
constexpr char kHead[] =
    "\n.visible .entry k(.param .u64 p) {\n"
    ".reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %q<9>;\n"
    ".local .align 16 .b8 frame[48]; .shared .align 16 .b8 all[512];\n"
    "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 16;\n"
    "add.s64 %rd3, %rd1, %rd2; setp.eq.s32 %q1, %r1, 3;\n";
constexpr int kLine = 8;  // of what comes next

class KernelTest : public testing::Test {
 protected:
  absl::Status Run(const std::string& body, const std::string& variables = "") {
    if (auto status = bench_.Load(variables + kHead + body + "\nret; }");
        !status.ok()) {
      return status;
    }
    buffer_ = bench_.Allocate(512);
    return bench_.Run("k", {1, 1, 1}, {32, 1, 1}, {buffer_}).status();
  }
  // Four for each thread.
  std::span<uint32_t> Words() { return bench_.At<uint32_t>(buffer_, 128); }

  Bench bench_;
  DeviceAddress buffer_ = 0;
};

TEST_F(KernelTest, SixteenBytesAtOnce) {
  ASSERT_EQ(Run("add.s32 %r2, %r1, 100; add.s32 %r3, %r1, 200;\n"
                "st.global.v4.u32 [%rd3], {%r1, %r2, 7, %r3};\n"
                "ld.global.v2.u64 {%rd4, %rd5}, [%rd3];\n"
                "st.local.v2.u64 [frame+16], {%rd5, %rd4};\n"
                "ld.local.v4.u32 {%r4, %r5, %r6, %r7}, [frame+16];\n"
                "st.shared.v4.f32 [all], {%r4, %r5, %r6, %r7};\n"
                "st.global.v4.u32 [%rd3], {%r4, %r5, %r6, %r7};"),
            absl::OkStatus());
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(Words()[4 * i], 7u);
    EXPECT_EQ(Words()[4 * i + 1], i + 200);
    EXPECT_EQ(Words()[4 * i + 2], i);
    EXPECT_EQ(Words()[4 * i + 3], i + 100);
  }
}

TEST_F(KernelTest, VariablesBeginWithTheirValues) {
  ASSERT_EQ(Run("ld.const.u32 %r2, [table+8]; ld.global.u16 %r3, [half];\n"
                "ld.global.u64 %rd4, [link+8]; ld.global.u8 %r4, [%rd4];\n"
                "ld.global.u64 %rd5, [link]; ld.u8 %r5, [%rd5];\n"
                "ld.const.u32 %r6, [table+12]; mov.u64 %rd6, table;\n"
                "ld.const.u32 %r7, [%rd6+4]; add.s32 %r6, %r6, %r7;\n"
                "shl.b32 %r6, %r6, 16; or.b32 %r3, %r3, %r6;\n"
                "st.global.v4.u32 [%rd3], {%r2, %r3, %r4, %r5};",
                ".const .align 4 .u32 table[4] = {5, 6, 0x12345678};"
                ".global .u16 half = 0xfedc;"
                ".global .align 1 .b8 text[4] = {104, 105, 106};"
                ".global .u64 link[2] = {generic(text)+1, text+2};"),
            absl::OkStatus());
  EXPECT_EQ(Words()[0], 0x12345678u);
  EXPECT_EQ(Words()[1], 0x6fedcu);  // and what has no first value is 0
  EXPECT_EQ(Words()[2], 106u);
  EXPECT_EQ(Words()[3], 105u);
}

TEST_F(KernelTest, ParametersAreReadAsTheyWereGiven) {
  ASSERT_EQ(
      bench_.Load(
          ".visible .entry k(.param .u64 p, .param .align 8 .b8 s[16]) {\n"
          ".reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
          "ld.param.u64 %rd1, [p]; ld.param.v2.u32 {%r1, %r2}, [s+8];\n"
          "ld.param.s8 %r3, [s+7]; mov.u64 %rd2, s; cvta.param.u64 %rd3, "
          "%rd2;\n"
          "ld.u32 %r4, [%rd3+4]; st.global.v4.u32 [%rd1],\n"
          "{%r1, %r2, %r3, %r4}; ret; }"),
      absl::OkStatus());
  buffer_ = bench_.Allocate(512);
  ASSERT_EQ(bench_
                .Run("k", {1, 1, 1}, {32, 1, 1},
                     {buffer_, 0x8877665544332211, 0x0123456789abcdef})
                .status(),
            absl::OkStatus());
  EXPECT_THAT(Words().first(4), testing::ElementsAre(0x89abcdef, 0x01234567,
                                                     0xffffff88, 0x88776655));
}

TEST_F(KernelTest, LanesOfOneGenericAccessMayBeInFourSpaces) {
  ASSERT_EQ(
      Run("mov.u32 %r2, all; shl.b32 %r3, %r1, 2; add.s32 %r2, %r2, %r3;\n"
          "add.s32 %r4, %r1, 1000; st.shared.u32 [%r2], %r4;\n"
          "add.s32 %r4, %r1, 2000; st.local.u32 [frame+4], %r4;\n"
          "add.s32 %r4, %r1, 3000; st.global.u32 [%rd3+4], %r4;\n"
          "cvt.u64.u32 %rd4, %r2; cvta.shared.u64 %rd4, %rd4;\n"
          "mov.u64 %rd5, frame; cvta.local.u64 %rd5, %rd5;\n"
          "add.s64 %rd5, %rd5, 4; add.s64 %rd6, %rd3, 4;\n"
          "mov.u64 %rd7, fixed; cvta.const.u64 %rd7, %rd7;\n"
          "and.b32 %r5, %r1, 3; setp.eq.s32 %q2, %r5, 0;\n"
          "setp.eq.s32 %q3, %r5, 1; setp.eq.s32 %q4, %r5, 2;\n"
          "selp.b64 %rd7, %rd4, %rd7, %q2; selp.b64 %rd7, %rd5, %rd7, %q3;\n"
          "selp.b64 %rd7, %rd6, %rd7, %q4; ld.u32 %r6, [%rd7];\n"
          "isspacep.shared %q5, %rd7; isspacep.local %q6, %rd7;\n"
          "isspacep.global %q7, %rd6; selp.b32 %r7, 1, 0, %q5;\n"
          "@%q6 add.s32 %r7, %r7, 2; @%q7 add.s32 %r7, %r7, 4;\n"
          "isspacep.global %q7, %rd4; @%q7 add.s32 %r7, %r7, 8;\n"
          "cvta.to.shared.u64 %rd8, %rd4; cvt.u32.u64 %r8, %rd8;\n"
          "sub.s32 %r8, %r8, %r2; cvta.to.local.u64 %rd9, %rd5;\n"
          "ld.local.u32 %r9, [%rd9];\n"
          "st.global.v4.u32 [%rd3], {%r6, %r7, %r8, %r9};",
          ".const .u32 fixed = 4321;"),
      absl::OkStatus());
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(Words()[4 * i], i % 4 == 3 ? 4321 : 1000 * (i % 4 + 1) + i) << i;
    EXPECT_EQ(Words()[4 * i + 1], 4u + (i % 4 == 0 ? 1 : i % 4 == 1 ? 2 : 0));
    EXPECT_EQ(Words()[4 * i + 2], 0u);
    EXPECT_EQ(Words()[4 * i + 3], 2000 + i);
  }
}

TEST_F(KernelTest, AGenericStoreMayGoToSeveralSpaces) {
  ASSERT_EQ(
      Run("mov.u32 %r2, all; shl.b32 %r3, %r1, 2; add.s32 %r2, %r2, %r3;\n"
          "cvt.u64.u32 %rd4, %r2; cvta.shared.u64 %rd4, %rd4;\n"
          "and.b32 %r5, %r1, 1; setp.eq.s32 %q2, %r5, 0;\n"
          "selp.b64 %rd5, %rd4, %rd3, %q2; add.s32 %r6, %r1, 50;\n"
          "st.u32 [%rd5], %r6; ld.shared.u32 %r7, [%r2];\n"
          "st.global.u32 [%rd3+4], %r7;"),
      absl::OkStatus());
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(Words()[4 * i], i % 2 == 0 ? 0 : i + 50);
    EXPECT_EQ(Words()[4 * i + 1], i % 2 == 0 ? i + 50 : 0);
  }
}

// An index below zero and a displacement, in the 32 bits that shared addresses
// have.
TEST_F(KernelTest, AddressesOf32BitsWrap) {
  ASSERT_EQ(Run("mov.u32 %r2, all; sub.s32 %r3, %r1, 32; shl.b32 %r3, %r3, 2;\n"
                "add.s32 %r3, %r3, %r2; st.shared.u32 [%r3+128], %r1;\n"
                "bar.warp.sync -1; ld.shared.u32 %r4, [all+20];\n"
                "st.global.u32 [%rd3], %r4;"),
            absl::OkStatus());
  EXPECT_EQ(Words()[0], 5u);
}

// --- Mistakes. Each test expects the fault at line kLine + 1 and in lane 3,
// unless it says otherwise.

struct Mistake {
  const char* before;
  const char* instruction;
  std::string says;
};

TEST_F(KernelTest, AWrongAddressIsNamedWithItsPlace) {
  const DeviceAddress at = kFirstGlobal;  // of the variable, the first segment
  const std::string buffer = fmt::format("'v' ({:#x}, 64 bytes)", at);
  const std::string lane3 = "; lane 3 of warp 0, block (0, 0, 0)";
  const Mistake kMistakes[] = {
      {"mov.u64 %rd4, v; @%q1 add.s64 %rd4, %rd4, 64;",
       "ld.global.u32 %r2, [%rd4];",
       fmt::format("4 bytes at {:#x}: 0 bytes past the end of {}", at + 64,
                   buffer)},
      {"mov.u64 %rd4, v; @%q1 add.s64 %rd4, %rd4, 48;",
       "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd4+16];",
       fmt::format("16 bytes at {:#x}: 0 bytes past the end of {}", at + 64,
                   buffer)},
      {"mov.u64 %rd4, v; @%q1 add.s64 %rd4, %rd4, 56;",
       "st.global.v2.u32 [%rd4+8], {%r1, %r1};",
       fmt::format("8 bytes at {:#x}: 0 bytes past the end of {}", at + 64,
                   buffer)},
      {"mov.u64 %rd4, v; @%q1 mov.u64 %rd4, 0;", "ld.global.u8 %r2, [%rd4+8];",
       "1 bytes at 0x8: a null pointer"},
      {"mov.u64 %rd4, v; @%q1 mov.u64 %rd4, 0;", "st.u8 [%rd4], %r1;",
       "1 bytes at 0x0: a null pointer"},
      {"mov.u64 %rd4, v; @%q1 mov.u64 %rd4, 0x100000010;",
       "ld.global.u8 %r2, [%rd4];",
       "1 bytes at 0x100000010: in a window of shared, local or parameter "
       "memory"},
      {"mov.u64 %rd4, v; @%q1 add.s64 %rd4, %rd4, 2;",
       "ld.global.u32 %r2, [%rd4];",
       fmt::format("misaligned address {:#x}: must be a multiple of 4",
                   at + 2)},
      {"mov.u64 %rd4, v; @%q1 add.s64 %rd4, %rd4, 8;",
       "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd4];",
       fmt::format("misaligned address {:#x}: must be a multiple of 16",
                   at + 8)},
      {"mov.u64 %rd4, v; @%q1 add.s64 %rd4, %rd4, 1;",
       "atom.global.add.u32 %r2, [%rd4], 1;",
       fmt::format("misaligned address {:#x}: must be a multiple of 4",
                   at + 1)},
      {"mov.u32 %r2, 0; @%q1 mov.u32 %r2, 509;", "ld.shared.u8 %r3, [%r2+3];",
       "1 bytes at 0x200 of shared memory, which has 512 bytes"},
      {"mov.u32 %r2, 0; @%q1 mov.u32 %r2, -4;", "st.shared.u32 [%r2], %r1;",
       "4 bytes at 0xfffffffc of shared memory, which has 512 bytes"},
      {"mov.u64 %rd4, 0x100000000; @%q1 add.s64 %rd4, %rd4, 504;",
       "ld.u64 %rd5, [%rd4+8];",
       "8 bytes at 0x200 of shared memory, which has 512 bytes"},
      {"mov.u64 %rd4, frame; @%q1 add.s64 %rd4, %rd4, 48;",
       "ld.local.u32 %r3, [%rd4];",
       "4 bytes at 0x30 of local memory, which has 48 bytes"},
      {"mov.u64 %rd4, 0x300000000; @%q1 add.s64 %rd4, %rd4, 8;",
       "ld.u64 %rd5, [%rd4];",
       "8 bytes at 0x8 of parameter memory, which has 8 bytes"},
      {"mov.u64 %rd4, v; @%q1 mov.u64 %rd4, 0x300000000;", "st.u64 [%rd4], 1;",
       "a store to a kernel's parameters"},
  };
  for (const Mistake& mistake : kMistakes) {
    Bench bench;
    ASSERT_EQ(
        bench.Load(std::string(".global .align 16 .b8 v[64];") + kHead +
                   mistake.before + "\n" + mistake.instruction + "\nret; }"),
        absl::OkStatus());
    const auto ran = bench.Run("k", {1, 1, 1}, {32, 1, 1}, {0});
    const std::string_view text = mistake.instruction;
    EXPECT_EQ(ran.status().code(), absl::StatusCode::kInternal) << text;
    EXPECT_EQ(std::string(ran.status().message()),
              fmt::format("k: test.ptx:{}: {}: {}{}", kLine + 1,
                          text.substr(0, text.find(' ')), mistake.says, lane3));
    // A lane that is not active may hold any address.
    Bench other;
    ASSERT_EQ(other.Load(std::string(".global .align 16 .b8 v[64];") + kHead +
                         mistake.before + "\n@!%q1 " + mistake.instruction +
                         "\nret; }"),
              absl::OkStatus());
    EXPECT_EQ(other.Run("k", {1, 1, 1}, {32, 1, 1}, {0}).status(),
              absl::OkStatus())
        << text;
  }
}

TEST_F(KernelTest, WhatIsReadOnlyStaysAsItIs) {
  std::array<std::byte, 64> host{};
  const DeviceAddress at = *bench_.memory().Map(host, false, "rules");
  const std::string name = fmt::format("{:#x}", at);
  for (const std::string text :
       {"st.global.u32 [%rd4], %r1;", "st.u32 [%rd4], %r1;",
        "atom.global.add.u32 %r2, [%rd4], 1;",
        "red.global.add.u32 [%rd4], 1;"}) {
    const absl::Status status = Run("mov.u64 %rd4, " + name + ";\n" + text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(std::string(status.message()),
              fmt::format("k: test.ptx:{}: {}: a store to {}: 'rules' is "
                          "read-only; lane 0 of warp 0, block (0, 0, 0)",
                          kLine + 1, text.substr(0, text.find(' ')), name));
  }
  EXPECT_EQ(Run("mov.u64 %rd4, " + name + "; ld.global.u32 %r2, [%rd4];"),
            absl::OkStatus());
  EXPECT_TRUE(std::all_of(host.begin(), host.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(KernelTest, WhatIsWrongInTheTextIsRefused) {
  EXPECT_THAT(
      std::string(Run("st.const.u32 [c], 1;", ".const .u32 c;").message()),
      testing::HasSubstr("constants are read-only"));
  EXPECT_THAT(std::string(Run("ld.global.u32 %r2, [all];").message()),
              testing::HasSubstr("'all' lies in another space"));
  EXPECT_THAT(std::string(Run("ld.global.u64 %r2, [%rd3];").message()),
              testing::HasSubstr("fewer bits"));
  EXPECT_THAT(std::string(Run("ld.global.v2.u32 %r2, [%rd3];").message()),
              testing::HasSubstr("moves 2 values, not 1"));
  EXPECT_THAT(std::string(Run("ld.global.u32 %r2, [%h1];").message()),
              testing::HasSubstr("an address has 32 or 64"));
  // As ptxas has it.
  for (const char* const type : {"f16", "f16x2", "f32", "f64"}) {
    for (const char* const text :
         {"ld.shared.u32 %r2, [%f+4]", "st.global.u32 [%f], 1",
          "atom.global.add.u32 %r2, [%f], 1",
          "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%f]",
          "cp.async.ca.shared.global [%f], [%rd3], 4"}) {
      EXPECT_THAT(
          std::string(
              Run(fmt::format(".reg .{} %f; {};", type, text)).message()),
          testing::HasSubstr(fmt::format(
              "'%f' is .{}: an address is whole numbers or bits", type)));
    }
  }
  for (const char* const wide : {".reg .b128 %w; st.global.b128 [%rd3], 0;",
                                 ".reg .b128 %w; mov.b128 %w, 7;",
                                 ".reg .b128 %w; add.b128 %w, %w, 7;"}) {
    EXPECT_THAT(std::string(Run(wide).message()),
                testing::HasSubstr("has 64 bits, the instruction wants 128"));
  }
}

}  // namespace
}  // namespace carillon::sim
