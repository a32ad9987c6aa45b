// What the lanes of a warp do with matrices in their registers, beside the
// products themselves (multiply_test).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;

constexpr uint32_t kShared = 512;  // bytes

// A warp whose lanes have words 0 to 3 of `in` in %a0 to %a3; what is in %d0 to
// %d3 afterwards is in `out`. Shared memory holds `shared` before, and after.
class FragmentsTest : public testing::Test {
 protected:
  absl::Status Run(const std::string& text, uint32_t threads = 32) {
    Bench bench;
    const auto loaded = bench.Load(
        ".visible .entry k(.param .u64 p) { .reg .b32 %t, %r<9>, %a<4>, "
        "%d<4>;\n"
        ".reg .b64 %in, %m, %w<9>; .reg .pred %x, %q;\n"
        ".shared .align 32 .b8 rows[512];\n"
        "mov.u32 %t, %tid.x; ld.param.u64 %m, [p];\n"
        "mad.wide.u32 %in, %t, 16, %m; mul.lo.u32 %r0, %t, 16;\n"
        "mov.u32 %r1, rows; add.u32 %r0, %r0, %r1;\n"
        "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%in+1024];\n"
        "st.shared.v4.u32 [%r0], {%a0, %a1, %a2, %a3};\n"
        "ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%in];\n"
        "mov.u32 %d0, 7; mov.u32 %d1, 7; mov.u32 %d2, 7; mov.u32 %d3, 7;\n"
        "bar.warp.sync -1;\n" +
        text +
        "\nbar.warp.sync -1; st.global.v4.u32 [%in+512], {%d0, %d1, %d2, "
        "%d3};\n"
        "ld.shared.v4.u32 {%a0, %a1, %a2, %a3}, [%r0];\n"
        "st.global.v4.u32 [%in+1024], {%a0, %a1, %a2, %a3}; ret; }");
    if (!loaded.ok()) return loaded;
    const DeviceAddress at = bench.Allocate(3 * kShared);
    std::ranges::copy(in_, bench.At<uint32_t>(at, 128).begin());
    std::ranges::copy(shared_, bench.At<uint16_t>(at + 1024, 256).begin());
    const auto ran = bench.Run("k", {1, 1, 1}, {threads, 1, 1}, {at});
    std::ranges::copy(bench.At<uint32_t>(at + 512, 128), out_.begin());
    std::ranges::copy(bench.At<uint16_t>(at + 1024, 256), shared_.begin());
    return ran.status();
  }
  void Randomize() {
    for (uint32_t& word : in_) word = static_cast<uint32_t>(random_());
    for (uint16_t& half : shared_) half = static_cast<uint16_t>(random_());
  }
  // Element `which` of register i of a lane.
  static uint32_t Half(const std::array<uint32_t, 128>& words, uint32_t lane,
                       uint32_t i, uint32_t which) {
    return words[4 * lane + i] >> 16 * which & 0xffff;
  }
  std::string Error(const std::string& text, uint32_t threads = 32) {
    const absl::Status status = Run(text, threads);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    return std::string(status.message());
  }

  std::mt19937_64 random_{3};
  std::array<uint32_t, 128> in_{}, out_{};
  std::array<uint16_t, 256> shared_{};
};

// The rows lie anywhere: that of lane l is number (5 l + 3) % 32.
constexpr char kScattered[] =
    "mad.lo.u32 %r2, %t, 5, 3; and.b32 %r2, %r2, 31;\n"
    "mad.lo.u32 %r2, %r2, 16, %r1;\n";
uint32_t RowOf(uint32_t lane) { return (5 * lane + 3) % 32; }

TEST_F(FragmentsTest, LdmatrixGivesEachLaneTwoElementsOfARow) {
  for (const uint32_t count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      for (const std::string space : {".shared", ".shared::cta", ""}) {
        Randomize();
        std::string registers;
        for (uint32_t i = 0; i < count; ++i) {
          registers += fmt::format("{}%d{}", i == 0 ? "" : ", ", i);
        }
        const std::string generic =
            space.empty() ? "cvt.u64.u32 %w1, %r2; cvta.shared.u64 %w2, %w1;\n"
                          : "";
        ASSERT_EQ(
            Run(kScattered + generic +
                fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}{}.b16 {{{}}}, "
                            "[{}];",
                            count, transposed ? ".trans" : "", space, registers,
                            space.empty() ? "%w2" : "%r2")),
            absl::OkStatus());
        for (uint32_t lane = 0; lane < 32; ++lane) {
          for (uint32_t i = 0; i < 4; ++i) {
            for (uint32_t which = 0; which < 2; ++which) {
              uint32_t row = lane / 4;
              uint32_t column = 2 * (lane % 4) + which;
              if (transposed) std::swap(row, column);
              const uint32_t expected =
                  i < count    ? shared_[8 * RowOf(8 * i + row) + column]
                  : which == 0 ? 7
                               : 0;
              ASSERT_EQ(Half(out_, lane, i, which), expected)
                  << count << transposed << space << " " << lane << " " << i;
            }
          }
        }
      }
    }
  }
}

TEST_F(FragmentsTest, LdmatrixMayOverwriteItsAddress) {
  Randomize();
  ASSERT_EQ(Run("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0, %d1}, [%r0];\n"
                "mov.u32 %d0, %r0; mad.lo.u32 %r0, %t, 16, %r1;"),
            absl::OkStatus());
  EXPECT_EQ(Half(out_, 5, 0, 1), shared_[8 * 1 + 3]);
  EXPECT_EQ(Half(out_, 5, 1, 0), shared_[8 * 9 + 2]);
}

TEST_F(FragmentsTest, StmatrixIsTheOpposite) {
  for (const uint32_t count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      Randomize();
      const auto before = shared_;
      std::string registers;
      for (uint32_t i = 0; i < count; ++i) {
        registers += fmt::format("{}%a{}", i == 0 ? "" : ", ", i);
      }
      ASSERT_EQ(Run(kScattered +
                    fmt::format("stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 "
                                "[%r2], {{{}}};",
                                count, transposed ? ".trans" : "", registers)),
                absl::OkStatus());
      auto expected = before;
      for (uint32_t i = 0; i < count; ++i) {
        for (uint32_t row = 0; row < 8; ++row) {
          for (uint32_t column = 0; column < 8; ++column) {
            const uint32_t r = transposed ? column : row;
            const uint32_t c = transposed ? row : column;
            expected[8 * RowOf(8 * i + row) + column] =
                static_cast<uint16_t>(Half(in_, 4 * r + c / 2, i, c % 2));
          }
        }
      }
      EXPECT_EQ(shared_, expected) << count << transposed;
    }
  }
}

TEST_F(FragmentsTest, MovmatrixTransposes) {
  Randomize();
  ASSERT_EQ(Run("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;"),
            absl::OkStatus());
  for (uint32_t row = 0; row < 8; ++row) {
    for (uint32_t column = 0; column < 8; ++column) {
      EXPECT_EQ(Half(out_, 4 * row + column / 2, 0, column % 2),
                Half(in_, 4 * column + row / 2, 0, row % 2));
    }
  }
}

// --- wmma.

struct Shape {
  const char* name;
  uint32_t m, n, k;
};
// Loads from memory with rows, or columns, `stride` elements apart, and stores
// with another order.
TEST_F(FragmentsTest, WmmaKeepsAMatrixInAnyOrderAndStride) {
  const struct {
    Shape shape;
    const char* type;
    uint32_t bytes, registers;
  } kCases[] = {
      {{"m16n16k16", 16, 16, 16}, "f32", 4, 8},
      {{"m32n8k16", 32, 8, 16}, "f32", 4, 8},
      {{"m8n32k16", 8, 32, 16}, "s32", 4, 8},
      {{"m16n16k16", 16, 16, 16}, "f16", 2, 4},
      {{"m32n8k16", 32, 8, 16}, "f16", 2, 4},
      {{"m8n32k16", 8, 32, 16}, "f16", 2, 4},
      {{"m16n16k8", 16, 16, 8}, "f32", 4, 8},
      {{"m8n8k4", 8, 8, 4}, "f64", 8, 2},
  };
  for (const auto& c : kCases) {
    for (const int orders : {0, 1, 2, 3}) {
      for (const std::string space : {".global", ""}) {
        const bool from_columns = (orders & 1) != 0;
        const bool to_columns = (orders & 2) != 0;
        const uint32_t rows = c.shape.m, columns = c.shape.n;
        const uint32_t from_stride = (from_columns ? rows : columns) + 16;
        const uint32_t to_stride = (to_columns ? rows : columns) + 8;
        const std::string letter = c.bytes == 8 ? "b64" : "b32";
        std::vector<std::string> names;
        for (uint32_t r = 0; r < c.registers; ++r) {
          names.push_back(fmt::format("%v{}", r));
        }
        Bench bench;
        const absl::Status loaded = bench.Load(fmt::format(
            ".visible .entry k(.param .u64 p, .param .u64 q) {{\n"
            ".reg .b64 %p, %q; .reg .{} %v<8>; .reg .b32 %s;\n"
            "ld.param.u64 %p, [p]; ld.param.u64 %q, [q];\n"
            "mov.u32 %s, {};\n"
            "wmma.load.c.sync.aligned.{}.{}{}.{} {{{}}}, [%p], %s;\n"
            "wmma.store.d.sync.aligned.{}.{}{}.{} [%q+32], {{{}}}, {};\n"
            "ret; }}",
            letter, from_stride, from_columns ? "col" : "row", c.shape.name,
            space, c.type, fmt::join(names, ", "), to_columns ? "col" : "row",
            c.shape.name, space, c.type, fmt::join(names, ", "), to_stride));
        ASSERT_TRUE(loaded.ok()) << loaded;
        constexpr uint32_t kBytes = 16 << 10;
        const DeviceAddress from = bench.Allocate(kBytes);
        const DeviceAddress to = bench.Allocate(kBytes);
        for (uint8_t& byte : bench.At<uint8_t>(from, kBytes)) {
          byte = static_cast<uint8_t>(random_());
        }
        std::vector<uint8_t> expected(kBytes, 0);
        for (uint32_t row = 0; row < rows; ++row) {
          for (uint32_t column = 0; column < columns; ++column) {
            const uint32_t at = from_columns ? column * from_stride + row
                                             : row * from_stride + column;
            const uint32_t there = to_columns ? column * to_stride + row
                                              : row * to_stride + column;
            for (uint32_t byte = 0; byte < c.bytes; ++byte) {
              expected[32 + c.bytes * there + byte] =
                  bench.At<uint8_t>(from, kBytes)[c.bytes * at + byte];
            }
          }
        }
        std::ranges::fill(bench.At<uint8_t>(to, kBytes), uint8_t{0});
        const auto ran = bench.Run("k", {1, 1, 1}, {32, 1, 1}, {from, to});
        ASSERT_TRUE(ran.ok()) << ran.status();
        EXPECT_TRUE(std::ranges::equal(bench.At<uint8_t>(to, kBytes), expected))
            << c.shape.name << " " << c.type << " " << orders << space;
      }
    }
  }
}

TEST_F(FragmentsTest, WmmaFindsSharedMemoryByAGenericAddress) {
  Randomize();
  ASSERT_EQ(Run("cvt.u64.u32 %w1, %r1; cvta.shared.u64 %w2, %w1;\n"
                "wmma.load.b.sync.aligned.row.m16n16k16.s8 {%d0, %d1}, [%w2];\n"
                "wmma.load.b.sync.aligned.row.m16n16k16.shared::cta.s8 "
                "{%d2, %d3}, [%r1];"),
            absl::OkStatus());
  for (size_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out_[4 * lane], out_[4 * lane + 2]);
    EXPECT_EQ(out_[4 * lane + 1], out_[4 * lane + 3]);
  }
  // Row 4 of column 1 is the lowest byte of lane 5's first register.
  EXPECT_EQ(out_[4 * 5] & 0xff, shared_[(4 * 16 + 1) / 2] >> 8);
}

// matrix.h: m16n16 has two of mma's accumulators side by side, m32n8 two below
// each other, m8n32 is m32n8 transposed.
TEST_F(FragmentsTest, WmmaAccumulatorsAreThoseOfMmaPutTogether) {
  const struct {
    const char* shape;
    uint32_t columns;
  } kShapes[] = {{"m16n16k16", 16}, {"m32n8k16", 8}, {"m8n32k16", 32}};
  for (const auto& [shape, columns] : kShapes) {
    Bench bench;
    ASSERT_EQ(
        bench.Load(fmt::format(
            ".visible .entry k(.param .u64 p) {{ .reg .b64 %p, %o;\n"
            ".reg .b32 %t, %v<8>; ld.param.u64 %p, [p]; mov.u32 %t, %tid.x;\n"
            "wmma.load.c.sync.aligned.row.{}.s32 {{%v0, %v1, %v2, %v3, %v4,\n"
            "%v5, %v6, %v7}}, [%p]; mad.wide.u32 %o, %t, 32, %p;\n"
            "st.global.v4.u32 [%o+1024], {{%v0, %v1, %v2, %v3}};\n"
            "st.global.v4.u32 [%o+1040], {{%v4, %v5, %v6, %v7}}; ret; }}",
            shape)),
        absl::OkStatus());
    const DeviceAddress at = bench.Allocate(2048);
    for (uint32_t i = 0; i < 256; ++i) bench.At<uint32_t>(at, 256)[i] = i;
    ASSERT_EQ(bench.Run("k", {1, 1, 1}, {32, 1, 1}, {at}).status(),
              absl::OkStatus());
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t i = 0; i < 8; ++i) {
        uint32_t row = lane / 4 + (i % 4 < 2 ? 0 : 8);
        uint32_t column = lane % 4 * 2 + i % 2;
        if (columns == 16 && i >= 4) column += 8;
        if (columns != 16 && i >= 4) row += 16;
        if (columns == 32) std::swap(row, column);
        EXPECT_EQ(bench.At<uint32_t>(at + 1024, 256)[8 * lane + i],
                  row * columns + column)
            << shape << " " << lane << " " << i;
      }
    }
  }
}

// Each element of A and B of .f16 is held more than once; one that is changed in
// all of its places has changed.
TEST_F(FragmentsTest, WmmaHoldsHalvesTwiceWhereTheyDoNotFillTheRegisters) {
  Bench bench;
  ASSERT_EQ(
      bench.Load(
          ".visible .entry k(.param .u64 p) { .reg .b64 %p, %o;\n"
          ".reg .b32 %t, %v<8>; ld.param.u64 %p, [p]; mov.u32 %t, %tid.x;\n"
          "wmma.load.b.sync.aligned.col.m32n8k16.global.f16 {%v0, %v1, %v2,\n"
          "%v3, %v4, %v5, %v6, %v7}, [%p]; mad.wide.u32 %o, %t, 32, %p;\n"
          "st.global.v4.u32 [%o+1024], {%v0, %v1, %v2, %v3};\n"
          "st.global.v4.u32 [%o+1040], {%v4, %v5, %v6, %v7}; ret; }"),
      absl::OkStatus());
  const DeviceAddress at = bench.Allocate(2048);
  for (uint16_t i = 0; i < 128; ++i) bench.At<uint16_t>(at, 128)[i] = i;
  ASSERT_EQ(bench.Run("k", {1, 1, 1}, {32, 1, 1}, {at}).status(),
            absl::OkStatus());
  std::map<uint16_t, int> held;
  for (const uint16_t x : bench.At<uint16_t>(at + 1024, 512)) ++held[x];
  EXPECT_EQ(held.size(), 128u);
  for (const auto& [x, times] : held) EXPECT_EQ(times, 4) << x;
}

// One warp's `text` on fragments of .f16 that it has loaded: %a0 to %a7 and %b0 to
// %b7 of ones, 16 x 16 each. Returns the first element of the accumulator in %c.
uint64_t FirstOf(const std::string& text, const std::string& store) {
  Bench bench;
  const absl::Status loaded = bench.Load(
      ".visible .entry k(.param .u64 p) { .reg .b64 %p; .reg .b32 %a<8>, "
      "%b<8>, %c<8>; ld.param.u64 %p, [p];\n"
      "wmma.load.a.sync.aligned.row.m16n16k16.global.f16\n"
      "{%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, [%p];\n"
      "wmma.load.b.sync.aligned.row.m16n16k16.global.f16\n"
      "{%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}, [%p];\n" +
      text + "\nwmma.store.d.sync.aligned.row.m16n16k16.global." + store +
      "; ret; }");
  EXPECT_TRUE(loaded.ok()) << loaded;
  const DeviceAddress at = bench.Allocate(1024);
  for (uint16_t& half : bench.At<uint16_t>(at, 256)) half = 0x3c00;
  const auto ran = bench.Run("k", {1, 1, 1}, {32, 1, 1}, {at});
  EXPECT_TRUE(ran.ok()) << ran.status();
  return bench.At<uint32_t>(at, 1)[0];
}
constexpr char kAAndB[] =
    "{%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7},\n"
    "{%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}, ";
constexpr char kC[] = "{%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}";
constexpr char kHalfC[] = "{%c0, %c1, %c2, %c3}";
std::string SetAll(uint32_t value) {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    text += fmt::format("mov.u32 %c{}, {:#x};\n", i, value);
  }
  return text;
}

TEST_F(FragmentsTest, WmmaMayChangeTheTypeOfItsAccumulators) {
  // 1.5 and 2048 with 16 more.
  EXPECT_EQ(FirstOf(SetAll(0x3fc00000) +
                        "wmma.mma.sync.aligned.row.row.m16n16k16.f16.f32\n" +
                        kHalfC + ", " + kAAndB + kC + ";",
                    std::string("f16 [%p], ") + kHalfC),
            0x4c604c60u);
  EXPECT_EQ(FirstOf(SetAll(0x68006800) +
                        "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f16\n" +
                        kC + ", " + kAAndB + kHalfC + ";",
                    std::string("f32 [%p], ") + kC),
            0x45010000u);
}

TEST_F(FragmentsTest, ProductsTakeTheFirstOfRepeatedStrips) {
  const auto with = [](int register_number) {
    return FirstOf(SetAll(0) +
                       fmt::format("mov.u32 %a{0}, 0; mov.u32 %b{0}, 0;\n",
                                   register_number) +
                       "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32\n" +
                       kC + ", " + kAAndB + kC + ";",
                   std::string("f32 [%p], ") + kC);
  };
  EXPECT_EQ(with(4), 0x41800000u);  // 16
  EXPECT_EQ(with(0), 0x41000000u);
}

// --- Lanes.

constexpr char kWhere[] = "; lane {} of warp 0, block (0, 0, 0)";
const std::string kOperations[] = {
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%d0, %d1}, {%a0}, {%a1}, "
    "{%a2, %a3};",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d0}, [%r0];",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {%a0};",
    "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;",
    "wmma.load.a.sync.aligned.row.m16n16k16.s8 {%d0, %d1}, [%m];",
};
std::string NameOf(const std::string& operation) {
  return operation.substr(0, operation.find(' '));
}

TEST_F(FragmentsTest, AllLanesMustComeToTheSameInstruction) {
  for (const std::string& operation : kOperations) {
    const std::string name = NameOf(operation);
    // The other half does the same in another place.
    EXPECT_EQ(Error("setp.lt.u32 %x, %t, 16; @%x bra SOME;\n" + operation +
                    "\nbra BOTH; SOME: " + operation + "\nBOTH:"),
              fmt::format("k: test.ptx:15: {}: lanes 0x0000ffff wait for lanes "
                          "0xffff0000 of the warp, which never come",
                          name) +
                  fmt::format(fmt::runtime(kWhere), 16));
    EXPECT_EQ(
        Error("setp.lt.u32 %x, %t, 3;\n@%x exit;\n" + operation),
        fmt::format("k: test.ptx:15: {}: all 32 lanes of the warp do this "
                    "together; lanes 0x00000007 have exited or never were "
                    "there",
                    name) +
            fmt::format(fmt::runtime(kWhere), 0));
    // They wait for lanes that leave meanwhile.
    EXPECT_THAT(Error("setp.lt.u32 %x, %t, 3;\n@!%x bra THERE; exit; THERE:\n" +
                      operation),
                HasSubstr("lanes 0x00000007 have exited"));
    // The others wait elsewhere, or leave.
    EXPECT_THAT(Error("setp.lt.u32 %x, %t, 3;\n@%x " + operation),
                HasSubstr("lanes 0xfffffff8 wait for lanes 0x00000007"));
    EXPECT_THAT(Error("setp.lt.u32 %x, %t, 3;\n@%x " + operation + "\nret;"),
                HasSubstr("lanes 0xfffffff8 have exited"));
    EXPECT_THAT(Error(operation, 20),
                HasSubstr("lanes 0xfff00000 have exited or never were there"));
  }
}

// The lower half comes in the first round, the upper one in the second.
TEST_F(FragmentsTest, LanesOnOtherPathsAreWaitedFor) {
  Randomize();
  ASSERT_EQ(Run("setp.lt.u32 %x, %t, 16; mov.u32 %r5, 0;\n"
                "ROUND: setp.eq.u32 %q, %r5, 0; xor.pred %q, %q, %x;\n"
                "@%q bra NEXT;\n"
                "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;\n"
                "add.u32 %d1, %r5, 10;\n"
                "NEXT: add.u32 %r5, %r5, 1; setp.lt.u32 %q, %r5, 2;\n"
                "@%q bra ROUND;"),
            absl::OkStatus());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(Half(out_, lane, 0, 0),
              Half(in_, 8 * (lane % 4) + lane / 8, 0, lane / 4 % 2))
        << lane;
    EXPECT_EQ(Half(out_, lane, 1, 0), lane < 16 ? 10u : 11u);
  }
}

TEST_F(FragmentsTest, AFunctionCalledFromTwoPlacesIsNotOneInstruction) {
  Bench bench;
  ASSERT_EQ(bench.Load(".func f() { .reg .b32 %a, %d; mov.u32 %a, 1;\n"
                       "movmatrix.sync.aligned.m8n8.trans.b16 %d, %a; ret; }\n"
                       ".visible .entry k() { .reg .b32 %t; .reg .pred %x;\n"
                       "mov.u32 %t, %tid.x; setp.lt.u32 %x, %t, 8;\n"
                       "@%x bra SOME; call.uni f; bra BOTH;\n"
                       "SOME: call.uni f; BOTH: ret; }"),
            absl::OkStatus());
  EXPECT_THAT(
      std::string(bench.Run("k", {1, 1, 1}, {32, 1, 1}, {}).status().message()),
      HasSubstr("lanes 0xffffff00 came here by another call than lanes "
                "0x000000ff"));
}

TEST_F(FragmentsTest, AddressesThatPtxLeavesUndefinedAreFaults) {
  EXPECT_THAT(Error("add.u32 %r2, %r0, 8;\n"
                    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%d0, %d1, %d2, "
                    "%d3}, [%r2];"),
              HasSubstr("ldmatrix.sync.aligned.m8n8.x4.shared.b16: "));
  EXPECT_THAT(Error("ldmatrix.sync.aligned.m8n8.x1.b16 {%d0}, [%m];"),
              HasSubstr("the rows lie in shared memory"));
  // The addresses of lanes 8 and up do not count.
  EXPECT_EQ(Run("setp.gt.u32 %x, %t, 7; mov.u32 %r2, %r0;\n"
                "@%x mov.u32 %r2, 0x7fffffff;\n"
                "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d0}, [%r2];"),
            absl::OkStatus());
  EXPECT_THAT(
      Error("wmma.load.a.sync.aligned.row.m16n16k16.s8 {%d0, %d1}, [%in];"),
      testing::AllOf(HasSubstr("and stride 16, where lane 0 has 0x"),
                     HasSubstr("lane 1 of warp 0")));
  EXPECT_THAT(
      Error("wmma.load.a.sync.aligned.row.m16n16k16.s8 {%d0, %d1}, [%m+4];"),
      HasSubstr("and a stride of 16 bytes: both must be multiples of 8"));
  EXPECT_THAT(
      Error("wmma.load.a.sync.aligned.row.m16n16k16.s8 {%d0, %d1}, [%m], 20;"),
      HasSubstr("and a stride of 20 bytes: both must be multiples of 8"));
  EXPECT_THAT(Error("wmma.load.a.sync.aligned.row.m16n16k16.s8 {%d0, %d1}, "
                    "[%m], 0x100000;"),
              HasSubstr("past the end of 'buffer'"));
}

TEST_F(FragmentsTest, WhatIsNoInstructionIsNamed) {
  EXPECT_THAT(
      std::string(
          Run("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%d0, %d1, %d2}, "
              "{%a0}, {%a1}, {%a2, %a3};")
              .message()),
      HasSubstr("the matrix has 2 registers, not 3"));
  for (const char* text :
       {"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%d0}, {%a0}, {%a1}, "
        "{%a2};",
        "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%d0}, {%a0}, {%a1},"
        "{%a2};",
        "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 {%d0}, {%a0}, {%a1},"
        "{%a2};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%d0}, {%a0}, "
        "{%a1}, {%a2};",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32 {%d0}, {%a0}, {%a1},"
        "{%a2};",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {%d0}, "
        "{%a0}, {%a1}, {%a2};",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32 {%d0}, {%a0}, {%a1}, "
        "{%a2};",
        "mma.m8n8k16.row.col.s32.s8.s8.s32 {%d0}, {%a0}, {%a1}, {%a2};",
        "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32 {%d0}, {%a0}, "
        "{%a1}, {%a2};",
        "mma.sync.aligned.m8n8k16.row.col.s32.s32.s32.s32 {%d0}, {%a0}, {%a1}, "
        "{%a2};",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.f32.f32 {%d0}, {%a0}, "
        "{%a1}, {%a2};",
        "wmma.load.a.sync.aligned.row.m16n16k8.f16 {%d0}, [%m];",
        "wmma.load.a.sync.aligned.row.m16n16k16.f32 {%d0}, [%m];",
        "wmma.load.c.sync.aligned.row.m16n16k16.s8 {%d0}, [%m];",
        "wmma.load.d.sync.aligned.row.m16n16k16.f32 {%d0}, [%m];",
        "wmma.store.a.sync.aligned.row.m16n16k16.s8 [%m], {%d0};",
        "ldmatrix.sync.aligned.m8n8.x3.b16 {%d0}, [%m];",
        "movmatrix.sync.aligned.m8n8.b16 %d0, %a0;"}) {
    const absl::Status status = Run(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(fmt::format("instruction '{}' is not supported",
                                      NameOf(text))));
  }
}

// As ptxas has it: constants in accumulators only.
TEST_F(FragmentsTest, AMatrixIsRegistersAndOnlyAccumulatorsMayBeConstants) {
  for (const char* text :
       {"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%d0, %d1}, {5}, {%a1},"
        " {%a2, %a3};",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%d0, %d1}, {%a0}, {5},"
        " {%a2, %a3};",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0], {5};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %d0, 5;"}) {
    const absl::Status status = Run(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'5' is a constant"));
  }
  for (const char* text :
       {"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%d0, %d1}, %a0, {%a1},"
        " {%a2, %a3};",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %d0, [%r0];"}) {
    EXPECT_THAT(std::string(Run(text).message()),
                HasSubstr("a matrix is {registers}"));
  }
  ASSERT_EQ(Run("mov.u32 %a0, 0; mov.u32 %a1, 3;\n"
                "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%d0, %d1}, "
                "{%a0}, {%a1}, {%a1, 5};"),
            absl::OkStatus());
  EXPECT_EQ(out_[0], 3u);
  EXPECT_EQ(out_[1], 5u);
}

TEST_F(FragmentsTest, ResultsMayBeThrownAway) {
  const struct {
    const char* all;
    const char* some;
  } kTexts[] = {
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%d0, %d1, %d2, %d3}, [%r0];",
       "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {_, %d1, _, %d3}, [%r0];"},
      {"wmma.load.c.sync.aligned.row.m16n16k16.f16 {%d0, %d1, %d2, %d3}, [%m];",
       "wmma.load.c.sync.aligned.row.m16n16k16.f16 {_, %d1, _, %d3}, [%m];"},
      {"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%d0, %d1, %d2, %d3}, "
       "{%a0, %a1}, {%a2}, {%a0, %a1, %a2, %a3};",
       "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {_, %d1, _, %d3}, "
       "{%a0, %a1}, {%a2}, {%a0, %a1, %a2, %a3};"}};
  Randomize();
  for (const auto& [all, some] : kTexts) {
    const auto before = shared_;
    ASSERT_EQ(Run(all), absl::OkStatus());
    const auto expected = out_;
    shared_ = before;
    ASSERT_EQ(Run(some), absl::OkStatus());
    for (size_t i = 0; i < out_.size(); ++i) {
      ASSERT_EQ(out_[i], i % 2 == 0 ? 7 : expected[i]) << some << " " << i;
    }
  }
}

// --- cvt to tf32.

TEST(ToTf32, RoundsAwayToNearestOrToZero) {
  std::vector<Values> cases = FloatCases({32});
  // Ties, and what is beside them.
  for (const uint32_t x : {0x3f80'1000u, 0x3f80'0fffu, 0x3f80'1001u,
                           0x3f80'3000u, 0xbf80'1000u, 0x7f7f'ffffu, 0x1000u}) {
    cases.push_back({x});
  }
  const auto reference = [](const std::string& rounding, bool relu) {
    return [=](const Values& sources) -> Values {
      const auto bits = static_cast<uint32_t>(sources[0]);
      if ((bits & 0x7fffffff) > 0x7f800000) return {0x7fffffff};
      if (relu && bits >> 31 != 0) return {0};
      const uint32_t below = bits & ~0x1fffu;
      const uint32_t rest = bits & 0x1fffu;
      const bool tie = rest == 0x1000;
      const bool up = rounding != "rz" &&
                      (rest > 0x1000 ||
                       (tie && (rounding == "rna" || (below & 0x2000) != 0)));
      return {below + (up ? 0x2000u : 0u)};
    };
  };
  for (const std::string rounding : {"rna", "rn", "rz"}) {
    for (const bool relu : {false, true}) {
      if (relu && rounding == "rna") continue;
      ExpectOutputs({fmt::format("cvt.{}{}.tf32.f32 %0, %1;", rounding,
                                 relu ? ".relu" : ""),
                     "w", "w"},
                    cases, reference(rounding, relu));
    }
  }
  EXPECT_THAT(Refusal({"cvt.rna.satfinite.tf32.f32 %0, %1;", "w", "w"}),
              HasSubstr("satfinite"));
}

}  // namespace
}  // namespace carillon::sim
