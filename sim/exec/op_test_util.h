// Runs single instructions, and whole kernels, for tests.
#ifndef CARILLON_SIM_EXEC_OP_TEST_UTIL_H_
#define CARILLON_SIM_EXEC_OP_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sim/exec/functional.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/lower/lower.h"

namespace carillon::sim {

// A module, memory and a GPU, for a test.
class Bench {
 public:
  FunctionalGpu::Options options;
  std::string printed;
  uint32_t dynamic_shared_bytes = 0;

  // Loads the text, without .version and .target; its first line becomes line
  // 2.
  absl::Status Load(std::string_view text, const LowerOptions& lower = {});
  // Takes the code of all operations from one instruction set: the baseline, or
  // x86-64-v3, which this machine must have (HasX86_64V3()).
  void Use(bool x86_64_v3);
  // `parameters` are 64 bits each.
  absl::StatusOr<FunctionalGpu::Result> Run(
      std::string_view kernel, Dim3 grid, Dim3 block,
      const std::vector<uint64_t>& parameters);

  Memory& memory() { return memory_; }
  const Program& program() const { return *program_; }
  DeviceAddress Allocate(uint64_t bytes) {
    return *memory_.Allocate(bytes, "buffer");
  }
  template <class T>
  std::span<T> At(DeviceAddress address, uint64_t count) {
    const auto bytes = memory_.At(address, count * sizeof(T));
    return {reinterpret_cast<T*>(bytes->data()), count};
  }

 private:
  Memory memory_;
  std::shared_ptr<const Program> program_;
};

// The bits of values, from bit 0 on; a predicate is 0 or 1.
using Values = std::vector<uint64_t>;

// Instructions with %0, %1, ... as registers: the results, then the sources.
// They may also use %thread (the thread's index in its block of 64), %in (where
// its first source is in global memory) and %scratch (8 bytes of its own).
struct Form {
  std::string text;     // "add.s32 %0, %1, %2;"
  std::string results;  // a letter each: p(redicate), h(alf): 16 bits,
  std::string sources;  // w(ord): 32 and d(ouble): 64
};

// Returns the results of each case. Warps of 32 lanes execute the instructions;
// half of the lanes only (after a branch, and by guards); with the result in a
// source's register; and with both versions of the operations' code. The test
// fails where any of these differ, or an inactive lane's register changes.
std::vector<Values> Outputs(const Form& form, const std::vector<Values>& cases);

// Same(actual, expected) decides whether a result is right; an empty one means
// equality.
using Reference = std::function<Values(const Values& sources)>;
using Same = std::function<bool(uint64_t, uint64_t)>;
void ExpectOutputs(const Form& form, const std::vector<Values>& cases,
                   const Reference& reference, const Same& same = {});

// The message with which the instruction is refused; empty if it is not.
std::string Refusal(const Form& form);

std::vector<Values> Crossed(const std::vector<Values>& of_sources);
// The edge values of this many bits as whole numbers, or as floats (16, 32,
// 64).
Values IntegerEdges(uint32_t bits);
Values FloatEdges(uint32_t bits);
std::vector<Values> RandomIntegers(const std::vector<uint32_t>& bits,
                                   size_t count);
std::vector<Values> Joined(std::vector<Values> a, const std::vector<Values>& b);
// All combinations of the edges, and `random` more cases. Half of the random
// floats lie near each other, so that they cancel.
std::vector<Values> IntegerCases(const std::vector<uint32_t>& bits,
                                 size_t random = 500);
std::vector<Values> FloatCases(const std::vector<uint32_t>& bits,
                               size_t random = 500);

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_OP_TEST_UTIL_H_
