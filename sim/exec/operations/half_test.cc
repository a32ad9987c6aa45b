// f16 and bf16, alone and in pairs, against IEEE 754 by integer arithmetic.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"
#include "sim/exec/reference_float.h"

namespace carillon::sim {
namespace {

struct Kind {
  const char* name;
  FloatFormat format;
  bool modifiers;  // has .ftz and .sat
};
constexpr Kind kKinds[] = {{"f16", kF16, true}, {"bf16", kBf16, false}};

Values EdgesOf(const FloatFormat& f) {
  const uint64_t step = uint64_t{1} << (f.digits - 1);
  Values edges;
  for (const uint64_t x :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, step - 1, step, step + 1,
        f.one(), f.one() + 1, f.one() - 1, f.one() + step / 2,
        f.one() - f.digits * step, f.one() - (f.digits + 1) * step + 1,
        f.infinity() - 1, f.infinity() - step, f.infinity()}) {
    edges.push_back(x);
    edges.push_back(x | f.sign());
  }
  edges.push_back(f.infinity() | step / 2);
  edges.push_back(f.infinity() | f.sign() | 1);  // one that signals
  return edges;
}

// All combinations of the edges, random ones, and sums that nearly vanish or are
// nearly halfway between two neighbours.
std::vector<Values> CasesOf(const FloatFormat& f, size_t sources) {
  std::vector<Values> cases =
      Joined(Crossed(std::vector<Values>(sources, EdgesOf(f))),
             RandomIntegers(std::vector<uint32_t>(sources, 16), 3000));
  for (Values v : RandomIntegers({16, 16, 16}, 3000)) {
    const uint64_t product = ReferenceMul(f, v[0], v[1], Rounding::kNearest);
    if (sources == 2) cases.push_back({v[0], (v[0] ^ f.sign()) + v[1] % 3});
    if (sources == 3) {
      cases.push_back({v[0], v[1], (product ^ f.sign()) ^ v[2] % 4});
      // The product is halfway, and the rest far below decides.
      const uint64_t near_one = f.one() + v[0] % (uint64_t{1} << f.digits);
      cases.push_back({near_one, f.one() + (uint64_t{1} << (f.digits - 2)),
                       (v[2] & f.sign()) | (1 + v[1] % 64)});
    }
  }
  return cases;
}

uint64_t Saturated(const FloatFormat& f, uint64_t x) {
  if (f.IsNan(x) || (x & f.sign()) != 0) return 0;
  return std::min(x, f.one());
}
uint64_t Rectified(const FloatFormat& f, uint64_t x) {
  return !f.IsNan(x) && (x & f.sign()) != 0 ? 0 : x;
}

using OfValues = std::function<uint64_t(const Values&)>;
// Expects it of single values and, where the pair's two values are different
// cases, of both.
void ExpectAlike(const std::string& name, const Kind& kind, size_t sources,
                 const std::vector<Values>& cases, const OfValues& of,
                 const Same& same = {}) {
  std::string operands;
  for (size_t i = 0; i <= sources; ++i) {
    operands += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
  }
  const auto reference = [&](const Values& v) -> Values { return {of(v)}; };
  ExpectOutputs({fmt::format("{}.{} {};", name, kind.name, operands), "h",
                 std::string(sources, 'h')},
                cases, reference, same);
  std::vector<Values> pairs;
  for (size_t n = 0; n < cases.size(); ++n) {
    const Values& high = cases[(n * 7 + 1) % cases.size()];
    Values pair;
    for (size_t i = 0; i < sources; ++i) {
      pair.push_back(cases[n][i] | high[i] << 16);
    }
    pairs.push_back(std::move(pair));
  }
  const auto part = [&](const Values& pair, int which) {
    Values v;
    for (const uint64_t x : pair) v.push_back(x >> (16 * which) & 0xffff);
    return of(v);
  };
  ExpectOutputs(
      {fmt::format("{}.{}x2 {};", name, kind.name, operands), "w",
       std::string(sources, 'w')},
      pairs,
      [&](const Values& v) -> Values { return {part(v, 0) | part(v, 1) << 16}; },
      !same ? same : [&](uint64_t a, uint64_t b) {
        return same(a & 0xffff, b & 0xffff) && same(a >> 16, b >> 16);
      });
}

TEST(HalfTest, ArithmeticRoundsOnceToNearest) {
  using Exact = uint64_t (*)(const FloatFormat&, const Values&);
  const struct {
    const char* name;
    size_t sources;
    Exact of;
  } kOperations[] = {
      {"add", 2,
       [](const FloatFormat& f, const Values& v) {
         return ReferenceAdd(f, v[0], v[1], Rounding::kNearest);
       }},
      {"sub.rn", 2,
       [](const FloatFormat& f, const Values& v) {
         return ReferenceAdd(f, v[0], v[1] ^ f.sign(), Rounding::kNearest);
       }},
      {"mul", 2,
       [](const FloatFormat& f, const Values& v) {
         return ReferenceMul(f, v[0], v[1], Rounding::kNearest);
       }},
      {"fma.rn", 3,
       [](const FloatFormat& f, const Values& v) {
         return ReferenceFma(f, v[0], v[1], v[2], Rounding::kNearest);
       }},
  };
  for (const Kind& kind : kKinds) {
    const FloatFormat& f = kind.format;
    for (const auto& operation : kOperations) {
      const std::vector<Values> cases = CasesOf(f, operation.sources);
      for (const bool flush : {false, true}) {
        for (const std::string_view after : {"", ".sat", ".relu"}) {
          if (!kind.modifiers && (flush || after == ".sat")) continue;
          if (after == ".relu" && operation.sources != 3) continue;
          ExpectAlike(
              fmt::format("{}{}{}", operation.name, flush ? ".ftz" : "", after),
              kind, operation.sources, cases, [&](Values v) {
                if (flush) {
                  for (uint64_t& x : v) x = f.Flushed(x);
                }
                uint64_t x = operation.of(f, v);
                if (after == ".sat") x = Saturated(f, x);
                if (after == ".relu") x = Rectified(f, x);
                return flush ? f.Flushed(x) : x;
              });
        }
      }
    }
  }
}

// A number's rank in the total order, where -0 comes before +0.
int64_t Rank(const FloatFormat& f, uint64_t x) {
  const auto magnitude = static_cast<int64_t>(x & ~f.sign());
  return (x & f.sign()) != 0 ? -magnitude - 1 : magnitude;
}
uint64_t Extreme(const FloatFormat& f, uint64_t a, uint64_t b, bool least,
                 bool keep) {
  if (f.IsNan(a) && f.IsNan(b)) return f.nan();
  if (f.IsNan(a) || f.IsNan(b)) {
    return keep ? f.nan() : f.IsNan(a) ? b : a;
  }
  return (Rank(f, a) < Rank(f, b)) == least ? a : b;
}

TEST(HalfTest, MinimumAndMaximum) {
  for (const Kind& kind : kKinds) {
    const FloatFormat& f = kind.format;
    for (uint32_t bits = 0; bits < 16; ++bits) {
      const bool flush = (bits & 1) != 0;
      const bool keep = (bits & 2) != 0;
      const bool absolute = (bits & 4) != 0;
      const bool least = (bits & 8) != 0;
      if (flush && !kind.modifiers) continue;
      ExpectAlike(
          fmt::format("{}{}{}{}", least ? "min" : "max", flush ? ".ftz" : "",
                      keep ? ".NaN" : "", absolute ? ".xorsign.abs" : ""),
          kind, 2, CasesOf(f, 2), [&](Values v) {
            if (flush) v = {f.Flushed(v[0]), f.Flushed(v[1])};
            if (!absolute) return Extreme(f, v[0], v[1], least, keep);
            const uint64_t x =
                Extreme(f, v[0] & ~f.sign(), v[1] & ~f.sign(), least, keep);
            return f.IsNan(x) ? x : x | ((v[0] ^ v[1]) & f.sign());
          });
    }
  }
}

TEST(HalfTest, MinimumAndMaximumOfSinglesWithTheSignOfAProduct) {
  for (const bool keep : {false, true}) {
    for (const bool least : {false, true}) {
      ExpectOutputs(
          {fmt::format("{}{}.xorsign.abs.f32 %0, %1, %2;",
                       least ? "min" : "max", keep ? ".NaN" : ""),
           "w", "ww"},
          FloatCases({32, 32}), [&](const Values& v) -> Values {
            const uint64_t x = Extreme(kF32, v[0] & ~kF32.sign(),
                                       v[1] & ~kF32.sign(), least, keep);
            return {kF32.IsNan(x) ? kF32.nan()
                                  : x | ((v[0] ^ v[1]) & kF32.sign())};
          });
    }
  }
}

TEST(HalfTest, SignsAreBits) {
  for (const Kind& kind : kKinds) {
    const FloatFormat& f = kind.format;
    for (const bool flush : {false, true}) {
      if (flush && !kind.modifiers) continue;
      const auto in = [&](uint64_t x) { return flush ? f.Flushed(x) : x; };
      const char* const ftz = flush ? ".ftz" : "";
      ExpectAlike(fmt::format("abs{}", ftz), kind, 1, CasesOf(f, 1),
                  [&](const Values& v) { return in(v[0]) & ~f.sign(); });
      ExpectAlike(fmt::format("neg{}", ftz), kind, 1, CasesOf(f, 1),
                  [&](const Values& v) { return in(v[0]) ^ f.sign(); });
    }
  }
}

double ValueOf(const FloatFormat& f, uint64_t x) {
  return std::bit_cast<double>(
      ReferenceConvert(kF64, f, x, Rounding::kNearest));
}

// The PTX ISA allows 2^-9.9 and 2^-10.987 for f16, and 2^-7 and 2^-8 for bf16.
TEST(HalfTest, ApproximationsAreTheNearest) {
  const struct {
    const char* name;
    double (*of)(double);
  } kFunctions[] = {{"ex2.approx", [](double x) { return std::exp2(x); }},
                    {"tanh.approx", [](double x) { return std::tanh(x); }}};
  for (const Kind& kind : kKinds) {
    const FloatFormat& f = kind.format;
    std::vector<Values> cases;
    for (uint64_t x = 0; x < 0x10000; x += 7) cases.push_back({x});
    cases = Joined(cases, CasesOf(f, 1));
    for (const auto& function : kFunctions) {
      const bool flush = f.digits == 8 && function.name[0] == 'e';
      ExpectAlike(fmt::format("{}{}", function.name, flush ? ".ftz" : ""), kind,
                  1, cases, [&](const Values& v) {
                    const double x = ValueOf(f, flush ? f.Flushed(v[0]) : v[0]);
                    const uint64_t y = ReferenceConvert(
                        f, kF64, std::bit_cast<uint64_t>(function.of(x)),
                        Rounding::kNearest);
                    return flush ? f.Flushed(y) : y;
                  });
    }
  }
}

constexpr const char* kCompares[] = {"eq",  "ne",  "lt",  "le",  "gt",
                                     "ge",  "equ", "neu", "ltu", "leu",
                                     "gtu", "geu", "num", "nan"};
bool Holds(const FloatFormat& f, std::string_view compare, uint64_t a,
           uint64_t b) {
  const bool nan = f.IsNan(a) || f.IsNan(b);
  if (compare == "num") return !nan;
  if (compare == "nan") return nan;
  if (nan) return compare.size() == 3;
  const double x = ValueOf(f, a);
  const double y = ValueOf(f, b);
  const std::string_view base = compare.substr(0, 2);
  if (base == "eq") return x == y;
  if (base == "ne") return x != y;
  if (base == "lt") return x < y;
  if (base == "le") return x <= y;
  return base == "gt" ? x > y : x >= y;
}

TEST(HalfTest, Comparisons) {
  for (const Kind& kind : kKinds) {
    const FloatFormat& f = kind.format;
    std::vector<Values> pairs;
    for (const Values& v : Crossed({EdgesOf(f), EdgesOf(f)})) {
      const uint64_t other = EdgesOf(f)[v[1] % 17];
      pairs.push_back({v[0] | other << 16, v[1] | v[0] << 16, v[0] & 1});
    }
    for (const char* const compare : kCompares) {
      const std::string name = fmt::format("{}.{}", compare, kind.name);
      for (const bool flush : {false, true}) {
        if (flush && !kind.modifiers) continue;
        const std::string ftz = flush ? ".ftz" : "";
        const auto holds = [&](const Values& v, int which) {
          uint64_t a = v[0] >> (16 * which) & 0xffff;
          uint64_t b = v[1] >> (16 * which) & 0xffff;
          if (flush) a = f.Flushed(a), b = f.Flushed(b);
          return Holds(f, compare, a, b);
        };
        ExpectOutputs(
            {fmt::format("setp.{}{}.{} %0, %1, %2;", compare, ftz, kind.name),
             "p", "hh"},
            Crossed({EdgesOf(f), EdgesOf(f)}),
            [&](const Values& v) -> Values { return {holds(v, 0)}; });
        ExpectOutputs(
            {fmt::format("setp.{}.and{}.{}x2 %0|%1, %2, %3, !%4;", compare, ftz,
                         kind.name),
             "pp", "wwp"},
            pairs, [&](const Values& v) -> Values {
              return {holds(v, 0) && v[2] == 0, holds(v, 1) && v[2] == 0};
            });
        const auto set = [&](const Values& v, uint64_t yes) -> Values {
          return {(holds(v, 0) ? yes : 0) | (holds(v, 1) ? yes << 16 : 0)};
        };
        ExpectOutputs({fmt::format("set.{}{}.{}x2.{}x2 %0, %1, %2;", compare,
                                   ftz, kind.name, kind.name),
                       "w", "wwp"},
                      pairs, [&](const Values& v) { return set(v, f.one()); });
        ExpectOutputs({fmt::format("set.{}{}.u32.{}x2 %0, %1, %2;", compare,
                                   ftz, kind.name),
                       "w", "wwp"},
                      pairs, [&](const Values& v) { return set(v, 0xffff); });
        for (const auto& [type, letter, yes] :
             std::vector<std::tuple<std::string, std::string, uint64_t>>{
                 {kind.name, "h", f.one()},
                 {"u16", "h", 0xffff},
                 {"s32", "w", 0xffffffff}}) {
          ExpectOutputs({fmt::format("set.{}{}.{}.{} %0, %1, %2;", compare, ftz,
                                     type, kind.name),
                         letter, "hh"},
                        Crossed({EdgesOf(f), EdgesOf(f)}),
                        [&, yes = yes](const Values& v) -> Values {
                          return {holds(v, 0) ? yes : 0};
                        });
        }
      }
    }
  }
  ExpectOutputs({"set.lt.xor.f16.s32 %0, %1, %2, %3;", "h", "wwp"},
                IntegerCases({32, 32, 1}), [](const Values& v) -> Values {
                  const bool less =
                      static_cast<int32_t>(v[0]) < static_cast<int32_t>(v[1]);
                  return {less != (v[2] != 0) ? 0x3c00u : 0};
                });
}

constexpr Rounding kRoundings[] = {Rounding::kNearest, Rounding::kZero,
                                   Rounding::kDown, Rounding::kUp};
constexpr const char* kNames[] = {"rn", "rz", "rm", "rp"};

TEST(HalfTest, ConversionsOfFloatsRoundOnce) {
  for (const Kind& kind : kKinds) {
    const FloatFormat& f = kind.format;
    for (const FloatFormat& wide : {kF32, kF64}) {
      const std::string letter(1, wide.bits == 32 ? 'w' : 'd');
      std::vector<Values> cases = FloatCases({wide.bits}, 3000);
      // Halves between two neighbours, and one more or less.
      const uint64_t half = uint64_t{1} << (wide.digits - f.digits - 1);
      for (const Values& v : CasesOf(f, 1)) {
        const uint64_t x = ReferenceConvert(wide, f, v[0], Rounding::kNearest);
        for (const uint64_t step : {half - 1, half, half + 1}) {
          cases.push_back({x + step});
        }
      }
      for (size_t r = 0; r < 4; ++r) {
        const auto of = [&](uint64_t x) {
          return ReferenceConvert(f, wide, x, kRoundings[r]);
        };
        ExpectOutputs({fmt::format("cvt.{}.{}.f{} %0, %1;", kNames[r],
                                   kind.name, wide.bits),
                       "h", letter},
                      cases,
                      [&](const Values& v) -> Values { return {of(v[0])}; });
        if (wide.bits == 64) continue;
        ExpectOutputs(
            {fmt::format("cvt.{}.relu.{}.f32 %0, %1;", kNames[r], kind.name),
             "h", "w"},
            cases, [&](const Values& v) -> Values {
              return {Rectified(f, of(v[0]))};
            });
        if (r > 1) continue;
        std::vector<Values> two;
        for (size_t n = 0; n < cases.size(); ++n) {
          two.push_back({cases[n][0], cases[(n * 5 + 3) % cases.size()][0]});
        }
        ExpectOutputs(
            {fmt::format("cvt.{}.{}x2.f32 %0, %1, %2;", kNames[r], kind.name),
             "w", "ww"},
            two, [&](const Values& v) -> Values {
              return {of(v[1]) | of(v[0]) << 16};
            });
      }
      ExpectOutputs(
          {fmt::format("cvt.f{}.{} %0, %1;", wide.bits, kind.name), letter,
           "h"},
          CasesOf(f, 1), [&](const Values& v) -> Values {
            if (wide.bits == 64 && f.IsNan(v[0])) {
              return {std::bit_cast<uint64_t>(
                  static_cast<double>(std::bit_cast<float>(0x7fffffffu)))};
            }
            return {ReferenceConvert(wide, f, v[0], Rounding::kNearest)};
          });
    }
    const Kind& other = kKinds[f.digits == 11 ? 1 : 0];
    ExpectOutputs(
        {fmt::format("cvt.rn.{}.{} %0, %1;", kind.name, other.name), "h", "h"},
        CasesOf(other.format, 1), [&](const Values& v) -> Values {
          return {ReferenceConvert(f, other.format, v[0], Rounding::kNearest)};
        });
  }
  ExpectOutputs(
      {"cvt.rn.sat.f16.f32 %0, %1;", "h", "w"}, FloatCases({32}),
      [](const Values& v) -> Values {
        return {Saturated(
            kF16, ReferenceConvert(kF16, kF32, v[0], Rounding::kNearest))};
      });
}

TEST(HalfTest, ConversionsOfWholeNumbers) {
  for (const Kind& kind : kKinds) {
    const FloatFormat& f = kind.format;
    for (const uint32_t bits : {16u, 32u, 64u}) {
      for (const bool is_signed : {false, true}) {
        const std::string type =
            fmt::format("{}{}", is_signed ? 's' : 'u', bits);
        const std::string letter(1, bits == 16 ? 'h' : bits == 32 ? 'w' : 'd');
        const __int128 most = (__int128{1} << (bits - is_signed)) - 1;
        const __int128 least = is_signed ? -most - 1 : 0;
        std::vector<Values> cases = IntegerCases({bits}, 1000);
        // Numbers that a second rounding would take for halfway.
        for (uint32_t at = 12; at + 2 < bits; ++at) {
          const uint64_t top = uint64_t{0x181} << at >> 1;
          for (const uint64_t low : {0, 1}) cases.push_back({top | low});
        }
        for (Values& v : cases) {
          if (bits < 64) v[0] &= (uint64_t{1} << bits) - 1;
        }
        for (size_t r = 0; r < 4; ++r) {
          ExpectOutputs(
              {fmt::format("cvt.{}.{}.{} %0, %1;", kNames[r], kind.name, type),
               "h", letter},
              cases, [&](const Values& v) -> Values {
                __int128 value = v[0];
                if (is_signed && v[0] >> (bits - 1) != 0) {
                  value -= __int128{1} << bits;
                }
                return {ReferenceOfWhole(f, value, kRoundings[r])};
              });
          ExpectOutputs(
              {fmt::format("cvt.{}i.{}.{} %0, %1;", kNames[r], type, kind.name),
               letter, "h"},
              CasesOf(f, 1), [&](const Values& v) -> Values {
                if (f.IsNan(v[0])) {
                  return {bits == 64 ? uint64_t{1} << 63 : 0};
                }
                auto x = static_cast<uint64_t>(
                    ReferenceWhole(f, v[0], kRoundings[r], least, most));
                if (bits < 64) x &= (uint64_t{1} << bits) - 1;
                return {x};
              });
        }
      }
    }
    for (size_t r = 0; r < 4; ++r) {
      ExpectOutputs(
          {fmt::format("cvt.{0}i.{1}.{1} %0, %1;", kNames[r], kind.name), "h",
           "h"},
          CasesOf(f, 1), [&](const Values& v) -> Values {
            if (f.IsNan(v[0])) return {f.nan()};
            const uint64_t magnitude = v[0] & ~f.sign();
            if (magnitude >=
                f.one() + uint64_t(f.digits) * (1 << (f.digits - 1)))
              return {v[0]};
            const __int128 whole =
                ReferenceWhole(f, v[0], kRoundings[r], -100000, 100000);
            return {ReferenceOfWhole(f, whole, Rounding::kNearest) |
                    (v[0] & f.sign())};
          });
    }
  }
}

TEST(HalfTest, AtomicsAdd) {
  for (const Kind& kind : kKinds) {
    const FloatFormat& f = kind.format;
    const auto sum = [&](const Values& v, int which) {
      return ReferenceAdd(f, v[0] >> (16 * which) & 0xffff,
                          v[1] >> (16 * which) & 0xffff, Rounding::kNearest);
    };
    ExpectOutputs({fmt::format("st.global.b16 [%scratch], %2;\n"
                               "atom.global.add.noftz.{0} %1, [%scratch], %3;\n"
                               "ld.global.b16 %0, [%scratch];",
                               kind.name),
                   "hh", "hh"},
                  CasesOf(f, 2), [&](const Values& v) -> Values {
                    return {sum(v, 0), v[0]};
                  });
    std::vector<Values> pairs;
    for (const Values& v : CasesOf(f, 2)) {
      pairs.push_back({v[0] | v[1] << 16, v[1] | f.one() << 16});
    }
    ExpectOutputs({fmt::format("st.global.b32 [%scratch], %1;\n"
                               "red.add.noftz.{0}x2 [%scratch], %2;\n"
                               "ld.global.b32 %0, [%scratch];",
                               kind.name),
                   "w", "ww"},
                  pairs, [&](const Values& v) -> Values {
                    return {sum(v, 0) | sum(v, 1) << 16};
                  });
  }
}

TEST(HalfTest, WhatPtxDoesNotHaveIsRefused) {
  for (const Form& form : std::vector<Form>{
           {"add.rz.f16 %0, %1, %2;", "h", "hh"},
           {"add.sat.bf16 %0, %1, %2;", "h", "hh"},
           {"mul.ftz.bf16x2 %0, %1, %2;", "w", "ww"},
           {"fma.rn.sat.relu.f16 %0, %1, %1, %2;", "h", "hh"},
           {"fma.rn.relu.f32 %0, %1, %1, %2;", "w", "ww"},
           {"fma.rp.relu.f32 %0, %1, %1, %2;", "w", "ww"},
           {"min.xorsign.f16 %0, %1, %2;", "h", "hh"},
           {"min.xorsign.abs.f64 %0, %1, %2;", "d", "dd"},
           {"min.relu.f16 %0, %1, %2;", "h", "hh"},
           {"ex2.approx.ftz.f16 %0, %1;", "h", "h"},
           {"ex2.approx.bf16 %0, %1;", "h", "h"},
           {"div.rn.f16 %0, %1, %2;", "h", "hh"},
           {"setp.eq.ftz.bf16 %0, %1, %2;", "p", "hh"},
           {"set.eq.f16x2.f16 %0, %1, %2;", "w", "hh"},
           {"set.eq.f16.f16x2 %0, %1, %2;", "h", "ww"},
           {"set.eq.f32.bf16 %0, %1, %2;", "w", "hh"},
           {"cvt.rni.f16.f32 %0, %1;", "h", "w"},
           {"cvt.rn.satfinite.f16.f32 %0, %1;", "h", "w"},
           {"cvt.rp.f16x2.f32 %0, %1, %1;", "w", "w"},
           {"cvt.rn.relu.f32.f64 %0, %1;", "w", "d"},
           {"atom.global.add.f16 %0, [%in], %1;", "h", "h"},
           {"atom.global.min.noftz.f16x2 %0, [%in], %1;", "w", "w"},
           {"atom.global.add.noftz.f32 %0, [%in], %1;", "w", "w"}}) {
    EXPECT_NE(Refusal(form), "") << form.text;
  }
}

}  // namespace
}  // namespace carillon::sim
