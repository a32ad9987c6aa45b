#include "sim/lower/lower.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "sim/lower/function_lowering.h"

namespace carillon::sim {
namespace {

using Kind = ptx::Operand::Kind;

uint64_t AlignUp(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

struct References {
  std::set<uint32_t> variables;  // of the module's
  std::set<uint32_t> functions;  // that it calls, or may call by their address
  bool calls_by_address = false;
};

bool NamesVariable(const ptx::Operand& operand) {
  return operand.kind == Kind::kVariable ||
         (operand.kind == Kind::kAddress && operand.base == Kind::kVariable);
}

void Collect(const ptx::Operand& operand, References& references) {
  if (NamesVariable(operand) && operand.of_module) {
    references.variables.insert(operand.index);
  }
  if (operand.kind == Kind::kFunction) {
    references.functions.insert(operand.index);
  }
  if (operand.kind == Kind::kPrototype) references.calls_by_address = true;
  for (const ptx::Operand& part : operand.parts) {
    Collect(part, references);
  }
}

std::optional<uint32_t> FunctionNamed(const ptx::Module& module,
                                      std::string_view name) {
  for (uint32_t f = 0; f < module.functions.size(); ++f) {
    if (module.functions[f].name == name) return f;
  }
  return std::nullopt;
}

class ModuleLowering {
 public:
  ModuleLowering(std::shared_ptr<const ptx::Module> module, Memory* memory,
                 LowerOptions options)
      : module_(*module),
        memory_(memory),
        options_(options),
        program_(std::make_shared<Program>()) {
    program_->module = std::move(module);
    placement_.device_graphs = options.device_graphs;
  }

  // What it has allocated stays with a program only.
  ~ModuleLowering() {
    if (program_ == nullptr) return;
    for (const ProgramVariable& variable : program_->variables) {
      memory_->Free(variable.address).IgnoreError();
    }
  }

  absl::StatusOr<std::shared_ptr<const Program>> Run() {
    RETURN_IF_ERROR(CheckVariables());
    FindReferences();
    RETURN_IF_ERROR(FindNeeded());
    RETURN_IF_ERROR(PlaceVariables());
    PlaceShared();
    RETURN_IF_ERROR(PlaceFrames());
    Constants constants(&program_->constants);
    for (uint32_t f = 0; f < module_.functions.size(); ++f) {
      if (!module_.functions[f].defined || !needs_function_[f]) continue;
      RETURN_IF_ERROR(LowerFunction(f, constants));
    }
    RefuseKernels();
    FindCooperative();
    CountRegisters();
    return std::shared_ptr<const Program>(std::move(program_));
  }

 private:
  // Before any of them takes memory.
  absl::Status CheckVariables() const {
    uint64_t bytes = 0;
    for (const ptx::Variable& variable : module_.variables) {
      bytes += variable.bytes;
      if (bytes <= options_.max_variable_bytes) continue;
      return absl::ResourceExhaustedError(fmt::format(
          "{}:{}:{}: with '{}' the file's variables have {} bytes; without a "
          "GPU the limit is {}",
          module_.file, variable.at.line, variable.at.column, variable.name,
          bytes, options_.max_variable_bytes));
    }
    return absl::OkStatus();
  }

  // A function that does what is not supported has no code.
  absl::Status LowerFunction(uint32_t f, Constants& constants) {
    const size_t ops = program_->ops.size();
    const size_t calls = program_->calls.size();
    const size_t matrices = program_->matrices.size();
    FunctionLowering lowering(module_, f, placement_, &constants,
                              program_.get());
    const absl::Status status = lowering.Run();
    if (!absl::IsUnimplemented(status)) return status;
    program_->ops.resize(ops);
    program_->info.resize(ops);
    program_->calls.resize(calls);
    program_->matrices.resize(matrices);
    program_->functions[f].refused = std::string(status.message());
    return absl::OkStatus();
  }

  void RefuseKernels() {
    for (uint32_t f = 0; f < module_.functions.size(); ++f) {
      ProgramFunction& kernel = program_->functions[f];
      if (!kernel.is_entry || !kernel.refused.empty()) continue;
      for (const uint32_t r : Reachable(f)) {
        if (program_->functions[r].refused.empty()) continue;
        kernel.refused = program_->functions[r].refused;
        break;
      }
    }
  }

  void FindCooperative() {
    for (uint32_t f = 0; f < module_.functions.size(); ++f) {
      if (!program_->functions[f].is_entry) continue;
      program_->functions[f].asks_for_workspace =
          std::ranges::any_of(Reachable(f), [this](uint32_t r) {
            const auto& body = module_.functions[r].body;
            return std::ranges::any_of(body, [](const auto& instruction) {
              return std::ranges::count(instruction.operands, "%envreg2",
                                        &ptx::Operand::name) != 0;
            });
          });
    }
  }

  void FindReferences() {
    const size_t count = module_.functions.size();
    references_.resize(count);
    program_->functions.resize(count);
    for (size_t f = 0; f < count; ++f) {
      const ptx::Function& function = module_.functions[f];
      program_->functions[f].name = function.name;
      program_->functions[f].is_entry = function.is_entry && function.defined;
      program_->functions[f].source = &function;
      for (const ptx::Instruction& instruction : function.body) {
        for (const ptx::Operand& operand : instruction.operands) {
          Collect(operand, references_[f]);
        }
      }
    }
    std::set<uint32_t> with_address;
    for (const ptx::Variable& variable : module_.variables) {
      for (const ptx::Relocation& relocation : variable.relocations) {
        if (const auto f = FunctionNamed(relocation.name)) {
          with_address.insert(*f);
        }
      }
    }
    for (const ptx::Function& function : module_.functions) {
      for (const ptx::Instruction& instruction : function.body) {
        if (instruction.opcode != "mov") continue;
        for (const ptx::Operand& operand : instruction.operands) {
          if (operand.kind == Kind::kFunction) {
            with_address.insert(operand.index);
          }
        }
      }
    }
    for (References& references : references_) {
      if (!references.calls_by_address) continue;
      references.functions.insert(with_address.begin(), with_address.end());
    }
  }

  // All, or what options_.kernel reaches.
  absl::Status FindNeeded() {
    const bool all = options_.kernel.empty();
    needs_function_.assign(module_.functions.size(), all);
    needs_variable_.assign(module_.variables.size(), all);
    if (all) return absl::OkStatus();
    const auto kernel = FunctionNamed(options_.kernel);
    if (!kernel || !program_->functions[*kernel].is_entry) {
      return absl::NotFoundError(
          fmt::format("{}: no kernel '{}'", module_.file, options_.kernel));
    }
    for (ProgramFunction& function : program_->functions) {
      function.is_entry = &function == &program_->functions[*kernel];
    }
    NeedFunction(*kernel);
    return absl::OkStatus();
  }

  void NeedFunction(uint32_t kernel) {
    for (const uint32_t f : Reachable(kernel)) {
      if (needs_function_[f]) continue;
      needs_function_[f] = true;
      for (const uint32_t v : references_[f].variables) NeedVariable(v);
    }
  }

  // With everything whose address it holds.
  void NeedVariable(uint32_t v) {
    if (needs_variable_[v]) return;
    needs_variable_[v] = true;
    for (const auto& relocation : module_.variables[v].relocations) {
      if (const auto f = FunctionNamed(relocation.name)) NeedFunction(*f);
      const auto named = std::ranges::find(module_.variables, relocation.name,
                                           &ptx::Variable::name);
      if (named == module_.variables.end()) continue;
      NeedVariable(static_cast<uint32_t>(named - module_.variables.begin()));
    }
  }

  std::optional<uint32_t> FunctionNamed(std::string_view name) const {
    return sim::FunctionNamed(module_, name);
  }

  // The functions that may run when this one does.
  std::set<uint32_t> Reachable(uint32_t from) const {
    std::set<uint32_t> reached{from};
    std::vector<uint32_t> left{from};
    while (!left.empty()) {
      const uint32_t f = left.back();
      left.pop_back();
      for (const uint32_t to : references_[f].functions) {
        if (reached.insert(to).second) left.push_back(to);
      }
    }
    return reached;
  }

  absl::Status PlaceVariables() {
    placement_.of_module.resize(module_.variables.size());
    for (uint32_t v = 0; v < module_.variables.size(); ++v) {
      const ptx::Variable& variable = module_.variables[v];
      if (!needs_variable_[v] || (variable.space != ptx::Space::kGlobal &&
                                  variable.space != ptx::Space::kConst)) {
        continue;
      }
      if (variable.external) {
        return absl::InvalidArgumentError(fmt::format(
            "{}:{}:{}: '{}' is defined in another module, which is not "
            "supported",
            module_.file, variable.at.line, variable.at.column, variable.name));
      }
      ASSIGN_OR_RETURN(
          const auto address,
          memory_->Allocate(variable.bytes, std::string(variable.name)));
      placement_.of_module[v] = address;
      program_->variables.push_back(
          {variable.name, address, variable.bytes, &variable});
    }
    return StoreFirstValues(*program_, memory_);
  }

  // Lays out shared memory: the module's variables, then those of the function,
  // then what the launch adds. Each kernel has as much as everything that it
  // reaches needs.
  void PlaceShared() {
    const size_t count = module_.functions.size();
    placement_.functions.resize(count);
    uint64_t at = 0;
    std::vector<uint64_t> ends(module_.variables.size());
    for (uint32_t v = 0; v < module_.variables.size(); ++v) {
      const ptx::Variable& variable = module_.variables[v];
      if (variable.space != ptx::Space::kShared || variable.bytes == 0 ||
          !needs_variable_[v]) {
        continue;
      }
      at = AlignUp(at, variable.align);
      placement_.of_module[v] = at;
      at += variable.bytes;
      ends[v] = at;
    }
    // Several kernels may call the same function, so a called function's own
    // variables lie behind all of the module's.
    uint64_t common = at;
    std::vector<uint64_t> own(count);
    for (uint32_t f = 0; f < count; ++f) {
      if (!needs_function_[f]) continue;
      const ptx::Function& function = module_.functions[f];
      placement_.functions[f].variables.resize(function.variables.size());
      uint64_t next = common;
      if (function.is_entry) {
        next = 0;
        for (const uint32_t r : Reachable(f)) {
          for (const uint32_t v : references_[r].variables) {
            next = std::max(next, ends[v]);
          }
        }
      }
      for (size_t v = 0; v < function.variables.size(); ++v) {
        const ptx::Variable& variable = function.variables[v];
        if (variable.space != ptx::Space::kShared) continue;
        next = AlignUp(next, variable.align);
        placement_.functions[f].variables[v] = next;
        next += variable.bytes;
      }
      own[f] = next;
      if (!function.is_entry) common = std::max(common, next);
    }
    uint64_t dynamic = 0;
    for (uint32_t f = 0; f < count; ++f) {
      if (!module_.functions[f].is_entry || !needs_function_[f]) continue;
      uint64_t bytes = own[f];
      for (const uint32_t r : Reachable(f)) {
        if (r != f && HasShared(r)) bytes = std::max(bytes, own[r]);
      }
      program_->functions[f].static_shared_bytes =
          static_cast<uint32_t>(AlignUp(bytes, 16));
      dynamic = std::max(dynamic,
                         uint64_t{program_->functions[f].static_shared_bytes});
    }
    // The memory that the launch adds lies at one place for all kernels of a
    // module, because functions that they share name it, too.
    for (uint32_t v = 0; v < module_.variables.size(); ++v) {
      const ptx::Variable& variable = module_.variables[v];
      if (variable.space != ptx::Space::kShared || variable.bytes != 0)
        continue;
      placement_.of_module[v] = AlignUp(dynamic, 128);
      for (uint32_t f = 0; f < count; ++f) {
        if (!module_.functions[f].is_entry) continue;
        for (const uint32_t r : Reachable(f)) {
          if (!references_[r].variables.contains(v)) continue;
          program_->functions[f].static_shared_bytes =
              static_cast<uint32_t>(placement_.of_module[v]);
        }
      }
    }
  }
  bool HasShared(uint32_t f) const {
    return std::ranges::count(module_.functions[f].variables,
                              ptx::Space::kShared, &ptx::Variable::space) != 0;
  }

  // Lays out local memory. A frame has parameters, results, local variables,
  // and what calls pass; the next call reuses the places of the last one.
  absl::Status PlaceFrames() {
    for (uint32_t f = 0; f < module_.functions.size(); ++f) {
      if (!needs_function_[f]) continue;
      const ptx::Function& function = module_.functions[f];
      Placement::OfFunction& to = placement_.functions[f];
      const size_t results = function.results.size();
      const size_t own = results + function.parameters.size();
      uint64_t at = 0;
      for (size_t v = 0; v < function.variables.size(); ++v) {
        const ptx::Variable& variable = function.variables[v];
        if (function.is_entry && v < own) {
          to.variables[v] = function.ParameterOffset(v);
          continue;
        }
        const bool passed = variable.space == ptx::Space::kParam && v >= own;
        if (passed || (variable.space != ptx::Space::kLocal &&
                       variable.space != ptx::Space::kParam)) {
          continue;
        }
        at = AlignUp(at, variable.align);
        to.variables[v] = at;
        at += variable.bytes;
      }
      at = PlacePassed(function, own, AlignUp(at, 16), to.variables);
      to.local_bytes = static_cast<uint32_t>(AlignUp(at, 16));
      ProgramFunction& program = program_->functions[f];
      program.local_bytes = to.local_bytes;
      for (size_t v = 0; v < own && !function.is_entry; ++v) {
        (v < results ? program.results : program.parameters)
            .push_back({static_cast<uint32_t>(to.variables[v]),
                        static_cast<uint32_t>(function.variables[v].bytes)});
      }
      if (at > kMaxLocalBytes) {
        return absl::InvalidArgumentError(fmt::format(
            "{}:{}:{}: '{}' needs {} bytes of local memory a thread: the limit "
            "is {}",
            module_.file, function.at.line, function.at.column, function.name,
            at, kMaxLocalBytes));
      }
    }
    return absl::OkStatus();
  }

  // Two variables that are used in separate stretches of the text share their
  // place. Returns where the last one ends.
  static uint64_t PlacePassed(const ptx::Function& function, size_t own,
                              uint64_t begin, std::vector<uint64_t>& places) {
    struct Stretch {
      uint32_t variable = 0;
      size_t first = 0;
      size_t last = 0;
    };
    std::unordered_map<uint32_t, Stretch> found;
    for (size_t i = 0; i < function.body.size(); ++i) {
      const std::function<void(const ptx::Operand&)> visit =
          [&](const ptx::Operand& operand) {
            if (NamesVariable(operand) && !operand.of_module &&
                operand.index >= own &&
                function.variables[operand.index].space == ptx::Space::kParam) {
              Stretch& stretch =
                  found.try_emplace(operand.index, Stretch{operand.index, i, i})
                      .first->second;
              stretch.last = i;
            }
            for (const ptx::Operand& part : operand.parts) visit(part);
          };
      for (const ptx::Operand& operand : function.body[i].operands) {
        visit(operand);
      }
    }
    std::vector<Stretch> stretches;
    for (const auto& [index, stretch] : found) stretches.push_back(stretch);
    std::ranges::sort(stretches, {}, [](const Stretch& stretch) {
      return std::pair(stretch.first, stretch.variable);
    });
    uint64_t most = begin;
    uint64_t at = begin;
    size_t busy_until = 0;
    for (const Stretch& stretch : stretches) {
      if (stretch.first > busy_until) at = begin;
      const ptx::Variable& variable = function.variables[stretch.variable];
      at = AlignUp(at, variable.align);
      places[stretch.variable] = at;
      at += variable.bytes;
      most = std::max(most, at);
      busy_until = std::max(busy_until, stretch.last);
    }
    return most;
  }

  // A kernel needs the registers of its deepest chain of calls; a recursion
  // counts once.
  void CountRegisters() {
    std::vector<uint32_t> own;
    for (const ProgramFunction& function : program_->functions) {
      own.push_back(function.registers);
    }
    std::vector<bool> begun(own.size());
    const std::function<uint32_t(uint32_t)> deepest = [&](uint32_t at) {
      uint32_t& registers = program_->functions[at].registers;
      if (begun[at]) return registers;
      begun[at] = true;
      uint32_t below = 0;
      for (const uint32_t to : references_[at].functions) {
        if (to != at) below = std::max(below, deepest(to));
      }
      return registers = own[at] + below;
    };
    for (uint32_t f = 0; f < own.size(); ++f) deepest(f);
  }

  const ptx::Module& module_;
  Memory* const memory_;
  const LowerOptions options_;
  std::shared_ptr<Program> program_;
  std::vector<References> references_;
  std::vector<bool> needs_function_;
  std::vector<bool> needs_variable_;
  Placement placement_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Program>> Lower(
    std::shared_ptr<const ptx::Module> module, Memory* memory,
    LowerOptions options) {
  return ModuleLowering(std::move(module), memory, options).Run();
}

absl::Status StoreFirstValues(const Program& program, Memory* memory) {
  const ptx::Module& module = *program.module;
  for (const ProgramVariable& variable : program.variables) {
    ASSIGN_OR_RETURN(const auto bytes,
                     memory->At(variable.address, variable.bytes));
    const ptx::Variable& source = *variable.source;
    std::ranges::fill(std::ranges::copy(source.initial, bytes.begin()).out,
                      bytes.end(), std::byte{0});
    for (const ptx::Relocation& relocation : source.relocations) {
      const auto named = std::ranges::find(program.variables, relocation.name,
                                           &ProgramVariable::name);
      uint64_t address = 0;
      if (const auto f = FunctionNamed(module, relocation.name);
          f && relocation.offset == 0) {
        address = AddressOfFunction(*f);
      } else if (named != program.variables.end()) {
        address = named->address + static_cast<uint64_t>(relocation.offset);
      } else {
        return absl::UnimplementedError(fmt::format(
            "{}:{}:{}: '{}' holds the address of '{}', which is no variable in "
            "global memory and no function",
            module.file, source.at.line, source.at.column, source.name,
            relocation.name));
      }
      std::memcpy(bytes.data() + relocation.at, &address, sizeof(address));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string_view> KnownOpcodes() {
  return FunctionLowering::Opcodes();
}

}  // namespace carillon::sim
