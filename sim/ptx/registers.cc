#include "sim/ptx/registers.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <string_view>

namespace carillon::sim::ptx {
namespace {

// Opcodes whose first operand is a source, or no register at all.
bool HasNoResult(std::string_view opcode) {
  for (const std::string_view name :
       {"st", "red", "bra", "call", "membar", "fence", "ret", "exit", "trap",
        "nanosleep", "prefetch", "prefetchu", "brkpt", "pmevent",
        "stackrestore"}) {
    if (opcode == name) return true;
  }
  return false;
}

bool FirstIsResult(const Instruction& instruction) {
  if (instruction.opcode == "bar" || instruction.opcode == "barrier") {
    return std::find(instruction.suffixes.begin(), instruction.suffixes.end(),
                     "red") != instruction.suffixes.end();
  }
  return !HasNoResult(instruction.opcode);
}

// Collects the registers in an operand. Those of an address are always read.
void Collect(const Operand& operand, bool result, RegisterUse& use) {
  if (operand.kind == Operand::Kind::kRegister) {
    (result ? use.writes : use.reads).push_back(operand.index);
  } else if (operand.kind == Operand::Kind::kAddress &&
             operand.base == Operand::Kind::kRegister) {
    use.reads.push_back(operand.index);
  }
  for (const Operand& part : operand.parts) Collect(part, result, use);
}

using Bits = std::vector<uint64_t>;
void Add(Bits& bits, uint32_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }
void Remove(Bits& bits, uint32_t i) {
  bits[i / 64] &= ~(uint64_t{1} << (i % 64));
}

template <class F>
void ForEach(const Bits& bits, F f) {
  for (size_t word = 0; word < bits.size(); ++word) {
    for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
      f(static_cast<uint32_t>(word * 64 + __builtin_ctzll(left)));
    }
  }
}

uint32_t UnitsOf(RegisterClass kind) {
  switch (kind) {
    case RegisterClass::kPredicate:
      return 0;
    case RegisterClass::k16:
    case RegisterClass::k32:
      return 1;
    case RegisterClass::k64:
      return 2;
    case RegisterClass::k128:
      return 4;
  }
  return 0;
}

}  // namespace

RegisterUse UseOf(const Instruction& instruction) {
  RegisterUse use;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    Collect(instruction.operands[i], i == 0 && FirstIsResult(instruction), use);
  }
  if (instruction.guard) {
    use.reads.push_back(instruction.guard->reg);
    // Where the guard is false, the destination's old value stays, so it counts
    // as read.
    use.reads.insert(use.reads.end(), use.writes.begin(), use.writes.end());
  }
  return use;
}

RegisterClass ClassOf(Type type) {
  if (type == Type::kPred) return RegisterClass::kPredicate;
  const uint32_t bytes = BytesOf(type);
  return bytes <= 2   ? RegisterClass::k16
         : bytes == 4 ? RegisterClass::k32
         : bytes == 8 ? RegisterClass::k64
                      : RegisterClass::k128;
}

RegisterPlan AllocateRegisters(const Function& function,
                               const ControlFlow& flow) {
  const auto registers = static_cast<uint32_t>(function.registers.size());
  const auto count = static_cast<uint32_t>(function.body.size());
  const size_t words = (registers + 63) / 64;
  std::vector<RegisterUse> uses(count);
  for (uint32_t i = 0; i < count; ++i) uses[i] = UseOf(function.body[i]);

  // Computes which registers are live at the beginning of each block, to a
  // fixed point.
  std::vector<Bits> live_in(flow.blocks.size(), Bits(words));
  const auto live_out = [&](uint32_t block) {
    Bits live(words);
    for (const uint32_t successor : flow.blocks[block].successors) {
      for (size_t word = 0; word < words; ++word) {
        live[word] |= live_in[successor][word];
      }
    }
    return live;
  };
  const auto step = [&](uint32_t instruction, Bits& live) {
    for (const uint32_t r : uses[instruction].writes) Remove(live, r);
    for (const uint32_t r : uses[instruction].reads) Add(live, r);
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto block = static_cast<uint32_t>(flow.blocks.size()); block-- > 0;) {
      Bits live = live_out(block);
      for (uint32_t i = flow.blocks[block].end;
           i-- > flow.blocks[block].begin;) {
        step(i, live);
      }
      if (live != live_in[block]) {
        live_in[block] = std::move(live);
        changed = true;
      }
    }
  }

  RegisterPlan plan;
  plan.place.assign(registers, 0);
  plan.live.resize(count);
  struct Interval {
    uint32_t first = kNoBlock;
    uint32_t last = 0;
  };
  std::vector<Interval> intervals(registers);
  const auto touch = [&](uint32_t r, uint32_t at) {
    intervals[r].first = std::min(intervals[r].first, at);
    intervals[r].last = std::max(intervals[r].last, at);
  };
  const auto pressure = [&](const Bits& live) {
    uint32_t units = 0;
    ForEach(live, [&](uint32_t r) {
      units += UnitsOf(ClassOf(function.registers[r].type));
    });
    return units;
  };
  for (uint32_t block = 0; block < flow.blocks.size(); ++block) {
    Bits live = live_out(block);
    for (uint32_t i = flow.blocks[block].end; i-- > flow.blocks[block].begin;) {
      // A result needs its place even if nobody reads it.
      for (const uint32_t r : uses[i].writes) {
        Add(live, r);
        touch(r, i);
      }
      ForEach(live, [&](uint32_t r) { touch(r, i + 1); });
      plan.pressure = std::max(plan.pressure, pressure(live));
      step(i, live);
      ForEach(live, [&](uint32_t r) {
        touch(r, i);
        plan.live[i].push_back(r);
      });
    }
    plan.pressure = std::max(plan.pressure, pressure(live));
  }

  // Scans the intervals by their first use. The lowest free place is taken
  // first.
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < registers; ++r) {
    if (intervals[r].first != kNoBlock) order.push_back(r);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return intervals[a].first < intervals[b].first;
  });
  using Ending = std::pair<uint32_t, uint32_t>;  // when, and the register
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
  std::array<
      std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>,
      kRegisterClasses>
      free;
  for (const uint32_t r : order) {
    // A register whose last read is this instruction keeps its place: an
    // operation may write a result before it has read all its sources.
    while (!active.empty() && active.top().first < intervals[r].first) {
      const uint32_t ended = active.top().second;
      active.pop();
      free[static_cast<size_t>(ClassOf(function.registers[ended].type))].push(
          plan.place[ended]);
    }
    const auto kind = static_cast<size_t>(ClassOf(function.registers[r].type));
    if (free[kind].empty()) {
      plan.place[r] = plan.count[kind]++;
    } else {
      plan.place[r] = free[kind].top();
      free[kind].pop();
    }
    active.emplace(intervals[r].last, r);
  }
  return plan;
}

}  // namespace carillon::sim::ptx
