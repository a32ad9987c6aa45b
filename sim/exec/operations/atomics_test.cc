// atom and red: each operation of each type in each space, lane by lane.
#include <gtest/gtest.h>

#include <bit>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

constexpr uint32_t kThreads = kLanes;

struct Type {
  std::string name;
  char kind;
  uint32_t bits;
};
uint64_t Cut(const Type& type, uint64_t value) {
  return type.bits == 64 ? value : value & ((uint64_t{1} << type.bits) - 1);
}
int64_t Signed(const Type& type, uint64_t value) {
  return type.bits == 32 ? static_cast<int32_t>(value)
                         : static_cast<int64_t>(value);
}

uint64_t Next(const std::string& op, const Type& type, uint64_t old, uint64_t b,
              uint64_t c) {
  const bool less =
      type.kind == 's' ? Signed(type, b) < Signed(type, old) : b < old;
  if (op == "add" && type.name == "f32") {
    const float sum = std::bit_cast<float>(static_cast<uint32_t>(old)) +
                      std::bit_cast<float>(static_cast<uint32_t>(b));
    return sum == sum ? std::bit_cast<uint32_t>(sum) : 0x7fffffff;
  }
  if (op == "add" && type.name == "f64") {
    return std::bit_cast<uint64_t>(std::bit_cast<double>(old) +
                                   std::bit_cast<double>(b));
  }
  if (op == "add") return Cut(type, old + b);
  if (op == "min") return less ? b : old;
  if (op == "max") return less ? old : b;
  if (op == "and") return old & b;
  if (op == "or") return old | b;
  if (op == "xor") return old ^ b;
  if (op == "exch") return b;
  if (op == "cas") return old == b ? c : old;
  if (op == "inc") return old >= b ? 0 : old + 1;
  return old == 0 || old > b ? b : old - 1;  // dec
}

// All threads update one cell, which begins with `from`. What they get goes to
// to[1] and the following words, and the cell's last value to to[0]. Threads
// whose number has a bit in common with `skip` do nothing.
std::string Kernel(const std::string& op, const Type& type, bool has_result,
                   const std::string& space, uint32_t skip) {
  const std::string b = fmt::format("b{}", type.bits);
  const std::string where = space == "generic" ? "" : "." + space;
  return fmt::format(
      ".visible .entry k(.param .u64 from, .param .u64 to) {{\n"
      ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<4>; .reg .{0} %v<9>;\n"
      ".shared .align 8 .b64 cell;\n"
      "ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];\n"
      "mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16;\n"
      "add.s64 %rd4, %rd1, %rd3; ld.global.{0} %v1, [%rd4+16];\n"
      "ld.global.{0} %v2, [%rd4+24]; mul.wide.u32 %rd3, %r1, 8;\n"
      "add.s64 %rd5, %rd2, %rd3; setp.eq.u32 %p1, %r1, 0;\n"
      "{1} @%p1 ld.global.{0} %v3, [%rd1]; @%p1 st{2}.{0} [%rd6], %v3;\n"
      "bar.sync 0; and.b32 %r2, %r1, {3}; setp.ne.u32 %p2, %r2, 0;\n"
      "@%p2 bra JOIN;\n{4}{2}.{5}.{6} {7}[%rd6], %v1{8};\n{9}\nJOIN:\n"
      "bar.sync 0; @%p1 ld{2}.{0} %v3, [%rd6]; @%p1 st.global.{0} [%rd2], "
      "%v3;\n"
      "ret; }}",
      b,
      space == "shared"    ? "mov.u64 %rd6, cell;"
      : space == "generic" ? "cvta.shared.u64 %rd6, cell;"
                           : "add.s64 %rd6, %rd2, 2048;",
      where, skip, has_result ? "atom" : "red", op, type.name,
      has_result ? "%v4, " : "", op == "cas" ? ", %v2" : "",
      has_result ? fmt::format("st.global.{} [%rd5+8], %v4;", b) : "");
}

void Check(const std::string& op, const Type& type, bool has_result,
           const std::string& space, uint32_t skip) {
  Bench bench;
  const absl::Status loaded =
      bench.Load(Kernel(op, type, has_result, space, skip));
  ASSERT_TRUE(loaded.ok()) << loaded;
  const DeviceAddress from = bench.Allocate(16 * (kThreads + 1));
  const DeviceAddress to = bench.Allocate(4096);
  const auto in = bench.At<uint64_t>(from, 2 * (kThreads + 1));
  // Small numbers meet each other, for cas, inc and dec; large ones overflow.
  const auto random =
      RandomIntegers({type.bits, type.bits, 3, 3}, kThreads + 1);
  for (uint32_t i = 0; i <= kThreads; ++i) {
    const bool small = op == "cas" || op == "inc" || op == "dec";
    for (uint32_t n = 0; n < 2; ++n) {
      in[2 * i + n] = small && i % 8 != 7 ? random[i][2 + n] : random[i][n];
      if (type.kind == 'f' && i % 8 != 7) {
        in[2 * i + n] =
            type.bits == 32
                ? std::bit_cast<uint32_t>(static_cast<float>(i * 0.7))
                : std::bit_cast<uint64_t>(i * 0.7);
      }
    }
  }
  const auto ran = bench.Run("k", {1, 1, 1}, {kThreads, 1, 1}, {from, to});
  ASSERT_TRUE(ran.ok()) << ran.status();
  const auto out = bench.At<uint64_t>(to, 512);
  uint64_t cell = in[0];
  for (uint32_t i = 0; i < kThreads; ++i) {
    if ((i & skip) != 0) {
      ASSERT_EQ(out[1 + i], 0u);
      continue;
    }
    const bool nan = type.name == "f64" &&
                     std::bit_cast<double>(cell) != std::bit_cast<double>(cell);
    if (has_result && !nan) {
      ASSERT_EQ(out[1 + i], cell) << "thread " << i;
    }
    cell = Next(op, type, cell, in[2 * i + 2], in[2 * i + 3]);
  }
  if (type.kind != 'f') {
    ASSERT_EQ(out[0], cell);
  }
}

struct Operation {
  std::string op;
  std::vector<Type> types;
};
const std::vector<Operation>& Operations() {
  static const Type u32{"u32", 'u', 32}, s32{"s32", 's', 32};
  static const Type u64{"u64", 'u', 64}, s64{"s64", 's', 64};
  static const Type b32{"b32", 'b', 32}, b64{"b64", 'b', 64};
  static const Type f32{"f32", 'f', 32}, f64{"f64", 'f', 64};
  static const std::vector<Operation> kAll = {
      {"add", {u32, s32, u64, f32, f64}},
      {"min", {u32, s32, u64, s64}},
      {"max", {u32, s32, u64, s64}},
      {"and", {b32, b64}},
      {"or", {b32, b64}},
      {"xor", {b32, b64}},
      {"exch", {b32, b64}},
      {"cas", {b32, b64, {"b16", 'b', 16}}},
      {"inc", {u32}},
      {"dec", {u32}}};
  return kAll;
}

TEST(AtomicsTest, LanesHaveTheirTurnsFromTheLowestOn) {
  for (const Operation& operation : Operations()) {
    for (const Type& type : operation.types) {
      for (const std::string space : {"global", "shared", "generic"}) {
        for (const uint32_t skip : {0u, 1u, 6u}) {
          SCOPED_TRACE(
              fmt::format("{}.{} {} {}", operation.op, type.name, space, skip));
          Check(operation.op, type, true, space, skip);
          if (operation.op != "cas" && operation.op != "exch") {
            Check(operation.op, type, false, space, skip);
          }
        }
      }
    }
  }
}

TEST(AtomicsTest, EveryOrderAndScopeIsTaken) {
  for (const char* order : {"relaxed", "acquire", "release", "acq_rel"}) {
    for (const char* scope : {"cta", "gpu", "sys"}) {
      ExpectOutputs({fmt::format("mov.b32 %0, %1; atom.{}.{}.global.add.u32 "
                                 "%0, [%in], 0;",
                                 order, scope),
                     "w", "w"},
                    {{7}, {9}}, [](const Values& v) { return v; });
    }
  }
  ExpectOutputs({"atom.global.exch.b32 _, [%scratch], %1;"
                 "ld.global.b32 %0, [%scratch];",
                 "w", "w"},
                {{7}, {9}}, [](const Values& v) { return v; });
}

TEST(AtomicsTest, WhatPtxHasNotIsRefused) {
  for (const char* text :
       {"atom.global.add.s16 %0, [%in], %1;",
        "atom.global.inc.s64 %0, [%in], 1;",
        "atom.global.min.f32 %0, [%in], %1;",
        "atom.global.cas.f32 %0, [%in], 1, 2;", "atom.global.u32 %0, [%in], 1;",
        "atom.const.add.u32 %0, [%in], 1;", "atom.local.add.u32 %0, [%in], 1;",
        "atom.global.add.u32 %0, [%in];",
        "atom.global.cas.b32 %0, [%in], 1;"}) {
    EXPECT_NE(Refusal({text, "w", "w"}), "") << text;
  }
}

// Blocks and warps in turn: nothing is lost.
TEST(AtomicsTest, SumsOverAGridAreWhole) {
  Bench bench;
  ASSERT_TRUE(
      bench
          .Load(
              ".visible .entry k(.param .u64 p) { .reg .b64 %rd<2>;\n"
              ".reg .b32 %r<2>; ld.param.u64 %rd1, [p];\n"
              "atom.global.add.u32 %r1, [%rd1], 1; mul.wide.u32 %rd1, %r1, 4;\n"
              "{ .reg .b64 a; ld.param.u64 a, [p]; add.s64 a, a, %rd1;\n"
              "red.global.add.u32 [a+8], 1; } ret; }")
          .ok());
  const DeviceAddress at = bench.Allocate(8 + 4 * 300 * 40);
  ASSERT_TRUE(bench.Run("k", {40, 1, 1}, {300, 1, 1}, {at}).ok());
  const auto words = bench.At<uint32_t>(at, 2 + 300 * 40);
  EXPECT_EQ(words[0], 300u * 40);
  for (uint32_t i = 0; i < 300 * 40; ++i) ASSERT_EQ(words[2 + i], 1u) << i;
}

}  // namespace
}  // namespace carillon::sim
