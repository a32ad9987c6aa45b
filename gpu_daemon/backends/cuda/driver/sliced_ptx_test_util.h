// Whether rewritten PTX is what it says, found by parsing it again.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_SLICED_PTX_TEST_UTIL_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_SLICED_PTX_TEST_UTIL_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/driver/sliced_ptx.h"
#include "sim/ptx/module.h"

namespace carillon::gpud::cuda {

class SlicedPtxCheck {
 public:
  // Empty: the text has every function of `ptx` as it was, and of each kernel that
  // is not in `whole` a version with the same instructions but for its reads of the
  // grid. `ptx` is one that MakeSlicedPtx() has accepted.
  static std::string WhatIsWrong(std::string_view ptx, const SlicedPtx& made) {
    auto before = sim::ptx::ParseModule(std::string(ptx), "before");
    auto after = sim::ptx::ParseModule(made.text, "after");
    if (!before.ok()) return "the original is no PTX";
    if (!after.ok()) return std::string(after.status().message());
    return SlicedPtxCheck(*before, *after).Run(made);
  }

 private:
  using Function = sim::ptx::Function;
  using Instruction = sim::ptx::Instruction;
  using Operand = sim::ptx::Operand;

  SlicedPtxCheck(const sim::ptx::Module& before, const sim::ptx::Module& after)
      : before_(before), after_(after) {}

  std::string Run(const SlicedPtx& made) {
    for (const Function& function : before_.functions) {
      const Function* const same = Find(function.name);
      if (same == nullptr) return fmt::format("{} is gone", function.name);
      if (!Same(function, *same)) {
        return fmt::format("{} is not as it was", function.name);
      }
      if (!function.is_entry || !function.defined) continue;
      const Function* const version = VersionOf(function.name);
      if (made.whole.contains(function.name) != (version == nullptr)) {
        return fmt::format("{} has a version, or not, without need",
                           function.name);
      }
      if (version == nullptr) continue;
      const auto& parameters = version->parameters;
      if (!version->is_entry ||
          parameters.size() != function.parameters.size() + 1 ||
          parameters.back().bytes != 24 ||
          version->ParameterOffset(parameters.size() - 1) <
              function.ParameterBytes()) {
        return fmt::format("{}: its version has other parameters",
                           function.name);
      }
    }
    for (const Function& function : after_.functions) {
      if (!function.name.starts_with(kSlicePrefix) || !function.defined) {
        continue;
      }
      const auto original = std::ranges::find(
          before_.functions, function.name.substr(kSlicePrefix.size()),
          &Function::name);
      if (original == before_.functions.end()) return "a version of nothing";
      if (!Follows(*original, function)) {
        return fmt::format("instruction {} of the version of {} differs", at_,
                           original->name);
      }
    }
    return "";
  }

  const Function* Find(std::string_view name) const {
    const auto found =
        std::ranges::find(after_.functions, name, &Function::name);
    return found == after_.functions.end() ? nullptr : &*found;
  }
  const Function* VersionOf(std::string_view name) const {
    return Find(fmt::format("{}{}", kSlicePrefix, name));
  }

  static bool IsOurs(const Operand& operand) {
    return operand.name.find(kSlicePrefix) != std::string_view::npos ||
           operand.name.starts_with("carillon_part_");
  }
  static std::string WordOf(std::string_view special, size_t part) {
    return fmt::format("%{}{}", kSlicePrefix,
                       (special.starts_with("%nctaid") ? 3 : 0) + part);
  }

  // `shift`: of the version's registers.
  static bool Same(const Operand& a, const Operand& b, size_t shift) {
    if (a.kind != b.kind || a.base != b.base || a.of_module != b.of_module ||
        a.negated != b.negated || a.value != b.value || a.offset != b.offset ||
        a.parts.size() != b.parts.size()) {
      return false;
    }
    const bool is_register = a.kind == Operand::Kind::kRegister ||
                             (a.kind == Operand::Kind::kAddress &&
                              a.base == Operand::Kind::kRegister);
    if (is_register && a.index + shift != b.index) return false;
    if (a.kind != Operand::Kind::kImmediate && a.name != b.name) return false;
    for (size_t i = 0; i < a.parts.size(); ++i) {
      if (!Same(a.parts[i], b.parts[i], shift)) return false;
    }
    return true;
  }
  static bool SameGuard(const Instruction& a, const Instruction& b,
                        size_t shift) {
    if (a.guard.has_value() != b.guard.has_value()) return false;
    return !a.guard || (a.guard->negated == b.guard->negated &&
                        a.guard->reg + shift == b.guard->reg);
  }
  static bool Same(const Function& a, const Function& b) {
    if (a.defined != b.defined || a.body.size() != b.body.size()) return false;
    for (size_t i = 0; i < a.body.size(); ++i) {
      if (a.body[i].name != b.body[i].name ||
          !SameGuard(a.body[i], b.body[i], 0) ||
          a.body[i].operands.size() != b.body[i].operands.size()) {
        return false;
      }
      for (size_t o = 0; o < a.body[i].operands.size(); ++o) {
        if (!Same(a.body[i].operands[o], b.body[i].operands[o], 0)) {
          return false;
        }
      }
    }
    return true;
  }

  // Whether `version` has the instructions of `original` behind its first ones,
  // which load and store what is gpud's.
  bool Follows(const Function& original, const Function& version) {
    shift_ = version.registers.size() - original.registers.size();
    at_ = 0;
    while (at_ < version.body.size() && version.body[at_].opcode != "call" &&
           !version.body[at_].operands.empty() &&
           IsOurs(version.body[at_].operands[0])) {
      ++at_;
    }
    for (const Instruction& instruction : original.body) {
      if (!Consume(instruction, version)) return false;
    }
    return at_ == version.body.size();
  }

  bool Consume(const Instruction& from, const Function& version) {
    const Operand* const special =
        from.operands.size() == 2 && IsGrid(from.operands[1])
            ? &from.operands[1]
            : nullptr;
    if (special != nullptr && !special->name.ends_with("id")) {
      const size_t part = std::string_view("xyz").find(special->name.back());
      return Next(from, version, from.name) &&
             Same(from.operands[0], Operands(version)[0], shift_) &&
             Operands(version)[1].name == WordOf(special->name, part);
    }
    if (special != nullptr) {
      for (size_t part = 0; part < 4; ++part) {
        const Operand& to = from.operands[0].parts.at(part);
        if (to.kind == Operand::Kind::kSink) continue;
        if (!Next(from, version, "mov." + std::string(from.suffixes.back())) ||
            !Same(to, Operands(version)[0], shift_)) {
          return false;
        }
        const Operand& value = Operands(version)[1];
        if (part < 3
                ? value.name != WordOf(special->name, part)
                : value.kind != Operand::Kind::kImmediate || value.value != 0) {
          return false;
        }
      }
      return true;
    }
    if (!Next(from, version, from.name)) return false;
    for (size_t i = 0; i < from.operands.size(); ++i) {
      const Operand& a = from.operands[i];
      const Operand& b = Operands(version)[i];
      if (IsGrid(a)) return false;
      if (a.kind == Operand::Kind::kFunction && from.opcode == "call") {
        const Function* const its = VersionOf(a.name);
        if (b.name != (its == nullptr ? a.name : its->name)) return false;
      } else if (!Same(a, b, shift_)) {
        return false;
      }
    }
    return true;
  }
  // Goes on to the version's next instruction, if it has that name.
  bool Next(const Instruction& from, const Function& version,
            std::string_view name) {
    if (at_ == version.body.size()) return false;
    const Instruction& to = version.body[at_++];
    return to.name == name && SameGuard(from, to, shift_) &&
           to.operands.size() == from.operands.size();
  }
  const std::vector<Operand>& Operands(const Function& version) const {
    return version.body[at_ - 1].operands;
  }
  static bool IsGrid(const Operand& operand) {
    return operand.kind == Operand::Kind::kSpecial &&
           (operand.name.starts_with("%ctaid") ||
            operand.name.starts_with("%nctaid"));
  }

  const sim::ptx::Module& before_;
  const sim::ptx::Module& after_;
  size_t at_ = 0;
  size_t shift_ = 0;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_SLICED_PTX_TEST_UTIL_H_
