// Kernels that nobody wrote: a seed draws a program, which becomes PTX text for
// the simulated GPU, and which the host executes as what it is, a tree.
//
// Nothing in them is left open by the PTX ISA: warps meet at every vote and
// shuffle with the lanes that the mask names, and threads share only sums whose
// order does not count.
#ifndef CARILLON_SIM_DIFFERENTIAL_RANDOM_KERNEL_H_
#define CARILLON_SIM_DIFFERENTIAL_RANDOM_KERNEL_H_

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "sim/differential/operations.h"

namespace carillon::sim::differential {

// The variables of a kernel and of each function.
inline constexpr Type kVariables[] = {Type::kB32, Type::kB32, Type::kB32,
                                      Type::kB64, Type::kB16, Type::kF32,
                                      Type::kF32, Type::kF64, Type::kPred};
inline constexpr size_t kVariableCount = std::size(kVariables);
inline constexpr uint32_t kInputs = 64;     // words
inline constexpr uint32_t kLocalWords = 8;  // of each thread
inline constexpr uint32_t kSums = 16;       // words for each kind of sum

struct Expression {
  enum class Kind : uint8_t {
    kVariable,
    kConstant,
    kOperation,
    kInput,
    kLocal
  };
  Kind kind = Kind::kConstant;
  Type type = Type::kB32;
  size_t variable = 0;
  uint64_t constant = 0;
  const Operation* operation = nullptr;
  // The operation's, or the index of an input or of a local word.
  std::vector<Expression> sources;
};

enum class SumKind : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor };
inline constexpr size_t kSumKinds = 6;
enum class OwnKind : uint8_t {
  kExchange,
  kCompareAndSwap,
  kIncrement,
  kDecrement,
  kAdd
};
enum class Shuffle : uint8_t { kUp, kDown, kButterfly, kIndex };
enum class Vote : uint8_t { kBallot, kAny, kAll, kUniform };

struct Statement {
  enum class Kind : uint8_t {
    kAssign,      // variable = expression
    kStoreLocal,  // local[a] = b
    kIf,          // if (a) body else other
    kLoop,        // (a & 3) times: body
    kCall,        // variable = functions[which](a, b), or by an address
    kSum,         // sums[a] = sums[a] op b, in global memory
    kOwn,         // variable = the thread's own cell, changed by a and b
    // Where each warp is together, or its lanes of one side of an if:
    kVote,
    kMatch,
    kReduce,
    kShuffle,
    kFirst,  // the value of the mask's first lane
    // Where the block is together:
    kExchange,   // variable = a neighbour's a, by shared memory
    kSharedSum,  // the same for sums in shared memory
    kReturn,     // if (a) return
  };
  Kind kind = Kind::kAssign;
  size_t variable = 0;
  Expression a;
  Expression b;
  std::vector<Statement> body;
  std::vector<Statement> other;
  size_t which = 0;     // the function, or one of the enumerators above
  size_t or_which = 0;  // the other function, where a predicate decides
  bool by_address = false;
  uint32_t lane = 0;   // a shuffle's second source
  uint32_t clamp = 0;  // and its third
};

// u32 f(u32, u32): the first two variables are its arguments, and the first is
// what it returns. Functions call those before them. One of them may call
// itself: f(n, x) = n % 4 == 0 ? body : f(n % 4 - 1, body).
struct Function {
  std::vector<Statement> body;
  bool recursive = false;
};

struct RandomKernel {
  uint32_t blocks = 1;
  uint32_t threads = 64;  // of each, in whole warps
  std::vector<Function> functions;
  std::vector<Statement> body;
};

RandomKernel Draw(uint64_t seed);

// What the kernel reads and writes.
struct Data {
  std::vector<uint32_t> in;    // kInputs, in constant memory
  std::vector<uint64_t> out;   // kVariableCount a thread
  std::vector<uint32_t> sums;  // kSums for each kind
  std::vector<uint32_t> own;   // one a thread
};
Data MakeData(const RandomKernel& kernel, uint64_t seed);

// An entry "kernel" with parameters out, sums and own (u64 each).
std::string ToPtx(const RandomKernel& kernel, const Data& data);

void RunOnHost(const RandomKernel& kernel, Data& data);

}  // namespace carillon::sim::differential

#endif  // CARILLON_SIM_DIFFERENTIAL_RANDOM_KERNEL_H_
