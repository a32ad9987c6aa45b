// Float arithmetic in every rounding, with and without .ftz and .sat, against
// IEEE 754 by integer arithmetic.
#include <gtest/gtest.h>

#include <cfenv>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"
#include "sim/exec/reference_float.h"

namespace carillon::sim {
namespace {

struct Direction {
  const char* name;
  Rounding rounding;
};
constexpr Direction kDirections[] = {{"rn", Rounding::kNearest},
                                     {"rz", Rounding::kZero},
                                     {"rm", Rounding::kDown},
                                     {"rp", Rounding::kUp}};

using Exact = uint64_t (*)(const FloatFormat&, const Values&, Rounding);
struct Operation {
  const char* name;
  size_t sources;
  bool saturates;
  Exact of;
};
constexpr Operation kOperations[] = {
    {"add", 2, true,
     [](const FloatFormat& f, const Values& v, Rounding r) {
       return ReferenceAdd(f, v[0], v[1], r);
     }},
    {"sub", 2, true,
     [](const FloatFormat& f, const Values& v, Rounding r) {
       return ReferenceAdd(f, v[0], v[1] ^ f.sign(), r);
     }},
    {"mul", 2, true,
     [](const FloatFormat& f, const Values& v, Rounding r) {
       return ReferenceMul(f, v[0], v[1], r);
     }},
    {"fma", 3, true,
     [](const FloatFormat& f, const Values& v, Rounding r) {
       return ReferenceFma(f, v[0], v[1], v[2], r);
     }},
    {"mad", 3, true,
     [](const FloatFormat& f, const Values& v, Rounding r) {
       return ReferenceFma(f, v[0], v[1], v[2], r);
     }},
    {"div", 2, false,
     [](const FloatFormat& f, const Values& v, Rounding r) {
       return ReferenceDiv(f, v[0], v[1], r);
     }},
    {"rcp", 1, false,
     [](const FloatFormat& f, const Values& v, Rounding r) {
       return ReferenceDiv(f, f.one(), v[0], r);
     }},
    {"sqrt", 1, false,
     [](const FloatFormat& f, const Values& v, Rounding r) {
       return ReferenceSqrt(f, v[0], r);
     }},
};

// Sums that nearly vanish, and halves between two floats.
std::vector<Values> Close(const FloatFormat& f, size_t sources) {
  std::vector<Values> cases;
  for (Values v : RandomIntegers({f.bits, f.bits, f.bits}, 400)) {
    const uint64_t product = ReferenceMul(f, v[0], v[1], Rounding::kNearest);
    if (sources == 3) {
      cases.push_back({v[0], v[1], product ^ f.sign()});
      cases.push_back({v[0], v[1], (product ^ f.sign()) + 1});
    } else if (sources == 2) {
      cases.push_back({v[0], (v[0] ^ f.sign()) + v[1] % 3});
      // Half of the last digit of 1 + x, and one more or less.
      const uint64_t step = f.one() - (uint64_t(f.digits) << (f.digits - 1));
      cases.push_back({f.one() + (v[0] & 7), step + v[1] % 3 - 1});
    } else {
      cases.push_back({v[0] & ~f.sign()});
    }
  }
  return cases;
}

void Check(const FloatFormat& f, char letter, const Operation& op,
           const std::string& modifiers, Rounding rounding, bool flush,
           bool saturate) {
  std::string text = fmt::format("{}.{}.f{} %0", op.name, modifiers, f.bits);
  for (size_t s = 1; s <= op.sources; ++s) text += fmt::format(", %{}", s);
  const auto in = [&](uint64_t x) { return flush ? f.Flushed(x) : x; };
  ExpectOutputs({text + ";", {letter}, std::string(op.sources, letter)},
                Joined(FloatCases(std::vector<uint32_t>(op.sources, f.bits)),
                       Close(f, op.sources)),
                [&](const Values& v) -> Values {
                  Values sources;
                  for (const uint64_t x : v) sources.push_back(in(x));
                  uint64_t result = op.of(f, sources, rounding);
                  if (f.IsNan(result)) result = f.NanOf(sources);
                  if (saturate) {
                    const bool positive =
                        (result & f.sign()) == 0 && !f.IsNan(result);
                    result = positive ? std::min(result, f.one()) : 0;
                  }
                  return {in(result)};
                });
}

class RoundedTest : public testing::TestWithParam<Operation> {};

TEST_P(RoundedTest, SinglesAreExactlyRounded) {
  for (const Direction& d : kDirections) {
    for (const bool flush : {false, true}) {
      for (const bool saturate : {false, true}) {
        if (saturate && !GetParam().saturates) continue;
        Check(kF32, 'w', GetParam(),
              fmt::format("{}{}{}", d.name, flush ? ".ftz" : "",
                          saturate ? ".sat" : ""),
              d.rounding, flush, saturate);
      }
    }
  }
}

TEST_P(RoundedTest, DoublesAreExactlyRounded) {
  for (const Direction& d : kDirections) {
    Check(kF64, 'd', GetParam(), d.name, d.rounding, false, false);
  }
  const std::string sources(GetParam().sources, 'd');
  for (const char* modifier : {"rn.sat", "rz.sat", "rz.ftz"}) {
    std::string text = fmt::format("{}.{}.f64 %0", GetParam().name, modifier);
    for (size_t s = 1; s <= sources.size(); ++s) {
      text += fmt::format(", %{}", s);
    }
    EXPECT_NE(Refusal({text + ";", "d", sources}), "") << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RoundedTest, testing::ValuesIn(kOperations),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// PTX ISA: without a rounding it is to nearest.
TEST(RoundingTest, IsToNearestIfNothingSaysOtherwise) {
  for (const Operation& op : kOperations) {
    if (op.sources != 2 || std::string_view(op.name) == "div") continue;
    ExpectOutputs({fmt::format("{}.f32 %0, %1, %2;", op.name), "w", "ww"},
                  FloatCases({32, 32}), [&](const Values& v) -> Values {
                    return {op.of(kF32, v, Rounding::kNearest)};
                  });
  }
}

TEST(RoundingTest, LeavesTheHostsAsItIs) {
  ASSERT_EQ(std::fegetround(), FE_TONEAREST);
  for (const char* name : {"rz", "rm", "rp"}) {
    Outputs({fmt::format("add.{}.f32 %0, %1, %2;", name), "w", "ww"},
            {{0x3f800000, 1}});
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  }
}

// The reference itself, on numbers known by heart.
TEST(ReferenceTest, KnowsAFewNumbers) {
  EXPECT_EQ(ReferenceAdd(kF32, 0x3f800000, 0x33800000, Rounding::kNearest),
            0x3f800000u);  // 1 + 2^-24: half, to even
  EXPECT_EQ(ReferenceAdd(kF32, 0x3f800000, 0x33800000, Rounding::kUp),
            0x3f800001u);
  EXPECT_EQ(ReferenceDiv(kF64, 0x3ff0000000000000, 0x4008000000000000,
                         Rounding::kNearest),
            0x3fd5555555555555u);  // 1/3
  EXPECT_EQ(ReferenceSqrt(kF64, 0x4000000000000000, Rounding::kNearest),
            0x3ff6a09e667f3bcdu);  // sqrt 2
  EXPECT_EQ(
      ReferenceConvert(kF16, kF64, 0x40effc0000000000, Rounding::kNearest),
      0x7bffu);  // 65504
  EXPECT_EQ(
      ReferenceConvert(kF16, kF64, 0x40effe0000000000, Rounding::kNearest),
      0x7c00u);  // 65520
  EXPECT_EQ(ReferenceMul(kF64, 1, 1, Rounding::kUp), 1u);
  EXPECT_EQ(ReferenceOfWhole(kF32, 16777217, Rounding::kNearest), 0x4b800000u);
}

}  // namespace
}  // namespace carillon::sim
