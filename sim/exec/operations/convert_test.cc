// cvt: from every type to every type, through registers of every width.
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"
#include "sim/exec/reference_float.h"

namespace carillon::sim {
namespace {

using Int = __int128;

struct Whole {
  char kind;
  uint32_t bits;

  std::string name() const { return fmt::format("{}{}", kind, bits); }
  Int Least() const { return kind == 's' ? -(Int{1} << (bits - 1)) : 0; }
  Int Most() const { return (Int{1} << (kind == 's' ? bits - 1 : bits)) - 1; }
  // Reads the number in the lowest bits of a register.
  Int Of(uint64_t value) const {
    const Int low = bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
    return low > Most() ? low - (Int{1} << bits) : low;
  }
};
constexpr Whole kWholes[] = {{'u', 8},  {'s', 8},  {'u', 16}, {'s', 16},
                             {'u', 32}, {'s', 32}, {'u', 64}, {'s', 64}};

uint32_t BitsOf(char letter) {
  return letter == 'h' ? 16 : letter == 'w' ? 32 : 64;
}
// Names the registers that can hold the type.
std::string LettersOf(const Whole& type) {
  return type.bits <= 16 ? "hwd" : type.bits == 32 ? "wd" : "d";
}
// Gives the value as it stands in a register, which may be larger: with its
// sign extended.
uint64_t In(char letter, const Whole& type, Int value) {
  const uint64_t wide =
      static_cast<uint64_t>(type.Of(static_cast<uint64_t>(value)));
  return letter == 'd' ? wide : wide & ((uint64_t{1} << BitsOf(letter)) - 1);
}
Int Clamped(const Whole& type, Int value) {
  return value < type.Least()  ? type.Least()
         : value > type.Most() ? type.Most()
                               : value;
}

struct Direction {
  const char* name;
  const char* integral;
  Rounding rounding;
};
constexpr Direction kDirections[] = {{"rn", "rni", Rounding::kNearest},
                                     {"rz", "rzi", Rounding::kZero},
                                     {"rm", "rmi", Rounding::kDown},
                                     {"rp", "rpi", Rounding::kUp}};

char LetterOf(const FloatFormat& f) {
  return f.bits == 16 ? 'h' : f.bits == 32 ? 'w' : 'd';
}
// For f64, any NaN counts as the same.
Same SameIn(const FloatFormat& f) {
  return [f](uint64_t a, uint64_t b) {
    return a == b || (f.bits == 64 && f.IsNan(a) && f.IsNan(b));
  };
}
uint64_t Saturated(const FloatFormat& f, uint64_t x) {
  if (f.IsNan(x) || (x & f.sign()) != 0) return 0;
  return std::min(x, f.one());
}
// Floats that are whole, lie halfway between whole numbers, or lie next to the
// limits of whole types.
std::vector<Values> NearWholes(const FloatFormat& f) {
  std::vector<Values> cases = FloatCases({f.bits}, 2000);
  const auto add = [&](Int whole, int exponent) {
    const bool negative = whole < 0;
    const uint64_t x = RoundTo(
        f, negative, static_cast<unsigned __int128>(negative ? -whole : whole),
        exponent, false, Rounding::kNearest);
    for (const int step : {-1, 0, 1}) {
      const uint64_t near = x + static_cast<uint64_t>(Int{step});
      cases.push_back({f.bits == 32 ? near & 0xffffffff : near});
    }
  };
  for (Int quarter = -40; quarter <= 40; ++quarter) add(quarter, -2);
  for (const Whole& type : kWholes) {
    for (Int beyond = -6; beyond <= 6; ++beyond) {
      add(2 * type.Least() + beyond, -1);
      add(2 * type.Most() + beyond, -1);
    }
  }
  return cases;
}

TEST(ConvertTest, WholesToWholes) {
  for (const Whole& to : kWholes) {
    for (const Whole& from : kWholes) {
      for (const char r : LettersOf(to)) {
        for (const char s : LettersOf(from)) {
          for (const bool saturate : {false, true}) {
            ExpectOutputs(
                {fmt::format("cvt{}.{}.{} %0, %1;", saturate ? ".sat" : "",
                             to.name(), from.name()),
                 {r},
                 {s}},
                IntegerCases({BitsOf(s)}), [&](const Values& v) -> Values {
                  const Int value = from.Of(v[0]);
                  return {In(r, to, saturate ? Clamped(to, value) : value)};
                });
          }
        }
      }
    }
  }
}

TEST(ConvertTest, WholesToFloats) {
  for (const FloatFormat& to : {kF32, kF64}) {
    for (const Whole& from : kWholes) {
      for (const char s : LettersOf(from)) {
        // Values that lose digits: long rows of ones, and halves.
        std::vector<Values> cases = IntegerCases({BitsOf(s)}, 1000);
        for (uint32_t n = 0; n < BitsOf(s); ++n) {
          for (uint64_t low = 0; low < 4; ++low) {
            const uint64_t top = ~uint64_t{0} >> (64 - BitsOf(s));
            cases.push_back({(top >> n) - low});
            cases.push_back({((top >> n) - ((top >> n) >> 24) + low) & top});
            cases.push_back({((top >> n) - ((top >> n) >> 53) + low) & top});
          }
        }
        for (const Direction& d : kDirections) {
          for (const bool saturate : {false, true}) {
            ExpectOutputs(
                {fmt::format("cvt.{}{}.f{}.{} %0, %1;", d.name,
                             saturate ? ".sat" : "", to.bits, from.name()),
                 {LetterOf(to)},
                 {s}},
                cases, [&](const Values& v) -> Values {
                  const uint64_t result =
                      ReferenceOfWhole(to, from.Of(v[0]), d.rounding);
                  return {saturate ? Saturated(to, result) : result};
                });
          }
        }
      }
    }
  }
}

TEST(ConvertTest, FloatsToWholesSaturate) {
  for (const FloatFormat& from : {kF32, kF64}) {
    const std::vector<Values> cases = NearWholes(from);
    for (const Whole& to : kWholes) {
      for (const char r : LettersOf(to)) {
        for (const Direction& d : kDirections) {
          for (const char* modifier : {"", ".ftz", ".sat"}) {
            const bool flush = modifier == std::string_view(".ftz");
            if (flush && from.bits == 64) continue;
            ExpectOutputs({fmt::format("cvt.{}{}.{}.f{} %0, %1;", d.integral,
                                       modifier, to.name(), from.bits),
                           {r},
                           {LetterOf(from)}},
                          cases, [&](const Values& v) -> Values {
                            const uint64_t x =
                                flush ? from.Flushed(v[0]) : v[0];
                            return {In(r, to,
                                       ReferenceWhole(from, x, d.rounding,
                                                      to.Least(), to.Most()))};
                          });
          }
        }
      }
    }
  }
  EXPECT_NE(Refusal({"cvt.s32.f32 %0, %1;", "w", "w"}), "");
  EXPECT_NE(Refusal({"cvt.rni.s32.u32 %0, %1;", "w", "w"}), "");
}

TEST(ConvertTest, FloatsToIntegralFloats) {
  for (const FloatFormat& f : {kF32, kF64}) {
    for (const Direction& d : kDirections) {
      for (const bool flush : {false, true}) {
        if (flush && f.bits == 64) continue;
        ExpectOutputs(
            {fmt::format("cvt.{}{}.f{}.f{} %0, %1;", d.integral,
                         flush ? ".ftz" : "", f.bits, f.bits),
             {LetterOf(f)},
             {LetterOf(f)}},
            NearWholes(f),
            [&](const Values& v) -> Values {
              const uint64_t x = flush ? f.Flushed(v[0]) : v[0];
              const Unpacked number = Unpack(x, f);
              // Large numbers, infinities and NaNs stay as they are.
              if (f.IsNan(x)) return {f.nan()};
              if (number.exponent >= 0) return {x};
              const Int whole = ReferenceWhole(f, x, d.rounding,
                                               -(Int{1} << 70), Int{1} << 70);
              return {(x & f.sign()) |
                      ReferenceOfWhole(f, whole < 0 ? -whole : whole,
                                       Rounding::kNearest)};
            },
            SameIn(f));
      }
    }
  }
}

TEST(ConvertTest, FloatsToFloats) {
  const struct {
    const FloatFormat& to;
    const FloatFormat& from;
  } kPairs[] = {{kF32, kF32}, {kF64, kF64}, {kF64, kF32}, {kF32, kF64}};
  for (const auto& [to, from] : kPairs) {
    std::vector<Values> cases = FloatCases({from.bits}, 4000);
    if (from.bits == 64 && to.bits == 32) {
      // Around every kind of f32, halves included.
      for (const Values& v : FloatCases({32}, 2000)) {
        const uint64_t x =
            ReferenceConvert(kF64, kF32, v[0], Rounding::kNearest);
        for (const uint64_t more :
             {uint64_t{1}, uint64_t{1} << 28, (uint64_t{1} << 28) + 1,
              (uint64_t{1} << 28) - 1, 0 - uint64_t{1}}) {
          cases.push_back({x});
          cases.push_back({x + more});
        }
      }
    }
    for (const Direction& d : kDirections) {
      const bool narrows = to.bits < from.bits;
      if (!narrows && d.rounding != Rounding::kNearest) continue;
      for (const char* modifier : {"", ".ftz", ".sat", ".ftz.sat"}) {
        const std::string_view text = modifier;
        const bool flush = text.starts_with(".ftz");
        const bool saturate = text.ends_with(".sat");
        if (flush && to.bits == 64 && from.bits == 64) continue;
        ExpectOutputs(
            {fmt::format("cvt{}{}{}.f{}.f{} %0, %1;", narrows ? "." : "",
                         narrows ? d.name : "", modifier, to.bits, from.bits),
             {LetterOf(to)},
             {LetterOf(from)}},
            cases,
            [&](const Values& v) -> Values {
              const uint64_t x =
                  flush && from.bits == 32 ? from.Flushed(v[0]) : v[0];
              uint64_t result = ReferenceConvert(to, from, x, d.rounding);
              if (saturate) result = Saturated(to, result);
              return {flush && to.bits == 32 ? to.Flushed(result) : result};
            },
            SameIn(to));
      }
    }
  }
}

TEST(ConvertTest, All65536HalvesBecomeFloatsAndComeBack) {
  std::vector<Values> halves;
  for (uint64_t h = 0; h < 0x10000; ++h) halves.push_back({h});
  for (const FloatFormat& wide : {kF32, kF64}) {
    ExpectOutputs(
        {fmt::format("cvt.f{}.f16 %0, %1;", wide.bits), {LetterOf(wide)}, "h"},
        halves,
        [&](const Values& v) -> Values {
          return {ReferenceConvert(wide, kF16, v[0], Rounding::kNearest)};
        },
        SameIn(wide));
    // Each half, its neighbours, and what lies halfway to the next one.
    std::vector<Values> cases = FloatCases({wide.bits}, 2000);
    const uint64_t half = uint64_t{1} << (wide.digits - kF16.digits - 1);
    for (const Values& h : halves) {
      const uint64_t x = ReferenceConvert(wide, kF16, h[0], Rounding::kNearest);
      for (const uint64_t y :
           {x, x + 1, x + half - 1, x + half, x + half + 1}) {
        cases.push_back({y & (wide.sign() | (wide.sign() - 1))});
      }
    }
    for (const Direction& d : kDirections) {
      ExpectOutputs({fmt::format("cvt.{}.f16.f{} %0, %1;", d.name, wide.bits),
                     "h",
                     {LetterOf(wide)}},
                    cases, [&](const Values& v) -> Values {
                      return {ReferenceConvert(kF16, wide, v[0], d.rounding)};
                    });
    }
  }
}

// Registers of 8 bits hold what is converted, and go to memory in pairs.
TEST(ConvertTest, RegistersOf8Bits) {
  ExpectOutputs({"{ .reg .b8 low, high; cvt.rzi.s8.f32 low, %2;\n"
                 "cvt.u8.u32 high, %3; mov.b16 %0, {low, high};\n"
                 "cvt.s32.s8 %1, low; }",
                 "hw", "ww"},
                Crossed({FloatEdges(32), IntegerEdges(32)}),
                [](const Values& v) -> Values {
                  const auto low = static_cast<int8_t>(
                      ReferenceWhole(kF32, v[0], Rounding::kZero, -128, 127));
                  return {static_cast<uint8_t>(low) | (v[1] & 0xff) << 8,
                          static_cast<uint32_t>(int32_t{low})};
                });
  ExpectOutputs({"{ .reg .b8 low, high; mov.b16 {low, high}, %2;\n"
                 "cvt.u32.u8 %0, low; cvt.s32.s8 %1, high; }",
                 "ww", "h"},
                IntegerCases({16}), [](const Values& v) -> Values {
                  return {v[0] & 0xff, static_cast<uint32_t>(
                                           static_cast<int8_t>(v[0] >> 8))};
                });
}

}  // namespace
}  // namespace carillon::sim
