// setp and set: every comparison of every type, and what it is combined with.
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"
#include "sim/exec/reference_float.h"

namespace carillon::sim {
namespace {

// How two values lie to each other.
enum Order { kLess = 1, kSame = 2, kMore = 4, kUnordered = 8 };

struct Relation {
  const char* name;
  int holds;  // of Order
};
constexpr Relation kRelations[] = {{"eq", kSame}, {"ne", kLess | kMore},
                                   {"lt", kLess}, {"le", kLess | kSame},
                                   {"gt", kMore}, {"ge", kMore | kSame}};
constexpr Relation kUnsignedRelations[] = {
    {"lo", kLess}, {"ls", kLess | kSame}, {"hi", kMore}, {"hs", kMore | kSame}};
constexpr Relation kFloatRelations[] = {
    {"equ", kSame | kUnordered},    {"neu", kLess | kMore | kUnordered},
    {"ltu", kLess | kUnordered},    {"leu", kLess | kSame | kUnordered},
    {"gtu", kMore | kUnordered},    {"geu", kMore | kSame | kUnordered},
    {"num", kLess | kSame | kMore}, {"nan", kUnordered}};

Order OrderOf(char kind, uint32_t bits, bool flush, uint64_t a, uint64_t b) {
  const uint64_t top = uint64_t{1} << (bits - 1);
  if (kind == 'f') {
    const FloatFormat& f = bits == 32 ? kF32 : kF64;
    if (f.IsNan(a) || f.IsNan(b)) return kUnordered;
    for (uint64_t* x : {&a, &b}) {
      if (flush) *x = f.Flushed(*x);
      // As a whole number that is larger, the larger the float; -0 is 0.
      *x = (*x & top) != 0 ? 0 - (*x & ~top) : *x;
      *x ^= uint64_t{1} << 63;
    }
  } else if (kind == 's') {
    a ^= top;
    b ^= top;
  }
  return a < b ? kLess : a > b ? kMore : kSame;
}

struct Operands {
  char kind;
  uint32_t bits;

  char letter() const { return bits == 16 ? 'h' : bits == 32 ? 'w' : 'd'; }
  std::string type() const { return fmt::format("{}{}", kind, bits); }
  std::vector<Values> cases(bool with_predicate) const {
    const Values edges = kind == 'f' ? FloatEdges(bits) : IntegerEdges(bits);
    return with_predicate ? Crossed({edges, edges, {0, 1}})
           : kind == 'f'  ? FloatCases({bits, bits})
                          : IntegerCases({bits, bits});
  }
  std::vector<Relation> relations() const {
    std::vector<Relation> all(std::begin(kRelations), std::end(kRelations));
    if (kind == 'b') all.resize(2);
    if (kind == 'u') {
      all.insert(all.end(), std::begin(kUnsignedRelations),
                 std::end(kUnsignedRelations));
    }
    if (kind == 'f') {
      all.insert(all.end(), std::begin(kFloatRelations),
                 std::end(kFloatRelations));
    }
    return all;
  }
};
constexpr Operands kOperands[] = {{'b', 16}, {'b', 32}, {'b', 64}, {'u', 16},
                                  {'u', 32}, {'u', 64}, {'s', 16}, {'s', 32},
                                  {'s', 64}, {'f', 32}, {'f', 64}};

template <class F>
void ForAll(F f) {
  for (const Operands& operands : kOperands) {
    for (const Relation& relation : operands.relations()) {
      f(operands, relation, false);
      if (operands.kind == 'f' && operands.bits == 32) {
        f(operands, relation, true);
      }
    }
  }
}

bool Combined(std::string_view combine, bool a, bool b) {
  return combine == "and" ? a && b : combine == "or" ? a || b : a != b;
}

TEST(CompareTest, SetpHoldsAndItsSecondResultIsTheOpposite) {
  ForAll([](const Operands& o, const Relation& relation, bool flush) {
    const std::string two(2, o.letter());
    const std::string name =
        fmt::format("{}{}.{}", relation.name, flush ? ".ftz" : "", o.type());
    const auto holds = [&](const Values& v) {
      return (OrderOf(o.kind, o.bits, flush, v[0], v[1]) & relation.holds) != 0;
    };
    ExpectOutputs({fmt::format("setp.{} %0, %1, %2;", name), "p", two},
                  o.cases(false),
                  [&](const Values& v) -> Values { return {holds(v)}; });
    ExpectOutputs({fmt::format("setp.{} %0|%1, %2, %3;", name), "pp", two},
                  o.cases(false), [&](const Values& v) -> Values {
                    return {holds(v), !holds(v)};
                  });
  });
}

TEST(CompareTest, SetpCombinesWithAPredicate) {
  ForAll([](const Operands& o, const Relation& relation, bool flush) {
    // All ways to combine, of one comparison.
    if (flush || std::string_view(relation.name) != "ne") return;
    for (const std::string combine : {"and", "or", "xor"}) {
      for (const bool negated : {false, true}) {
        ExpectOutputs(
            {fmt::format("setp.{}.{}.{} %0|%1, %2, %3, {}%4;", relation.name,
                         combine, o.type(), negated ? "!" : ""),
             "pp",
             {o.letter(), o.letter(), 'p'}},
            o.cases(true), [&](const Values& v) -> Values {
              const bool holds = (OrderOf(o.kind, o.bits, false, v[0], v[1]) &
                                  relation.holds) != 0;
              const bool with = (v[2] != 0) != negated;
              return {Combined(combine, holds, with),
                      Combined(combine, !holds, with)};
            });
      }
    }
  });
}

TEST(CompareTest, SetGivesAllOnesOrOne) {
  ForAll([](const Operands& o, const Relation& relation, bool flush) {
    if (o.kind == 'b' && o.bits == 16) return;
    for (const std::string to : {"u32", "s32", "f32"}) {
      const uint64_t yes = to == "f32" ? 0x3f800000 : 0xffffffff;
      ExpectOutputs({fmt::format("set.{}{}.{}.{} %0, %1, %2;", relation.name,
                                 flush ? ".ftz" : "", to, o.type()),
                     "w", std::string(2, o.letter())},
                    o.cases(false), [&](const Values& v) -> Values {
                      return {(OrderOf(o.kind, o.bits, flush, v[0], v[1]) &
                               relation.holds) != 0
                                  ? yes
                                  : 0};
                    });
    }
  });
}

TEST(CompareTest, SetCombinesWithAPredicate) {
  const Operands o{'s', 32};
  for (const std::string combine : {"and", "or", "xor"}) {
    for (const bool negated : {false, true}) {
      for (const std::string to : {"u32", "f32"}) {
        ExpectOutputs(
            {fmt::format("set.lt.{}.{}.s32 %0, %1, %2, {}%3;", combine, to,
                         negated ? "!" : ""),
             "w", "wwp"},
            o.cases(true), [&](const Values& v) -> Values {
              const bool less = OrderOf('s', 32, false, v[0], v[1]) == kLess;
              const bool holds =
                  Combined(combine, less, (v[2] != 0) != negated);
              return {!holds ? 0u : to == "f32" ? 0x3f800000 : 0xffffffff};
            });
      }
    }
  }
}

// "_" takes a result that nobody wants, and nothing else changes.
TEST(CompareTest, AResultMayBeThrownAway) {
  const auto equal = [](const Values& v) { return v[0] == v[1]; };
  const std::vector<Values> cases = Crossed({{1, 2, 3}, {1, 2, 3}});
  ExpectOutputs({"setp.eq.s32 %0|_, %1, %2;", "p", "ww"}, cases,
                [&](const Values& v) -> Values { return {equal(v)}; });
  ExpectOutputs({"setp.eq.s32 _|%0, %1, %2;", "p", "ww"}, cases,
                [&](const Values& v) -> Values { return {!equal(v)}; });
  ExpectOutputs(
      {"mov.b32 %0, %1; setp.eq.s32 _, %1, %2; mov.b32 %1, %0;", "w", "ww"},
      cases, [](const Values& v) -> Values { return {v[0]}; });
  // Where PTX has no such thing, it is refused.
  for (const char* text : {"add.s32 _, %1, %2;", "selp.b32 _, %1, %2, 1;",
                           "setp.eq.s32 %0, _, %1;"}) {
    EXPECT_NE(Refusal({text, "w", "ww"}), "") << text;
  }
}

}  // namespace
}  // namespace carillon::sim
