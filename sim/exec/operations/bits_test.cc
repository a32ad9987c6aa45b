// Logic, shifts, fields and moves, bit by bit.
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

struct Width {
  const char* name;
  char letter;
  uint32_t bits;

  uint64_t ones() const {
    return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  }
};
constexpr Width kPred{"pred", 'p', 1};
constexpr Width k16{"b16", 'h', 16};
constexpr Width k32{"b32", 'w', 32};
constexpr Width k64{"b64", 'd', 64};
constexpr Width kWidths[] = {kPred, k16, k32, k64};

bool Bit(uint64_t value, uint32_t bit) { return bit < 64 && value >> bit & 1; }

TEST(BitsTest, Logic) {
  for (const Width& w : kWidths) {
    const struct {
      const char* name;
      uint64_t (*of)(uint64_t, uint64_t);
    } kTwo[] = {{"and", [](uint64_t a, uint64_t b) { return a & b; }},
                {"or", [](uint64_t a, uint64_t b) { return a | b; }},
                {"xor", [](uint64_t a, uint64_t b) { return a ^ b; }}};
    for (const auto& op : kTwo) {
      ExpectOutputs(
          {fmt::format("{}.{} %0, %1, %2;", op.name, w.name),
           {w.letter},
           std::string(2, w.letter)},
          IntegerCases({w.bits, w.bits}),
          [&](const Values& v) -> Values { return {op.of(v[0], v[1])}; });
    }
    ExpectOutputs(
        {fmt::format("not.{} %0, %1;", w.name), {w.letter}, {w.letter}},
        IntegerCases({w.bits}),
        [&](const Values& v) -> Values { return {~v[0] & w.ones()}; });
    ExpectOutputs(
        {fmt::format("mov.{} %0, %1;", w.name), {w.letter}, {w.letter}},
        IntegerCases({w.bits}), [](const Values& v) { return v; });
    if (w.letter == 'p') continue;
    ExpectOutputs(
        {fmt::format("cnot.{} %0, %1;", w.name), {w.letter}, {w.letter}},
        IntegerCases({w.bits}),
        [](const Values& v) -> Values { return {v[0] == 0}; });
  }
}

TEST(BitsTest, ShiftsByTheWidthOrMoreLeaveZerosOrSigns) {
  for (const Width& w : {k16, k32, k64}) {
    const std::vector<Values> cases =
        Joined(Crossed({IntegerEdges(w.bits),
                        {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255,
                         256, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff}}),
               RandomIntegers({w.bits, 6}, 300));
    ExpectOutputs({fmt::format("shl.{} %0, %1, %2;", w.name),
                   {w.letter},
                   {w.letter, 'w'}},
                  cases, [&](const Values& v) -> Values {
                    return {v[1] >= w.bits ? 0 : v[0] << v[1] & w.ones()};
                  });
    for (const char kind : {'u', 's', 'b'}) {
      ExpectOutputs({fmt::format("shr.{}{} %0, %1, %2;", kind, w.bits),
                     {w.letter},
                     {w.letter, 'w'}},
                    cases, [&](const Values& v) -> Values {
                      uint64_t result = 0;
                      for (uint32_t bit = 0; bit < w.bits; ++bit) {
                        const uint64_t from = bit + v[1];
                        const bool set =
                            from < w.bits
                                ? Bit(v[0], static_cast<uint32_t>(from))
                                : kind == 's' && Bit(v[0], w.bits - 1);
                        result |= uint64_t{set} << bit;
                      }
                      return {result};
                    });
    }
  }
}

TEST(BitsTest, FunnelShiftsTakeFromTwoWords) {
  const std::vector<Values> cases =
      Joined(Crossed({{0x12345678, 0xffffffff, 0x80000001},
                      {0, 0x9abcdef0, 0x80000001},
                      {0, 1, 16, 31, 32, 33, 63, 64, 0xffffffff}}),
             RandomIntegers({32, 32, 6}, 300));
  for (const bool left : {false, true}) {
    for (const bool wrap : {false, true}) {
      ExpectOutputs(
          {fmt::format("shf.{}.{}.b32 %0, %1, %2, %3;", left ? 'l' : 'r',
                       wrap ? "wrap" : "clamp"),
           "w", "www"},
          cases, [&](const Values& v) -> Values {
            const uint64_t n = wrap ? v[2] % 32 : std::min<uint64_t>(v[2], 32);
            // Bit i of the result is this one of b:a.
            uint64_t result = 0;
            for (uint32_t i = 0; i < 32; ++i) {
              const uint64_t from = left ? 32 + i - n : i + n;
              const bool set =
                  from < 32 ? Bit(v[0], static_cast<uint32_t>(from))
                            : Bit(v[1], static_cast<uint32_t>(from) - 32);
              result |= uint64_t{set} << i;
            }
            return {result};
          });
    }
  }
}

// PTX ISA 9.7.1's pseudocode, bit by bit.
TEST(BitsTest, FindsTheNthBit) {
  const std::vector<Values> cases =
      Joined(Crossed({{0, 1, 0xaaaaaaaa, 0x80000001, 0xffffffff},
                      {0, 1, 3, 30, 31},
                      {0, 1, 2, 16, 32, 33, 0x7fffffff, 0x80000000, 0xffffffff,
                       0xfffffff0, 0xffffffe0}}),
             RandomIntegers({32, 5, 3}, 300));
  ExpectOutputs({"fns.b32 %0, %1, %2, %3;", "w", "www"}, cases,
                [](const Values& v) -> Values {
                  const int64_t offset = static_cast<int32_t>(v[2]);
                  auto at = static_cast<int64_t>(v[1]);
                  if (offset == 0) return {Bit(v[0], v[1]) ? v[1] : ~0u};
                  int64_t seen = 0;
                  for (; at >= 0 && at<32; at += offset> 0 ? 1 : -1) {
                    seen += Bit(v[0], static_cast<uint32_t>(at));
                    if (seen == std::abs(offset)) {
                      return {static_cast<uint64_t>(at)};
                    }
                  }
                  return {~0u};
                });
}

TEST(BitsTest, MasksAndExtendsByCounts) {
  const std::vector<Values> cases =
      Joined(Crossed({{0, 1, 5, 31, 32, 33, 63, 64, 0x80000000, 0xffffffff},
                      {0, 1, 5, 31, 32, 33, 63, 64, 0x80000000, 0xffffffff}}),
             RandomIntegers({32, 6}, 300));
  for (const bool wrap : {false, true}) {
    const std::string mode = wrap ? ".wrap" : ".clamp";
    const auto limited = [&](uint64_t n) {
      return wrap ? n % 32 : std::min<uint64_t>(n, 32);
    };
    ExpectOutputs({"bmsk" + mode + ".b32 %0, %1, %2;", "w", "ww"}, cases,
                  [&](const Values& v) -> Values {
                    uint64_t result = 0;
                    for (uint64_t i = 0; i < limited(v[1]); ++i) {
                      const uint64_t bit = limited(v[0]) + i;
                      if (bit < 32) result |= uint64_t{1} << bit;
                    }
                    return {result};
                  });
    for (const bool sign : {false, true}) {
      ExpectOutputs({"szext" + mode + (sign ? ".s32" : ".u32") + " %0, %1, %2;",
                     "w", "ww"},
                    cases, [&](const Values& v) -> Values {
                      const uint64_t n = limited(v[1]);
                      uint64_t result = v[0] % (uint64_t{1} << n);
                      if (sign && n > 0 && result >> (n - 1) != 0) {
                        result += (uint64_t{1} << 32) - (uint64_t{1} << n);
                      }
                      return {result % (uint64_t{1} << 32)};
                    });
    }
  }
  EXPECT_NE(Refusal({"bmsk.b32 %0, %1, %2;", "w", "ww"}), "");
}

TEST(BitsTest, PermutesBytes) {
  std::vector<Values> cases;
  for (uint64_t selector = 0; selector < 0x10000; selector += 7) {
    cases.push_back({0x12f45678, 0x9a3cde70, selector});
  }
  cases = Joined(cases, RandomIntegers({32, 32, 32}, 500));
  const auto byte = [](const Values& v, uint64_t n) {
    return (n < 4 ? v[0] : v[1]) >> (8 * (n % 4)) & 0xff;
  };
  ExpectOutputs({"prmt.b32 %0, %1, %2, %3;", "w", "www"}, cases,
                [&](const Values& v) -> Values {
                  uint64_t result = 0;
                  for (int i = 0; i < 4; ++i) {
                    const uint64_t digit = v[2] >> (4 * i) & 15;
                    uint64_t value = byte(v, digit & 7);
                    if (digit >= 8) value = value >= 0x80 ? 0xff : 0;
                    result |= value << (8 * i);
                  }
                  return {result};
                });
  // PTX ISA, table of prmt's modes: from the highest byte to the lowest.
  const struct {
    const char* mode;
    int bytes[4][4];
  } kModes[] = {
      {"f4e", {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}}},
      {"b4e", {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}}},
      {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
      {"ecl", {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}}},
      {"ecr", {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}}},
      {"rc16", {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}}}};
  for (const auto& mode : kModes) {
    ExpectOutputs(
        {fmt::format("prmt.b32.{} %0, %1, %2, %3;", mode.mode), "w", "www"},
        cases, [&](const Values& v) -> Values {
          uint64_t result = 0;
          for (int i = 0; i < 4; ++i) {
            result = result << 8 |
                     byte(v, static_cast<uint64_t>(mode.bytes[v[2] & 3][i]));
          }
          return {result};
        });
  }
}

TEST(BitsTest, Logic3HasAll256Tables) {
  // All eight combinations in each byte, and more.
  const std::vector<Values> cases = Joined(
      {{0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa}}, RandomIntegers({32, 32, 32}, 63));
  for (uint32_t table = 0; table < 256; ++table) {
    ExpectOutputs(
        {fmt::format("lop3.b32 %0, %1, %2, %3, {:#x};", table), "w", "www"},
        cases, [&](const Values& v) -> Values {
          uint64_t result = 0;
          for (uint32_t i = 0; i < 32; ++i) {
            const uint32_t row = (Bit(v[0], i) ? 4 : 0) +
                                 (Bit(v[1], i) ? 2 : 0) +
                                 (Bit(v[2], i) ? 1 : 0);
            result |= uint64_t{Bit(table, row)} << i;
          }
          return {result};
        });
  }
  EXPECT_NE(Refusal({"lop3.b32 %0, %1, %2, %3, 256;", "w", "www"}), "");
}

// As the PTX ISA's pseudo code of bfe and bfi says it.
TEST(BitsTest, Fields) {
  const Values at = {0, 1, 5, 16, 31, 32, 33, 63, 64, 200, 255, 256, 0x1ff};
  for (const Width& w : {k32, k64}) {
    const uint32_t msb = w.bits - 1;
    const std::vector<Values> cases =
        Joined(Crossed({IntegerEdges(w.bits), at, at}),
               RandomIntegers({w.bits, 6, 6}, 500));
    for (const char kind : {'u', 's'}) {
      ExpectOutputs({fmt::format("bfe.{}{} %0, %1, %2, %3;", kind, w.bits),
                     {w.letter},
                     {w.letter, 'w', 'w'}},
                    cases, [&](const Values& v) -> Values {
                      const auto position = static_cast<uint32_t>(v[1] & 0xff);
                      const auto length = static_cast<uint32_t>(v[2] & 0xff);
                      const bool sign =
                          kind == 's' && length != 0 &&
                          Bit(v[0], std::min(position + length - 1, msb));
                      uint64_t result = 0;
                      for (uint32_t i = 0; i <= msb; ++i) {
                        const bool set = i < length && position + i <= msb
                                             ? Bit(v[0], position + i)
                                             : sign;
                        result |= uint64_t{set} << i;
                      }
                      return {result};
                    });
    }
    ExpectOutputs(
        {fmt::format("bfi.{} %0, %1, %2, %3, %4;", w.name),
         {w.letter},
         {w.letter, w.letter, 'w', 'w'}},
        Joined(Crossed({{0, w.ones(), 0x5a}, {0, w.ones(), 0xc3c3}, at, at}),
               RandomIntegers({w.bits, w.bits, 6, 6}, 500)),
        [&](const Values& v) -> Values {
          const auto position = static_cast<uint32_t>(v[2] & 0xff);
          const auto length = static_cast<uint32_t>(v[3] & 0xff);
          uint64_t result = v[1];
          for (uint32_t i = 0; i < length && position + i <= msb; ++i) {
            result &= ~(uint64_t{1} << (position + i));
            result |= uint64_t{Bit(v[0], i)} << (position + i);
          }
          return {result};
        });
  }
}

TEST(BitsTest, CountsAndReversals) {
  for (const Width& w : {k32, k64}) {
    std::vector<Values> cases = IntegerCases({w.bits});
    for (uint32_t bit = 0; bit < w.bits; ++bit) {
      cases.push_back({uint64_t{1} << bit});
      cases.push_back({(uint64_t{1} << bit) - 1});
      cases.push_back({w.ones() << bit & w.ones()});
    }
    const auto expect = [&](const std::string& name, auto of) {
      ExpectOutputs({name + " %0, %1;", "w", {w.letter}}, cases,
                    [&](const Values& v) -> Values {
                      return {static_cast<uint32_t>(of(v[0]))};
                    });
    };
    expect(fmt::format("popc.{}", w.name), [&](uint64_t a) {
      uint32_t count = 0;
      for (uint32_t i = 0; i < w.bits; ++i) count += Bit(a, i);
      return count;
    });
    expect(fmt::format("clz.{}", w.name), [&](uint64_t a) {
      uint32_t count = 0;
      while (count < w.bits && !Bit(a, w.bits - 1 - count)) ++count;
      return count;
    });
    ExpectOutputs(
        {fmt::format("brev.{} %0, %1;", w.name), {w.letter}, {w.letter}}, cases,
        [&](const Values& v) -> Values {
          uint64_t result = 0;
          for (uint32_t i = 0; i < w.bits; ++i) {
            result |= uint64_t{Bit(v[0], i)} << (w.bits - 1 - i);
          }
          return {result};
        });
    for (const char kind : {'u', 's'}) {
      // The highest bit that differs from the sign.
      const auto leading = [&](uint64_t a) -> uint32_t {
        const bool other = kind == 's' && Bit(a, w.bits - 1);
        for (uint32_t i = w.bits; i-- > 0;) {
          if (Bit(a, i) != other) return i;
        }
        return ~0u;
      };
      expect(fmt::format("bfind.{}{}", kind, w.bits), leading);
      expect(fmt::format("bfind.shiftamt.{}{}", kind, w.bits), [&](uint64_t a) {
        const uint32_t at = leading(a);
        return at == ~0u ? at : w.bits - 1 - at;
      });
    }
  }
}

TEST(BitsTest, Selections) {
  for (const Width& w : {k16, k32, k64}) {
    for (const char kind : {'b', 'u', 's', 'f'}) {
      if (kind == 'f' && w.bits == 16) continue;
      ExpectOutputs(
          {fmt::format("selp.{}{} %0, %1, %2, %3;", kind, w.bits),
           {w.letter},
           {w.letter, w.letter, 'p'}},
          IntegerCases({w.bits, w.bits, 1}),
          [](const Values& v) -> Values { return {v[2] != 0 ? v[0] : v[1]}; });
      const std::string two(2, w.letter);
      ExpectOutputs({fmt::format("slct.{}{}.s32 %0, %1, %2, %3;", kind, w.bits),
                     {w.letter},
                     two + 'w'},
                    Crossed({{1, 2}, {3, w.ones()}, IntegerEdges(32)}),
                    [](const Values& v) -> Values {
                      return {v[2] >> 31 == 0 ? v[0] : v[1]};
                    });
      // -0 is not less than 0; a NaN takes the second.
      ExpectOutputs({fmt::format("slct.{}{}.f32 %0, %1, %2, %3;", kind, w.bits),
                     {w.letter},
                     two + 'w'},
                    Crossed({{1, 2}, {3, w.ones()}, FloatEdges(32)}),
                    [](const Values& v) -> Values {
                      const bool nan = (v[2] & 0x7fffffff) > 0x7f800000;
                      const bool negative = v[2] > 0x80000000;
                      return {nan || negative ? v[1] : v[0]};
                    });
    }
  }
}

TEST(BitsTest, PacksAndUnpacks) {
  const auto check = [](const Width& whole, const Width& part) {
    const uint32_t parts = whole.bits / part.bits;
    std::string list = "%1";
    for (uint32_t n = 1; n < parts; ++n) list += fmt::format(", %{}", n + 1);
    ExpectOutputs({fmt::format("mov.{} %0, {{{}}};", whole.name, list),
                   {whole.letter},
                   std::string(parts, part.letter)},
                  RandomIntegers(std::vector<uint32_t>(parts, part.bits), 300),
                  [&](const Values& v) -> Values {
                    uint64_t result = 0;
                    for (uint32_t n = 0; n < parts; ++n) {
                      result |= v[n] << (n * part.bits);
                    }
                    return {result};
                  });
    list = "%0";
    for (uint32_t n = 1; n < parts; ++n) list += fmt::format(", %{}", n);
    const auto unpacked = [&](const Values& v) {
      Values result;
      for (uint32_t n = 0; n < parts; ++n) {
        result.push_back(v[0] >> (n * part.bits) & part.ones());
      }
      return result;
    };
    ExpectOutputs({fmt::format("mov.{} {{{}}}, %{};", whole.name, list, parts),
                   std::string(parts, part.letter),
                   {whole.letter}},
                  RandomIntegers({whole.bits}, 300), unpacked);
    if (parts != 2) return;
    ExpectOutputs({fmt::format("mov.{} {{_, %0}}, %1;", whole.name),
                   {part.letter},
                   {whole.letter}},
                  RandomIntegers({whole.bits}, 100),
                  [&](const Values& v) -> Values { return {unpacked(v)[1]}; });
  };
  check(k64, k32);
  check(k64, k16);
  check(k32, k16);
}

TEST(BitsTest, ConstantsAreOperands) {
  ExpectOutputs({"mov.b16 %0, -2; mov.u32 %1, 0x80000000; mov.u64 %2, -1; "
                 "mov.f32 %3, 0f3fC00000; mov.f64 %4, 0d3ff8000000000000;",
                 "hwdwd", "w"},
                {{0}}, [](const Values&) -> Values {
                  return {0xfffe, 0x80000000, ~uint64_t{0}, 0x3fc00000,
                          0x3ff8000000000000};
                });
  ExpectOutputs({"sub.s32 %0, 7, %1;", "w", "w"}, IntegerCases({32}),
                [](const Values& v) -> Values {
                  return {static_cast<uint32_t>(7 - v[0])};
                });
  ExpectOutputs({"add.f64 %0, %1, 1.5;", "d", "d"}, {{0x3ff0000000000000}},
                [](const Values&) -> Values { return {0x4004000000000000}; });
}

}  // namespace
}  // namespace carillon::sim
