#include <array>

#include "sim/differential/random_kernel.h"
#include "sim/exec/seeded_random.h"

namespace carillon::sim::differential {
namespace {

// What may be drawn at a place.
enum class Where {
  kFunction,
  kThread,    // within a loop or deeper: each thread for itself
  kOneSide,   // one side of an if that the warp came to together
  kTogether,  // the whole block
};

class Drawing {
 public:
  explicit Drawing(uint64_t seed) : random_(seed) {
    const auto operations = Operations();
    for (const Operation& operation : operations) {
      of_[static_cast<size_t>(operation.result)].push_back(&operation);
    }
  }

  RandomKernel Kernel() {
    RandomKernel kernel;
    kernel.blocks = 1 + Below(3);
    kernel.threads = 32 * (1 + Below(3));
    const uint32_t functions = Below(4);
    for (uint32_t i = 0; i < functions; ++i) {
      functions_ = i;
      kernel.functions.push_back(
          {Body(Where::kFunction, 2 + Below(3), 0), Below(4) == 0});
    }
    functions_ = functions;
    kernel.body = Body(Where::kTogether, 8 + Below(24), 0);
    return kernel;
  }

 private:
  uint32_t Below(uint32_t limit) {
    return static_cast<uint32_t>(random_.Below(limit));
  }
  template <size_t kCount>
  uint64_t OneOf(const std::array<uint64_t, kCount>& values) {
    return values[Below(kCount)];
  }

  uint64_t Constant(Type type) {
    const uint64_t any = random_.Next();
    const bool special = Below(2) == 0;
    switch (type) {
      case Type::kPred:
        return Below(2);
      case Type::kB16:
        return special ? OneOf<4>({0, 1, 0x7fff, 0xffff}) : any & 0xffff;
      case Type::kB32:
        return special ? OneOf<7>({0, 1, 2, 31, 32, 0x7fffffff, 0xffffffff})
                       : any & 0xffffffff;
      case Type::kB64:
        return special ? OneOf<5>({0, 1, 63, uint64_t{1} << 63, ~uint64_t{0}})
                       : any;
      case Type::kF32:
        return special ? OneOf<8>({0, 0x80000000, 0x3f800000, 0x7f800000,
                                   0x7fffffff, 1, 0x00800000, 0x4f000000})
                       : any & 0xbfffffff;
      case Type::kF64:
        return special ? OneOf<5>({0, uint64_t{1} << 63, 0x3ff0000000000000,
                                   0x7ff0000000000000, 1})
                       : any & 0xbfffffffffffffff;
    }
    return 0;
  }

  size_t Variable(Type type) {
    size_t variable = 0;
    do {
      variable = Below(kVariableCount);
    } while (kVariables[variable] != type);
    return variable;
  }

  Expression Draw(Type type, int depth) {
    Expression expression{.type = type};
    const uint32_t kind = Below(depth > 0 ? 10 : 3);
    if (kind == 0) {
      expression.constant = Constant(type);
    } else if (kind <= 2) {
      expression.kind = Expression::Kind::kVariable;
      expression.variable = Variable(type);
    } else if (kind == 3 && type == Type::kB32) {
      expression.kind =
          Below(2) == 0 ? Expression::Kind::kInput : Expression::Kind::kLocal;
      expression.sources.push_back(Draw(Type::kB32, depth - 1));
    } else {
      const auto& choice = of_[static_cast<size_t>(type)];
      expression.kind = Expression::Kind::kOperation;
      expression.operation =
          choice[Below(static_cast<uint32_t>(choice.size()))];
      for (size_t i = 0; i < expression.operation->count; ++i) {
        expression.sources.push_back(
            Draw(expression.operation->sources[i], depth - 1));
      }
    }
    return expression;
  }

  Statement::Kind KindAt(Where where, int depth) {
    using enum Statement::Kind;
    const uint32_t kind = Below(where == Where::kTogether  ? 32
                                : where == Where::kOneSide ? 27
                                                           : 22);
    if (kind < 11) return kAssign;
    if (kind < 13) return kStoreLocal;
    if (kind < 16) return depth < 3 ? kIf : kAssign;
    if (kind < 18) return depth < 3 ? kLoop : kAssign;
    if (kind < 20) return functions_ > 0 ? kCall : kAssign;
    if (kind < 22) {
      if (where == Where::kFunction) return kAssign;
      return kind == 20 ? kSum : kOwn;
    }
    static constexpr Statement::Kind kRest[] = {
        kVote,    kVote,    kMatch,    kReduce,    kFirst,
        kShuffle, kShuffle, kExchange, kSharedSum, kReturn};
    const Statement::Kind rest = kRest[kind - 22];
    // Nobody may ask a thread for its value that has returned.
    return returned_ && (rest == kShuffle || rest == kExchange) ? kVote : rest;
  }

  Statement One(Where where, int depth) {
    using enum Statement::Kind;
    Statement s{.kind = KindAt(where, depth)};
    s.variable = Variable(Type::kB32);
    const auto inside = [&](Where here) {
      return Body(here, 1 + Below(3), depth + 1);
    };
    switch (s.kind) {
      case kAssign:
        s.variable = Below(kVariableCount);
        s.a = Draw(kVariables[s.variable], 4);
        break;
      case kIf: {
        s.a = Draw(Type::kPred, 3);
        const Where here = where == Where::kTogether  ? Where::kOneSide
                           : where == Where::kOneSide ? Where::kThread
                                                      : where;
        s.body = inside(here);
        if (Below(2) == 0) s.other = inside(here);
        break;
      }
      case kLoop:
        s.a = Draw(Type::kB32, 2);
        s.body = inside(where == Where::kFunction ? where : Where::kThread);
        break;
      case kCall:
        s.which = Below(functions_);
        s.or_which = Below(functions_);
        s.by_address = Below(3) == 0;
        [[fallthrough]];
      case kStoreLocal:
      case kOwn:
        s.a = Draw(Type::kB32, 3);
        s.b = Draw(Type::kB32, 3);
        if (s.kind == kOwn) s.which = Below(5);
        break;
      case kSum:
      case kSharedSum:
        s.which = Below(kSumKinds);
        s.a = Draw(Type::kB32, 2);
        s.b = Draw(Type::kB32, 3);
        break;
      case kVote:
        s.which = Below(4);
        if (s.which != 0) s.variable = Variable(Type::kPred);
        s.a = Draw(Type::kPred, 3);
        break;
      case kReduce:
        s.which = Below(kSumKinds);
        s.a = Draw(Type::kB32, 3);
        break;
      case kMatch:
        s.a = Draw(Type::kB32, 3);
        break;
      case kFirst:
      case kExchange:
        s.a = Draw(Type::kB32, 3);
        s.lane = Below(96);
        break;
      case kShuffle: {
        s.which = Below(4);
        s.a = Draw(Type::kB32, 3);
        s.lane = Below(40);
        const uint32_t width = 32u >> Below(4);
        s.clamp =
            (32 - width) << 8 |
            (s.which == static_cast<size_t>(Shuffle::kUp) ? 0 : width - 1);
        break;
      }
      case kReturn:
        s.a = Draw(Type::kPred, 3);
        returned_ = true;
        break;
    }
    return s;
  }

  std::vector<Statement> Body(Where where, uint32_t count, int depth) {
    std::vector<Statement> statements;
    for (uint32_t i = 0; i < count; ++i)
      statements.push_back(One(where, depth));
    return statements;
  }

  SeededRandom random_;
  std::array<std::vector<const Operation*>, kTypes> of_;
  uint32_t functions_ = 0;  // how many can be called
  bool returned_ = false;   // some threads may have
};

}  // namespace

RandomKernel Draw(uint64_t seed) { return Drawing(seed).Kernel(); }

Data MakeData(const RandomKernel& kernel, uint64_t seed) {
  SeededRandom random(seed ^ 0x9e3779b97f4a7c15);
  const auto words = [&](size_t count) {
    std::vector<uint32_t> result(count);
    for (uint32_t& word : result) word = static_cast<uint32_t>(random.Next());
    return result;
  };
  const size_t threads = size_t{kernel.blocks} * kernel.threads;
  return {.in = words(kInputs),
          .out = std::vector<uint64_t>(threads * kVariableCount),
          .sums = words(kSums * kSumKinds),
          .own = words(threads)};
}

}  // namespace carillon::sim::differential
