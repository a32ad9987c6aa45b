#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "sim/differential/random_kernel.h"

namespace carillon::sim::differential {
namespace {

// What a thread has within one function.
struct Frame {
  std::array<uint64_t, kVariableCount> values{};
  std::array<uint32_t, kLocalWords> local{};

  Frame(uint32_t a, uint32_t b) {
    const auto number = [](auto x) {
      if constexpr (sizeof(x) == 4) {
        return uint64_t{std::bit_cast<uint32_t>(x)};
      } else {
        return std::bit_cast<uint64_t>(x);
      }
    };
    const float given = std::bit_cast<float>(b);
    values = {a,
              b,
              a ^ b,
              static_cast<uint64_t>(int64_t{static_cast<int32_t>(a)} *
                                    static_cast<int32_t>(b)),
              a & 0xffff,
              number(static_cast<float>(static_cast<int32_t>(a))),
              std::isnan(given) ? 0x7fffffff : number(given + 0.0f),
              number(static_cast<double>(static_cast<int32_t>(b))),
              static_cast<int32_t>(a) < static_cast<int32_t>(b)};
    local.fill(a);
  }
};

struct Thread {
  uint32_t global = 0;
  Frame frame;
  bool returned = false;
};

using Threads = std::vector<Thread*>;

uint32_t Sum(size_t kind, uint32_t a, uint32_t b) {
  switch (static_cast<SumKind>(kind)) {
    case SumKind::kAdd:
      return a + b;
    case SumKind::kMin:
      return std::min(a, b);
    case SumKind::kMax:
      return std::max(a, b);
    case SumKind::kAnd:
      return a & b;
    case SumKind::kOr:
      return a | b;
    case SumKind::kXor:
      return a ^ b;
  }
  return 0;
}

class HostRun {
 public:
  HostRun(const RandomKernel& kernel, Data& data)
      : kernel_(kernel), data_(data) {}

  void Block(uint32_t index) {
    std::vector<Thread> threads;
    for (uint32_t i = 0; i < kernel_.threads; ++i) {
      const uint32_t global = index * kernel_.threads + i;
      const uint32_t a = global * 0x9e3779b1u;
      threads.push_back({global, Frame(a, (a ^ 0x5bd1e995u) >> 7)});
    }
    Threads all;
    for (Thread& thread : threads) all.push_back(&thread);
    Together(kernel_.body, all);
    for (const Thread& thread : threads) {
      std::ranges::copy(
          thread.frame.values,
          data_.out.begin() +
              static_cast<ptrdiff_t>(thread.global * kVariableCount));
    }
  }

 private:
  uint64_t Value(const Expression& e, const Frame& frame) {
    using enum Expression::Kind;
    switch (e.kind) {
      case kVariable:
        return frame.values[e.variable];
      case kConstant:
        return e.constant;
      case kInput:
        return data_.in[Value(e.sources[0], frame) % kInputs];
      case kLocal:
        return frame.local[Value(e.sources[0], frame) % kLocalWords];
      case kOperation:
        break;
    }
    Arguments arguments{};
    for (size_t i = 0; i < e.sources.size(); ++i)
      arguments[i] = Value(e.sources[i], frame);
    if (e.operation->tame_divisor) arguments[1] = (arguments[1] & 0x7ffe) | 1;
    return e.operation->host(arguments);
  }
  uint32_t Word(const Expression& e, const Frame& frame) {
    return static_cast<uint32_t>(Value(e, frame));
  }

  uint32_t Call(size_t which, uint32_t a, uint32_t b) {
    const Function& function = kernel_.functions[which];
    if (function.recursive && a % 4 != 0) b = Call(which, a % 4 - 1, b);
    Frame frame(a, b);
    for (const Statement& s : function.body) Alone(s, frame, 0);
    return static_cast<uint32_t>(frame.values[0]);
  }

  // A statement that a thread executes for itself. `global` is its number.
  void Alone(const Statement& s, Frame& frame, uint32_t global) {
    using enum Statement::Kind;
    uint64_t& to = frame.values[s.variable];
    switch (s.kind) {
      case kAssign:
        to = Value(s.a, frame);
        return;
      case kStoreLocal: {
        uint32_t& word = frame.local[Value(s.a, frame) % kLocalWords];
        word = Word(s.b, frame);
        return;
      }
      case kIf:
        for (const Statement& inner : Value(s.a, frame) ? s.body : s.other)
          Alone(inner, frame, global);
        return;
      case kLoop:
        for (uint64_t left = Value(s.a, frame) % 4; left != 0; --left) {
          for (const Statement& inner : s.body) Alone(inner, frame, global);
        }
        return;
      case kCall: {
        const bool first =
            !s.by_address || frame.values[kVariableCount - 1] != 0;
        to = Call(first ? s.which : s.or_which, Word(s.a, frame),
                  Word(s.b, frame));
        return;
      }
      case kSum: {
        uint32_t& sum = data_.sums[s.which * kSums + Value(s.a, frame) % kSums];
        sum = Sum(s.which, sum, Word(s.b, frame));
        return;
      }
      case kOwn: {
        const uint32_t a = Word(s.a, frame);
        const uint32_t b = Word(s.b, frame);
        uint32_t& cell = data_.own[global];
        const uint32_t before = cell;
        switch (static_cast<OwnKind>(s.which)) {
          case OwnKind::kExchange:
            cell = a;
            break;
          case OwnKind::kCompareAndSwap:
            if (before == a) cell = b;
            break;
          case OwnKind::kIncrement:
            cell = before >= a ? 0 : before + 1;
            break;
          case OwnKind::kDecrement:
            cell = before == 0 || before > a ? a : before - 1;
            break;
          case OwnKind::kAdd:
            cell = before + a;
        }
        to = before;
        return;
      }
      default:
        std::abort();  // it needs others
    }
  }

  // Of one warp: the lanes of a mask.
  void Warp(const Statement& s, const Threads& here) {
    using enum Statement::Kind;
    std::array<uint64_t, 32> values{};
    uint32_t mask = 0;
    uint32_t trues = 0;
    uint32_t sum = 0;
    for (const Thread* thread : here) {
      const uint32_t lane = thread->global % 32;
      values[lane] = Value(s.a, thread->frame);
      sum = mask == 0 ? static_cast<uint32_t>(values[lane])
                      : Sum(s.which, sum, static_cast<uint32_t>(values[lane]));
      mask |= 1u << lane;
      trues |= static_cast<uint32_t>(values[lane] & 1) << lane;
    }
    for (Thread* const thread : here) {
      const uint32_t lane = thread->global % 32;
      uint64_t& to = thread->frame.values[s.variable];
      switch (s.kind) {
        case kVote: {
          const uint64_t results[] = {trues, trues != 0, trues == mask,
                                      trues == 0 || trues == mask};
          to = results[s.which];
          break;
        }
        case kMatch:
          to = 0;
          for (const Thread* other : here) {
            if (values[other->global % 32] == values[lane])
              to |= 1u << other->global % 32;
          }
          break;
        case kReduce:
          to = sum;
          break;
        case kFirst:
          to = values[static_cast<size_t>(std::countr_zero(mask))];
          break;
        case kShuffle: {
          // 9.7.9.6's own text.
          const uint32_t b = s.lane & 31;
          const uint32_t c = s.clamp & 31;
          const uint32_t segment = s.clamp >> 8 & 31;
          const uint32_t most = (lane & segment) | (c & ~segment);
          const uint32_t least = lane & segment;
          int32_t from = 0;
          bool inside = false;
          switch (static_cast<Shuffle>(s.which)) {
            case Shuffle::kUp:
              from = static_cast<int32_t>(lane) - static_cast<int32_t>(b);
              inside = from >= static_cast<int32_t>(most);
              break;
            case Shuffle::kDown:
              from = static_cast<int32_t>(lane + b);
              inside = from <= static_cast<int32_t>(most);
              break;
            case Shuffle::kButterfly:
              from = static_cast<int32_t>(lane ^ b);
              inside = from <= static_cast<int32_t>(most);
              break;
            case Shuffle::kIndex:
              from = static_cast<int32_t>(least | (b & ~segment));
              inside = from <= static_cast<int32_t>(most);
              break;
          }
          to = values[inside ? static_cast<size_t>(from) : lane];
          thread->frame.values[kVariableCount - 1] = inside;
          break;
        }
        default:
          std::abort();
      }
    }
  }

  static bool IsOfWarp(Statement::Kind kind) {
    using enum Statement::Kind;
    return kind == kVote || kind == kMatch || kind == kReduce ||
           kind == kShuffle || kind == kFirst;
  }

  // By warps, with `threads` in order.
  void OfWarps(const Statement& s, const Threads& threads) {
    for (size_t i = 0; i < threads.size();) {
      Threads warp;
      const uint32_t number = threads[i]->global / 32;
      while (i < threads.size() && threads[i]->global / 32 == number)
        warp.push_back(threads[i++]);
      Warp(s, warp);
    }
  }

  // One side of an if: those of a warp who took it are together.
  void OneSide(const std::vector<Statement>& statements,
               const Threads& threads) {
    for (const Statement& s : statements) {
      if (IsOfWarp(s.kind)) {
        OfWarps(s, threads);
      } else {
        for (Thread* const thread : threads)
          Alone(s, thread->frame, thread->global);
      }
    }
  }

  void Together(const std::vector<Statement>& statements, const Threads& all) {
    using enum Statement::Kind;
    for (const Statement& s : statements) {
      Threads threads;
      for (Thread* const thread : all) {
        if (!thread->returned) threads.push_back(thread);
      }
      switch (s.kind) {
        case kReturn:
          for (Thread* const thread : threads)
            thread->returned = Value(s.a, thread->frame) != 0;
          break;
        case kIf: {
          Threads yes, no;
          for (Thread* const thread : threads)
            (Value(s.a, thread->frame) ? yes : no).push_back(thread);
          OneSide(s.body, yes);
          OneSide(s.other, no);
          break;
        }
        case kExchange: {
          std::vector<uint64_t> slots;
          for (const Thread* thread : threads)
            slots.push_back(Value(s.a, thread->frame));
          for (size_t i = 0; i < threads.size(); ++i) {
            threads[i]->frame.values[s.variable] =
                slots[(i + s.lane) % slots.size()];
          }
          break;
        }
        case kSharedSum: {
          std::array<uint32_t, kSums> sums{};
          for (const Thread* thread : threads) {
            uint32_t& sum = sums[Value(s.a, thread->frame) % kSums];
            sum = Sum(s.which, sum, Word(s.b, thread->frame));
          }
          for (Thread* const thread : threads) {
            thread->frame.values[s.variable] =
                sums[thread->global % kernel_.threads % kSums];
          }
          break;
        }
        default:
          OneSide({s}, threads);
      }
    }
  }

  const RandomKernel& kernel_;
  Data& data_;
};

}  // namespace

void RunOnHost(const RandomKernel& kernel, Data& data) {
  HostRun run(kernel, data);
  for (uint32_t i = 0; i < kernel.blocks; ++i) run.Block(i);
}

}  // namespace carillon::sim::differential
