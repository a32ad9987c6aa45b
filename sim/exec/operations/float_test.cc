// What rounded_test.cc does not check by exact arithmetic: operations on bits,
// and the approximate functions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"
#include "sim/exec/reference_float.h"

namespace carillon::sim {
namespace {

char LetterOf(const FloatFormat& f) { return f.bits == 32 ? 'w' : 'd'; }
// A number's rank in the total order, where -0 comes before +0.
int64_t Rank(const FloatFormat& f, uint64_t x) {
  const auto magnitude = static_cast<int64_t>(x & ~f.sign());
  return (x & f.sign()) != 0 ? -magnitude - 1 : magnitude;
}

TEST(FloatTest, OfANumberAndANanMinimumAndMaximumAreTheNumber) {
  for (const FloatFormat& f : {kF32, kF64}) {
    for (const bool flush : {false, true}) {
      for (const bool keep : {false, true}) {
        for (const bool least : {false, true}) {
          if (f.bits == 64 && (flush || keep)) continue;
          ExpectOutputs(
              {fmt::format("{}{}{}.f{} %0, %1, %2;", least ? "min" : "max",
                           flush ? ".ftz" : "", keep ? ".NaN" : "", f.bits),
               {LetterOf(f)},
               std::string(2, LetterOf(f))},
              FloatCases({f.bits, f.bits}), [&](const Values& v) -> Values {
                const uint64_t a = flush ? f.Flushed(v[0]) : v[0];
                const uint64_t b = flush ? f.Flushed(v[1]) : v[1];
                const bool one = f.IsNan(a) || f.IsNan(b);
                const bool both = f.IsNan(a) && f.IsNan(b);
                if (keep ? one : both) return {f.NanOf(v)};
                if (one) return {f.IsNan(a) ? b : a};
                return {(Rank(f, a) < Rank(f, b)) == least ? a : b};
              });
        }
      }
    }
  }
}

TEST(FloatTest, SignsAreBits) {
  for (const FloatFormat& f : {kF32, kF64}) {
    const std::string one(1, LetterOf(f));
    // PTX leaves open what becomes of a NaN's bits.
    const Same same = [&](uint64_t a, uint64_t b) {
      return a == b || (f.IsNan(a) && f.IsNan(b));
    };
    for (const bool flush : {false, true}) {
      if (flush && f.bits == 64) continue;
      const auto in = [&](uint64_t x) { return flush ? f.Flushed(x) : x; };
      const char* const ftz = flush ? ".ftz" : "";
      ExpectOutputs(
          {fmt::format("abs{}.f{} %0, %1;", ftz, f.bits), one, one},
          FloatCases({f.bits}),
          [&](const Values& v) -> Values { return {in(v[0]) & ~f.sign()}; },
          same);
      ExpectOutputs(
          {fmt::format("neg{}.f{} %0, %1;", ftz, f.bits), one, one},
          FloatCases({f.bits}),
          [&](const Values& v) -> Values { return {in(v[0]) ^ f.sign()}; },
          same);
    }
    ExpectOutputs(
        {fmt::format("copysign.f{} %0, %1, %2;", f.bits), one, one + one},
        FloatCases({f.bits, f.bits}),
        [&](const Values& v) -> Values {
          return {(v[0] & f.sign()) | (v[1] & ~f.sign())};
        },
        same);
  }
}

// PTX ISA, testp: zeros count as normal.
TEST(FloatTest, Properties) {
  for (const FloatFormat& f : {kF32, kF64}) {
    const struct {
      const char* name;
      std::function<bool(uint64_t)> holds;
    } kProperties[] = {
        {"finite", [&](uint64_t m) { return m < f.infinity(); }},
        {"infinite", [&](uint64_t m) { return m == f.infinity(); }},
        {"number", [&](uint64_t m) { return m <= f.infinity(); }},
        {"notanumber", [&](uint64_t m) { return m > f.infinity(); }},
        {"normal",
         [&](uint64_t m) { return m < f.infinity() && !f.IsSubnormal(m); }},
        {"subnormal", [&](uint64_t m) { return f.IsSubnormal(m); }}};
    for (const auto& property : kProperties) {
      ExpectOutputs({fmt::format("testp.{}.f{} %0, %1;", property.name, f.bits),
                     "p",
                     {LetterOf(f)}},
                    FloatCases({f.bits}), [&](const Values& v) -> Values {
                      return {property.holds(v[0] & ~f.sign())};
                    });
    }
  }
}

// --- Approximations.

float Single(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

struct Function {
  const char* name;
  size_t sources;
  long double (*of)(long double, long double);
  // Units in the last place. The PTX ISA's own bounds are wider.
  double bound;
  bool flush = true;  // has .ftz
};
constexpr Function kFunctions[] = {
    {"rcp", 1, [](long double a, long double) { return 1 / a; }, 0.5001},
    {"sqrt", 1, [](long double a, long double) { return std::sqrt(a); },
     0.5001},
    {"rsqrt", 1, [](long double a, long double) { return 1 / std::sqrt(a); },
     0.5001},
    {"sin", 1, [](long double a, long double) { return std::sin(a); }, 1},
    {"cos", 1, [](long double a, long double) { return std::cos(a); }, 1},
    {"lg2", 1, [](long double a, long double) { return std::log2(a); }, 1},
    {"ex2", 1, [](long double a, long double) { return std::exp2(a); }, 1},
    {"tanh", 1, [](long double a, long double) { return std::tanh(a); }, 2,
     false},
    {"div", 2, [](long double a, long double b) { return a / b; }, 0.5001},
};

std::vector<Values> Domain(size_t sources) {
  std::vector<Values> cases = FloatCases(std::vector<uint32_t>(sources, 32));
  // Numbers of everyday size, of both signs.
  for (uint64_t i = 0; i < 4096; ++i) {
    const auto x = static_cast<float>((static_cast<double>(i) - 2048) / 37.3);
    Values v(sources, std::bit_cast<uint32_t>(x));
    if (sources == 2) v[1] = 0x3f000000 + i * 7919;
    cases.push_back(v);
  }
  return cases;
}

void CheckApproximation(const Function& function, const std::string& name,
                        bool flush) {
  const std::string sources(function.sources, 'w');
  const std::vector<Values> cases = Domain(function.sources);
  const std::vector<Values> outputs =
      Outputs({fmt::format("{}{}.f32 %0, %1{};", name, flush ? ".ftz" : "",
                           function.sources == 2 ? ", %2" : ""),
               "w", sources},
              cases);
  double worst = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    Values v = cases[i];
    for (uint64_t& x : v) x = flush ? kF32.Flushed(x) : x;
    const long double exact =
        function.of(Single(v[0]), Single(v[function.sources - 1]));
    const uint64_t actual = outputs[i][0];
    const auto nearest = static_cast<float>(exact);
    const std::string what = fmt::format("{} of {:#x}", name, cases[i][0]);
    if (nearest != nearest) {
      ASSERT_EQ(actual, kF32.nan()) << what;
      continue;
    }
    uint64_t expected = std::bit_cast<uint32_t>(nearest);
    if (flush) expected = kF32.Flushed(expected);
    // Zeros and infinities must be exact, with their sign.
    if ((expected & 0x7fffffff) == 0 || std::isinf(nearest)) {
      if (flush && actual == (expected | 0x00800000)) continue;  // at the edge
      ASSERT_EQ(actual, expected) << what;
      continue;
    }
    int exponent = 0;
    std::frexp(nearest, &exponent);
    const long double ulp = std::ldexp(1.0L, std::max(exponent - 24, -149));
    const auto error = static_cast<double>(
        std::fabs(static_cast<long double>(Single(actual)) - exact) / ulp);
    ASSERT_LE(error, function.bound) << what;
    worst = std::max(worst, error);
  }
  std::printf("%s%s: within %.4f units in the last place\n", name.c_str(),
              flush ? ".ftz" : "", worst);
}

TEST(FloatTest, ApproximationsAreWithinTheirBounds) {
  for (const Function& function : kFunctions) {
    for (const bool flush : {false, true}) {
      if (flush && !function.flush) continue;
      CheckApproximation(function, fmt::format("{}.approx", function.name),
                         flush);
    }
  }
  CheckApproximation(kFunctions[8], "div.full", false);
  CheckApproximation(kFunctions[8], "div.full", true);
}

// PTX ISA, the tables of these functions' special values.
TEST(FloatTest, ApproximationsKnowTheirSpecialValues) {
  const uint64_t inf = 0x7f800000, minus_inf = 0xff800000, nan = 0x7fffffff;
  const uint64_t minus_zero = 0x80000000, one = 0x3f800000;
  const struct {
    const char* name;
    uint64_t from, to;
  } kValues[] = {
      {"rcp", 0, inf},
      {"rcp", minus_zero, minus_inf},
      {"rcp", inf, 0},
      {"rcp", minus_inf, minus_zero},
      {"sqrt", minus_zero, minus_zero},
      {"sqrt", minus_inf, nan},
      {"rsqrt", minus_zero, minus_inf},
      {"rsqrt", 0, inf},
      {"rsqrt", inf, 0},
      {"rsqrt", 0xbf800000, nan},
      {"sin", minus_zero, minus_zero},
      {"sin", inf, nan},
      {"cos", minus_zero, one},
      {"cos", minus_inf, nan},
      {"lg2", 0, minus_inf},
      {"lg2", minus_zero, minus_inf},
      {"lg2", minus_inf, nan},
      {"lg2", inf, inf},
      {"lg2", one, 0},
      {"ex2", minus_inf, 0},
      {"ex2", inf, inf},
      {"ex2", minus_zero, one},
      {"tanh", minus_inf, 0xbf800000},
      {"tanh", minus_zero, minus_zero},
  };
  for (const auto& value : kValues) {
    const auto outputs =
        Outputs({fmt::format("{}.approx.f32 %0, %1;", value.name), "w", "w"},
                {{value.from}, {nan}});
    EXPECT_EQ(outputs[0][0], value.to) << value.name << " " << value.from;
    EXPECT_EQ(outputs[1][0], nan) << value.name;
  }
}

TEST(FloatTest, ReciprocalSquareRootsOfDoubles) {
  const std::vector<Values> cases = FloatCases({64}, 3000);
  const auto outputs = Outputs({"rsqrt.approx.f64 %0, %1;", "d", "d"}, cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto x = std::bit_cast<double>(cases[i][0]);
    const auto y = std::bit_cast<double>(outputs[i][0]);
    const long double exact = 1 / std::sqrt(static_cast<long double>(x));
    if (exact != exact || std::isinf(exact) || exact == 0) {
      ASSERT_TRUE(exact == y || (exact != exact && y != y)) << x;
      ASSERT_EQ(std::signbit(y) && y == y, std::signbit(exact) && y == y) << x;
    } else {
      ASSERT_LE(std::fabs(y - exact) / exact, 0x1p-51L) << x;
    }
  }
}

// PTX ISA, rcp.approx.ftz.f64: of the upper 32 bits, and only these.
TEST(FloatTest, GrossReciprocalsOfDoubles) {
  const std::vector<Values> cases = FloatCases({64}, 3000);
  const auto outputs = Outputs({"rcp.approx.ftz.f64 %0, %1;", "d", "d"}, cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    const uint64_t from =
        kF64.Flushed(cases[i][0] & 0xffffffff00000000) & 0xffffffff00000000;
    const uint64_t exact =
        kF64.Flushed(ReferenceDiv(kF64, kF64.one(), from, Rounding::kNearest));
    const uint64_t actual = outputs[i][0];
    if (kF64.IsNan(exact)) {
      ASSERT_TRUE(kF64.IsNan(actual)) << std::hex << cases[i][0];
      continue;
    }
    ASSERT_EQ(actual & 0xffffffff, 0u);
    ASSERT_EQ(actual >> 63, exact >> 63);
    // In the last of 20 digits.
    ASSERT_LE(exact - actual, uint64_t{1} << 32) << std::hex << cases[i][0];
  }
}

}  // namespace
}  // namespace carillon::sim
