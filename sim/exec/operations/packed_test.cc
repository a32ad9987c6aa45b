// Two or four whole numbers in a register.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

int64_t PartOf(uint64_t word, uint32_t part, uint32_t bits, bool is_signed) {
  auto x = static_cast<int64_t>(word >> (part * bits) & ((1u << bits) - 1));
  if (is_signed && x >> (bits - 1) != 0) x -= int64_t{1} << bits;
  return x;
}
using OfParts = int64_t (*)(int64_t, int64_t);
uint64_t ForParts(uint32_t bits, uint64_t a, uint64_t b, bool signed_a,
                  bool signed_b,
                  const std::function<int64_t(int64_t, int64_t)>& f) {
  uint64_t result = 0;
  for (uint32_t part = 0; part < 32 / bits; ++part) {
    const int64_t x =
        f(PartOf(a, part, bits, signed_a), PartOf(b, part, bits, signed_b));
    result |= (static_cast<uint64_t>(x) & ((1u << bits) - 1)) << (part * bits);
  }
  return result;
}

// Words whose parts are at their edges.
std::vector<Values> Cases(uint32_t sources) {
  std::vector<Values> edges(
      sources, {0, 0x01020304, 0x7f80ff00, 0x80007fff, 0xffff0001, 0x7fff8000,
                0x80ff7f01, 0xffffffff});
  return Joined(Crossed(edges),
                RandomIntegers(std::vector<uint32_t>(sources, 32), 2000));
}

TEST(PackedTest, PairsOf16Bits) {
  const struct {
    const char* name;
    OfParts of;
  } kOperations[] = {
      {"add", [](int64_t a, int64_t b) { return a + b; }},
      {"min", [](int64_t a, int64_t b) { return std::min(a, b); }},
      {"max", [](int64_t a, int64_t b) { return std::max(a, b); }},
  };
  for (const auto& operation : kOperations) {
    for (const std::string_view type : {"u16x2", "s16x2", "relu.s16x2"}) {
      const bool relu = type[0] == 'r';
      if (relu && operation.name[0] == 'a') continue;
      const bool is_signed = type[0] != 'u';
      ExpectOutputs(
          {fmt::format("{}.{} %0, %1, %2;", operation.name, type), "w", "ww"},
          Cases(2), [&](const Values& v) -> Values {
            return {ForParts(16, v[0], v[1], is_signed, is_signed,
                             [&](int64_t a, int64_t b) {
                               const int64_t x = operation.of(a, b);
                               return relu ? std::max<int64_t>(x, 0) : x;
                             })};
          });
    }
  }
  for (const std::string_view name : {"min", "max"}) {
    ExpectOutputs({fmt::format("{}.s32.relu %0, %1, %2;", name), "w", "ww"},
                  IntegerCases({32, 32}), [&](const Values& v) -> Values {
                    const auto a = static_cast<int32_t>(v[0]);
                    const auto b = static_cast<int32_t>(v[1]);
                    const int32_t x =
                        name == "min" ? std::min(a, b) : std::max(a, b);
                    return {static_cast<uint32_t>(std::max(x, 0))};
                  });
  }
}

TEST(PackedTest, VideoInstructions) {
  const struct {
    const char* name;
    OfParts of;
  } kOperations[] = {
      {"vadd", [](int64_t a, int64_t b) { return a + b; }},
      {"vsub", [](int64_t a, int64_t b) { return a - b; }},
      {"vabsdiff", [](int64_t a, int64_t b) { return std::abs(a - b); }},
      {"vmin", [](int64_t a, int64_t b) { return std::min(a, b); }},
      {"vmax", [](int64_t a, int64_t b) { return std::max(a, b); }},
      {"vavrg",
       [](int64_t a, int64_t b) {
         const int64_t sum = a + b;
         return sum >= 0 ? (sum + 1) / 2 : -(-sum + 1) / 2;
       }},
  };
  for (const auto& operation : kOperations) {
    for (uint32_t form = 0; form < 32; ++form) {
      const bool is_signed = (form & 1) != 0;
      const bool signed_a = (form & 2) != 0;
      const bool signed_b = (form & 4) != 0;
      const bool saturate = (form & 8) != 0;
      const uint32_t bits = (form & 16) != 0 ? 8 : 16;
      const int64_t least = is_signed ? -(1 << (bits - 1)) : 0;
      const int64_t most = least + (1 << bits) - 1;
      const auto letter = [](bool sign) { return sign ? 's' : 'u'; };
      ExpectOutputs(
          {fmt::format("{}{}.{}32.{}32.{}32{} %0, %1, %2, %3;", operation.name,
                       32 / bits, letter(is_signed), letter(signed_a),
                       letter(signed_b), saturate ? ".sat" : ""),
           "w", "www"},
          Cases(3), [&](const Values& v) -> Values {
            return {ForParts(bits, v[0], v[1], signed_a, signed_b,
                             [&](int64_t a, int64_t b) {
                               const int64_t x = operation.of(a, b);
                               return saturate ? std::clamp(x, least, most) : x;
                             })};
          });
    }
  }
}

TEST(PackedTest, VideoInstructionsAddUp) {
  for (const uint32_t bits : {8u, 16u}) {
    for (const bool is_signed : {false, true}) {
      const char letter = is_signed ? 's' : 'u';
      const auto sum = [&](const Values& v, OfParts of) -> Values {
        uint64_t total = v[2];
        for (uint32_t part = 0; part < 32 / bits; ++part) {
          total +=
              static_cast<uint64_t>(of(PartOf(v[0], part, bits, is_signed),
                                       PartOf(v[1], part, bits, is_signed)));
        }
        return {total & 0xffffffff};
      };
      ExpectOutputs(
          {fmt::format("vabsdiff{0}.u32.{1}32.{1}32.add %0, %1, %2, %3;",
                       32 / bits, letter),
           "w", "www"},
          Cases(3), [&](const Values& v) {
            return sum(v, [](int64_t a, int64_t b) { return std::abs(a - b); });
          });
      ExpectOutputs(
          {fmt::format("vset{0}.{1}32.{1}32.lt.add %0, %1, %2, %3;", 32 / bits,
                       letter),
           "w", "www"},
          Cases(3), [&](const Values& v) {
            return sum(v, [](int64_t a, int64_t b) { return int64_t{a < b}; });
          });
    }
  }
  const struct {
    const char* name;
    OfParts of;
  } kCompares[] = {
      {"eq", [](int64_t a, int64_t b) { return int64_t{a == b}; }},
      {"ne", [](int64_t a, int64_t b) { return int64_t{a != b}; }},
      {"lt", [](int64_t a, int64_t b) { return int64_t{a < b}; }},
      {"le", [](int64_t a, int64_t b) { return int64_t{a <= b}; }},
      {"gt", [](int64_t a, int64_t b) { return int64_t{a > b}; }},
      {"ge", [](int64_t a, int64_t b) { return int64_t{a >= b}; }},
  };
  for (const auto& compare : kCompares) {
    ExpectOutputs(
        {fmt::format("vset4.s32.u32.{} %0, %1, %2, %3;", compare.name), "w",
         "www"},
        Cases(3), [&](const Values& v) -> Values {
          return {ForParts(8, v[0], v[1], true, false, compare.of)};
        });
  }
}

TEST(PackedTest, WhatPtxDoesNotHaveIsRefused) {
  for (const Form& form : std::vector<Form>{
           {"add.sat.s16x2 %0, %1, %2;", "w", "ww"},
           {"sub.s16x2 %0, %1, %2;", "w", "ww"},
           {"max.relu.u16x2 %0, %1, %2;", "w", "ww"},
           {"max.relu.s16 %0, %1, %2;", "h", "hh"},
           {"max.relu.u32 %0, %1, %2;", "w", "ww"},
           {"vadd4.u32.u32.u32.add %0, %1, %2, %3;", "w", "www"},
           {"vadd4.u32.u32 %0, %1, %2, %3;", "w", "www"},
           {"vset4.u32.u32 %0, %1, %2, %3;", "w", "www"},
           {"vset2.u32.u32.eq.sat %0, %1, %2, %3;", "w", "www"}}) {
    EXPECT_NE(Refusal(form), "") << form.text;
  }
}

}  // namespace
}  // namespace carillon::sim
