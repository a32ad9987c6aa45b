// Whole numbers, against 128-bit arithmetic.
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

using Int = __int128;

struct Type {
  const char* name;
  uint32_t bits;
  bool is_signed;

  char letter() const { return bits == 16 ? 'h' : bits == 32 ? 'w' : 'd'; }
  // What bits mean.
  Int Of(uint64_t value) const {
    const Int number = bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
    return is_signed && number >> (bits - 1) != 0 ? number - (Int{1} << bits)
                                                  : number;
  }
  uint64_t Wrap(Int value) const {
    const auto low = static_cast<uint64_t>(value);
    return bits == 64 ? low : low & ((uint64_t{1} << bits) - 1);
  }
  Int Least() const { return is_signed ? -(Int{1} << (bits - 1)) : 0; }
  Int Most() const { return (Int{1} << (is_signed ? bits - 1 : bits)) - 1; }
};
constexpr Type kTypes[] = {{"u16", 16, false}, {"s16", 16, true},
                           {"u32", 32, false}, {"s32", 32, true},
                           {"u64", 64, false}, {"s64", 64, true}};

// name.type of one to three sources of the type.
template <class F>
void Expect(const std::string& name, const Type& type, F f) {
  const size_t sources = std::is_invocable_v<F, Int>        ? 1
                         : std::is_invocable_v<F, Int, Int> ? 2
                                                            : 3;
  std::string text = fmt::format("{}.{} %0, %1", name, type.name);
  for (size_t s = 1; s < sources; ++s) text += fmt::format(", %{}", s + 1);
  ExpectOutputs(
      {text + ";", {type.letter()}, std::string(sources, type.letter())},
      IntegerCases(std::vector<uint32_t>(sources, type.bits)),
      [&](const Values& v) -> Values {
        if constexpr (std::is_invocable_v<F, Int>) {
          return {type.Wrap(f(type.Of(v[0])))};
        } else if constexpr (std::is_invocable_v<F, Int, Int>) {
          return {type.Wrap(f(type.Of(v[0]), type.Of(v[1])))};
        } else {
          return {type.Wrap(f(type.Of(v[0]), type.Of(v[1]), type.Of(v[2])))};
        }
      });
}

// A product of 64-bit numbers wraps at 128 bits, so the shift must be of the
// type's own signedness.
Int High(const Type& type, Int product) {
  return type.is_signed
             ? product >> type.bits
             : static_cast<Int>(static_cast<unsigned __int128>(product) >>
                                type.bits);
}

TEST(IntegerTest, SumsAndDifferences) {
  for (const Type& t : kTypes) {
    Expect("add", t, [](Int a, Int b) { return a + b; });
    Expect("sub", t, [](Int a, Int b) { return a - b; });
  }
}

TEST(IntegerTest, SaturatedSumsStayWithinTheType) {
  const Type& t = kTypes[3];
  const auto clamped = [&](Int x) {
    return x < t.Least() ? t.Least() : x > t.Most() ? t.Most() : x;
  };
  Expect("add.sat", t, [&](Int a, Int b) { return clamped(a + b); });
  Expect("sub.sat", t, [&](Int a, Int b) { return clamped(a - b); });
  for (const Type& other : kTypes) {
    if (std::string_view(other.name) == "s32") continue;
    EXPECT_NE(Refusal({fmt::format("add.sat.{} %0, %1, %2;", other.name),
                       {other.letter()},
                       std::string(2, other.letter())}),
              "");
  }
}

TEST(IntegerTest, Products) {
  for (const Type& t : kTypes) {
    Expect("mul.lo", t, [](Int a, Int b) {
      return static_cast<Int>(static_cast<unsigned __int128>(a) *
                              static_cast<unsigned __int128>(b));
    });
    const auto high = [&](Int a, Int b) {
      return High(t, static_cast<Int>(static_cast<unsigned __int128>(a) *
                                      static_cast<unsigned __int128>(b)));
    };
    Expect("mul.hi", t, high);
    Expect("mad.lo", t, [](Int a, Int b, Int c) {
      return static_cast<Int>(static_cast<unsigned __int128>(a) *
                                  static_cast<unsigned __int128>(b) +
                              static_cast<unsigned __int128>(c));
    });
    Expect("mad.hi", t, [&](Int a, Int b, Int c) { return high(a, b) + c; });
  }
}

TEST(IntegerTest, WideProductsHaveTwiceTheBits) {
  for (const Type& t : kTypes) {
    if (t.bits == 64) {
      EXPECT_NE(
          Refusal({fmt::format("mul.wide.{} %0, %1, %2;", t.name), "d", "dd"}),
          "");
      continue;
    }
    const Type wide{"", 2 * t.bits, t.is_signed};
    const std::string two(2, t.letter());
    ExpectOutputs(
        {fmt::format("mul.wide.{} %0, %1, %2;", t.name), {wide.letter()}, two},
        IntegerCases({t.bits, t.bits}), [&](const Values& v) -> Values {
          return {wide.Wrap(t.Of(v[0]) * t.Of(v[1]))};
        });
    ExpectOutputs({fmt::format("mad.wide.{} %0, %1, %2, %3;", t.name),
                   {wide.letter()},
                   two + wide.letter()},
                  IntegerCases({t.bits, t.bits, wide.bits}),
                  [&](const Values& v) -> Values {
                    return {wide.Wrap(t.Of(v[0]) * t.Of(v[1]) + wide.Of(v[2]))};
                  });
  }
}

TEST(IntegerTest, ProductsOf24Bits) {
  for (const Type& t : {kTypes[2], kTypes[3]}) {
    const Type low{"", 24, t.is_signed};
    const auto product = [low](Int a, Int b) {
      return low.Of(low.Wrap(a)) * low.Of(low.Wrap(b));
    };
    Expect("mul24.lo", t, product);
    Expect("mul24.hi", t, [=](Int a, Int b) { return product(a, b) >> 16; });
    Expect("mad24.lo", t,
           [=](Int a, Int b, Int c) { return product(a, b) + c; });
    Expect("mad24.hi", t,
           [=](Int a, Int b, Int c) { return (product(a, b) >> 16) + c; });
  }
}

TEST(IntegerTest, QuotientsOfZeroAreAllOnes) {
  for (const Type& t : kTypes) {
    Expect("div", t, [](Int a, Int b) { return b == 0 ? Int{-1} : a / b; });
    Expect("rem", t, [](Int a, Int b) { return b == 0 ? a : a % b; });
  }
}

TEST(IntegerTest, OrderAndDistance) {
  for (const Type& t : kTypes) {
    Expect("min", t, [](Int a, Int b) { return a < b ? a : b; });
    Expect("max", t, [](Int a, Int b) { return a > b ? a : b; });
    Expect("sad", t,
           [](Int a, Int b, Int c) { return (a < b ? b - a : a - b) + c; });
    if (t.is_signed) {
      Expect("abs", t, [](Int a) { return a < 0 ? -a : a; });
      Expect("neg", t, [](Int a) { return -a; });
    } else {
      EXPECT_NE(Refusal({fmt::format("neg.{} %0, %1;", t.name),
                         {t.letter()},
                         {t.letter()}}),
                "");
    }
  }
}

TEST(IntegerTest, DotProductsOfParts) {
  const std::vector<Values> cases = Joined(
      Crossed({{0, 0x80ff7f01, 0xffffffff, 0x80808080, 0x8000ffff, 0x7fff0001},
               {0, 0x80ff7f01, 0xffffffff, 0x80808080, 0x7f7f7f7f},
               {0, 1, 0x7fffffff, 0xffffffff}}),
      RandomIntegers({32, 32, 32}, 1000));
  const auto part = [](uint64_t word, uint32_t from, uint32_t bits, bool sign) {
    const auto value = static_cast<int64_t>(word >> from & ((1u << bits) - 1));
    return sign && value >> (bits - 1) != 0 ? value - (1 << bits) : value;
  };
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const std::string types = fmt::format(".{}32.{}32 %0, %1, %2, %3;",
                                            a ? 's' : 'u', b ? 's' : 'u');
      ExpectOutputs({"dp4a" + types, "w", "www"}, cases,
                    [&](const Values& v) -> Values {
                      auto sum = static_cast<int64_t>(v[2]);
                      for (uint32_t at = 0; at < 32; at += 8) {
                        sum += part(v[0], at, 8, a) * part(v[1], at, 8, b);
                      }
                      return {static_cast<uint32_t>(sum)};
                    });
      for (const uint32_t first : {0, 16}) {
        ExpectOutputs(
            {(first == 0 ? "dp2a.lo" : "dp2a.hi") + types, "w", "www"}, cases,
            [&](const Values& v) -> Values {
              return {static_cast<uint32_t>(
                  static_cast<int64_t>(v[2]) +
                  part(v[0], 0, 16, a) * part(v[1], first, 8, b) +
                  part(v[0], 16, 16, a) * part(v[1], first + 8, 8, b))};
            });
      }
    }
  }
  EXPECT_NE(Refusal({"dp4a.u32.u64 %0, %1, %2, %3;", "w", "www"}), "");
  EXPECT_NE(Refusal({"dp2a.u32.u32 %0, %1, %2, %3;", "w", "www"}), "");
}

// Operations with four sources are tested with fewer edge values.
std::vector<Values> QuadrupleCases(const Type& t) {
  const Values edges = {0, 1, t.Wrap(-1), t.Wrap(-2), t.Wrap(t.Most())};
  return Joined(Crossed({edges, edges, edges, edges}),
                RandomIntegers({t.bits, t.bits, t.bits, t.bits}, 1000));
}

// A chain over two registers computes one number of twice the bits.
TEST(IntegerTest, CarriesLinkSumsOfTwoRegisters) {
  for (const Type& t : {kTypes[2], kTypes[3], kTypes[4], kTypes[5]}) {
    const char letter = t.letter();
    const Type half{"", t.bits, false};
    const auto whole = [&](uint64_t low, uint64_t high) {
      return static_cast<unsigned __int128>(high) << t.bits | low;
    };
    const std::vector<Values> cases = QuadrupleCases(t);
    for (const std::string op : {"add", "sub"}) {
      // The last word says whether there was a carry, or a borrow, at the top.
      ExpectOutputs(
          {fmt::format("{0}.cc.{1} %0, %3, %5; {0}c.cc.{1} %1, %4, %6; "
                       "{0}c.{1} %2, 0, 0;",
                       op, t.name),
           std::string(3, letter), std::string(4, letter)},
          cases, [&](const Values& v) -> Values {
            const unsigned __int128 a = whole(v[0], v[1]);
            const unsigned __int128 b = whole(v[2], v[3]);
            const unsigned __int128 sum = op == "add" ? a + b : a - b;
            const unsigned __int128 most = whole(half.Most(), half.Most());
            const bool beyond =
                op == "add" ? (t.bits == 64 ? sum < a : sum > most) : a < b;
            return {half.Wrap(static_cast<Int>(sum)),
                    half.Wrap(static_cast<Int>(sum >> t.bits)),
                    half.Wrap(op == "add" ? beyond : -Int{beyond})};
          });
    }
  }
}

// a * b + c of twice the bits, as nvcc multiplies wide numbers.
TEST(IntegerTest, CarriesLinkProducts) {
  for (const Type& t : {kTypes[2], kTypes[4]}) {
    const char letter = t.letter();
    const std::vector<Values> cases = QuadrupleCases(t);
    ExpectOutputs(
        {fmt::format("mad.lo.cc.{0} %0, %3, %4, %5; "
                     "madc.hi.cc.{0} %1, %3, %4, %6; addc.{0} %2, 0, 0;",
                     t.name),
         std::string(3, letter), std::string(4, letter)},
        cases, [&](const Values& v) -> Values {
          const auto product = static_cast<unsigned __int128>(v[0]) * v[1];
          const auto c = static_cast<unsigned __int128>(v[3]) << t.bits | v[2];
          const unsigned __int128 sum = product + c;
          const bool beyond =
              t.bits == 64 ? sum < c : (sum >> (2 * t.bits)) != 0;
          return {t.Wrap(static_cast<Int>(sum)),
                  t.Wrap(static_cast<Int>(sum >> t.bits)), beyond};
        });
  }
  // The other halves: hi without a carry in, lo with one.
  for (const Type& t : {kTypes[2], kTypes[3], kTypes[4], kTypes[5]}) {
    const Type u{"", t.bits, false};
    ExpectOutputs(
        {fmt::format("mad.hi.cc.{0} %0, %2, %3, %4; madc.lo.{0} %1, %2, %3, 5;",
                     t.name),
         std::string(2, t.letter()), std::string(3, t.letter())},
        IntegerCases({t.bits, t.bits, t.bits}), [&](const Values& v) -> Values {
          const auto product =
              static_cast<Int>(static_cast<unsigned __int128>(t.Of(v[0])) *
                               static_cast<unsigned __int128>(t.Of(v[1])));
          const Int sum = u.Of(u.Wrap(High(t, product))) + u.Of(v[2]);
          return {u.Wrap(sum),
                  u.Wrap(u.Of(u.Wrap(product)) + 5 + (sum >> t.bits))};
        });
  }
}

// Lanes have carries of their own, and those that do not execute keep theirs.
TEST(IntegerTest, ACarryIsTheLanesOwn) {
  ExpectOutputs(
      {"add.cc.u32 %0, %2, 1; setp.eq.u32 %1, %2, 7; @%1 add.cc.u32 %0, %2, 1; "
       "addc.u32 %0, 0, 0;",
       "wp", "w"},
      {{0xffffffff}, {0}, {7}, {0xffffffff}, {7}, {1}, {0xffffffff}},
      [](const Values& v) -> Values {
        return {v[0] == 0xffffffff, v[0] == 7};
      });
}

}  // namespace
}  // namespace carillon::sim
