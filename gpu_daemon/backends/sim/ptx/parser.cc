#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "gpu_daemon/backends/sim/ptx/module.h"

namespace carillon::sim::ptx {
namespace {

using Kind = Token::Kind;

// Far more than nvcc writes; a text that says more is broken.
constexpr uint64_t kMostRegisters = 1 << 20;  // a function
constexpr uint64_t kMostBytes = 1 << 30;      // a variable
constexpr uint32_t kMostAlign = 1 << 12;
constexpr int kDeepest = 64;  // braces within braces

// A name's meaning in one pair of braces.
struct Name {
  enum class Kind : uint8_t { kRegister, kRegisters, kVariable, kLabel };
  Kind kind = Kind::kRegister;
  uint32_t index = 0;  // the first of kRegisters
  uint32_t count = 1;
};
using Scope = std::unordered_map<std::string_view, Name>;

// An operand that names what is not known yet: a label further down, or a
// function.
struct Pending {
  size_t instruction = 0;
  size_t operand = 0;
  int depth = 0;  // of the braces that it stands in
};

class Parser {
 public:
  explicit Parser(Module* module) : module_(module), lexer_(*module->text) {
    Take();
  }

  absl::Status Run() {
    while (!Ended() && Statement()) {
    }
    if (error_.ok()) CheckFunctions();
    return error_;
  }

 private:
  // --- Tokens and errors.

  bool Ended() const { return token_.kind == Kind::kEnd; }
  void Take() {
    token_ = lexer_.Next();
    if (token_.kind == Kind::kBad) Fail(token_.at, token_.text);
  }
  bool TakeIf(std::string_view what) {
    if (!token_.Is(what)) return false;
    Take();
    return true;
  }
  // False, for whoever gives up.
  bool Fail(Location at, std::string_view what) {
    if (error_.ok()) {
      error_ = absl::InvalidArgumentError(
          fmt::format("{}:{}:{}: {}", module_->file, at.line, at.column, what));
    }
    return false;
  }
  std::string Found() const {
    if (Ended()) return "the end of the text";
    return fmt::format("'{}'", token_.text);
  }
  bool Expect(std::string_view what) {
    if (TakeIf(what)) return true;
    return Fail(token_.at,
                fmt::format("expected '{}', found {}", what, Found()));
  }
  bool TakeName(std::string_view what, std::string_view& name) {
    if (token_.kind != Kind::kWord || token_.text.starts_with('.')) {
      return Fail(token_.at,
                  fmt::format("expected {}, found {}", what, Found()));
    }
    name = token_.text;
    Take();
    return true;
  }
  bool TakeInteger(std::string_view what, uint64_t least, uint64_t most,
                   uint64_t& value) {
    if (token_.kind != Kind::kInteger) {
      return Fail(token_.at,
                  fmt::format("expected {}, found {}", what, Found()));
    }
    if (token_.value < least || token_.value > most) {
      return Fail(token_.at, fmt::format("{} is {}: must be from {} to {}",
                                         what, token_.value, least, most));
    }
    value = token_.value;
    Take();
    return true;
  }

  // --- A module.

  bool Statement() {
    if (token_.kind != Kind::kWord) {
      return Fail(token_.at,
                  fmt::format("expected a directive, found {}", Found()));
    }
    if (token_.Is(".version")) return Version();
    if (token_.Is(".target")) return Target();
    if (token_.Is(".address_size")) {
      Take();
      uint64_t bits = 0;
      return TakeInteger("the address size", 64, 64, bits);
    }
    if (IsDebugging()) return SkipDebugging();
    if (module_->target.empty()) {
      return Fail(token_.at, "a module begins with .version and .target");
    }
    bool external = false;
    for (;;) {
      if (TakeIf(".extern")) {
        external = true;
      } else if (!TakeIf(".visible") && !TakeIf(".weak") &&
                 !TakeIf(".common")) {
        break;
      }
    }
    if (token_.Is(".entry") || token_.Is(".func")) return ParseFunction();
    return VariableStatement(external, /*function=*/nullptr);
  }

  bool Version() {
    Take();
    // "9.0": a number with a fraction.
    if (token_.kind != Kind::kFloat && token_.kind != Kind::kInteger) {
      return Fail(token_.at,
                  fmt::format("expected a version, found {}", Found()));
    }
    const size_t dot = token_.text.find('.');
    const auto number = [](std::string_view digits) {
      uint32_t value = 0;
      for (const char c : digits) {
        if (c < '0' || c > '9' || value > 1000) return 0u;
        value = value * 10 + static_cast<uint32_t>(c - '0');
      }
      return value;
    };
    module_->version_major = number(token_.text.substr(0, dot));
    module_->version_minor =
        dot == std::string_view::npos ? 0 : number(token_.text.substr(dot + 1));
    if (module_->version_major == 0) {
      return Fail(token_.at, fmt::format("'{}' is no version", token_.text));
    }
    Take();
    return true;
  }

  bool Target() {
    Take();
    if (!TakeName("a target", module_->target)) return false;
    while (TakeIf(",")) {
      std::string_view more;
      if (!TakeName("a target", more)) return false;
    }
    return true;
  }

  // What says nothing about what is executed.
  bool IsDebugging() const {
    return token_.Is(".file") || token_.Is(".loc") || token_.Is(".section") ||
           token_.Is(".pragma");
  }
  bool SkipDebugging() {
    if (token_.Is(".pragma")) {
      while (!Ended() && error_.ok() && !token_.Is(";")) Take();
      return error_.ok() && Expect(";");
    }
    if (token_.Is(".section")) {
      while (!Ended() && error_.ok() && !token_.Is("{")) Take();
      while (!Ended() && error_.ok() && !token_.Is("}")) Take();
      return error_.ok() && Expect("}");
    }
    // .file and .loc end with their line.
    const uint32_t line = token_.at.line;
    while (!Ended() && error_.ok() && token_.at.line == line) Take();
    return error_.ok();
  }

  // --- Variables.

  bool VariableStatement(bool external, Function* function) {
    Variable variable;
    if (!Declaration(variable)) return false;
    variable.external = external;
    // "bytes" of an array without a size; only what is launched says it.
    if (variable.bytes == 0 &&
        !(external && variable.space == Space::kShared)) {
      return Fail(variable.at, fmt::format("'{}' has no size", variable.name));
    }
    if (!function && variable.space != Space::kConst &&
        variable.space != Space::kGlobal && variable.space != Space::kShared &&
        variable.space != Space::kLocal) {
      return Fail(variable.at, "parameters belong to functions");
    }
    if (TakeIf("=") && !Initializer(variable)) return false;
    if (!Expect(";")) return false;
    return Declare(std::move(variable), function);
  }

  bool Declare(Variable variable, Function* function) {
    std::vector<Variable>& variables =
        function ? function->variables : module_->variables;
    if (!function) {
      // Declared as external first, and then defined; or external twice.
      const auto known = globals_.find(variable.name);
      if (known != globals_.end()) {
        Variable& before = variables[known->second.index];
        if (!before.external && !variable.external) {
          return Fail(variable.at,
                      fmt::format("'{}' is defined twice", variable.name));
        }
        if (!variable.external) before = std::move(variable);
        return true;
      }
    }
    const Name name{Name::Kind::kVariable,
                    static_cast<uint32_t>(variables.size())};
    if (!Define(variable.name, name, variable.at,
                function ? &scopes_.back() : &globals_)) {
      return false;
    }
    variables.push_back(std::move(variable));
    return true;
  }

  bool Define(std::string_view text, Name name, Location at, Scope* scope) {
    if (scope->emplace(text, name).second) return true;
    return Fail(at, fmt::format("'{}' is defined twice", text));
  }

  // ".shared .align 4 .b8 name[1024]", ".param .u64 .ptr .align 1 name".
  bool Declaration(Variable& variable) {
    variable.at = token_.at;
    const std::string_view space = token_.text;
    const auto known = token_.kind == Kind::kWord && space.starts_with('.')
                           ? SpaceNamed(space.substr(1))
                           : std::nullopt;
    if (!known) {
      return Fail(
          token_.at,
          fmt::format("{} is no directive that is known here", Found()));
    }
    variable.space = *known;
    Take();
    uint64_t align = 0;
    uint64_t vector = 1;
    std::optional<Type> type;
    while (token_.kind == Kind::kWord && token_.text.starts_with('.')) {
      if (TakeIf(".align")) {
        // Of a pointer parameter, it is what the pointer leads to that is
        // aligned.
        uint64_t said = 0;
        if (!TakeInteger("the alignment", 1, kMostAlign, said)) return false;
        if (!std::has_single_bit(said)) {
          return Fail(token_.at,
                      fmt::format("alignment {} is no power of two", said));
        }
        if (!type) align = said;
      } else if (token_.Is(".v2") || token_.Is(".v4")) {
        vector = token_.Is(".v2") ? 2 : 4;
        Take();
      } else if (type) {
        // ".ptr" and the space that it leads to.
        if (!token_.Is(".ptr") && !SpaceNamed(token_.text.substr(1))) {
          return Fail(token_.at, fmt::format("unexpected {}", Found()));
        }
        Take();
      } else {
        type = TypeNamed(token_.text.substr(1));
        if (!type || *type == Type::kPred) {
          return Fail(token_.at,
                      fmt::format("{} is no type of a variable", Found()));
        }
        Take();
      }
    }
    if (!type) {
      return Fail(token_.at, fmt::format("expected a type, found {}", Found()));
    }
    variable.type = *type;
    const uint64_t element = BytesOf(*type) * vector;
    variable.align = static_cast<uint32_t>(align != 0 ? align : element);
    if (!TakeName("the name of a variable", variable.name)) return false;
    variable.bytes = element;
    while (TakeIf("[")) {
      uint64_t count = 0;
      if (!token_.Is("]") &&
          !TakeInteger("the size of an array", 0, kMostBytes, count)) {
        return false;
      }
      if (count != 0 && variable.bytes > kMostBytes / count) {
        return Fail(variable.at, fmt::format("'{}' has more than {} bytes",
                                             variable.name, kMostBytes));
      }
      variable.bytes *= count;
      if (!Expect("]")) return false;
    }
    return true;
  }

  // "{1, 2, name+4, generic(name)}", nested or not, or one value.
  bool Initializer(Variable& variable) {
    const uint32_t bytes = BytesOf(variable.type);
    int depth = 0;
    do {
      while (TakeIf("{")) ++depth;
      if (!InitialValue(variable, bytes)) return false;
      while (depth > 0 && TakeIf("}")) --depth;
    } while (TakeIf(","));
    if (depth != 0) return Fail(token_.at, "an initializer that never ends");
    if (variable.initial.size() > variable.bytes) {
      return Fail(
          variable.at,
          fmt::format("'{}' has {} bytes, and {} of initial values",
                      variable.name, variable.bytes, variable.initial.size()));
    }
    return true;
  }

  bool InitialValue(Variable& variable, uint32_t bytes) {
    uint64_t value = 0;
    if (token_.kind == Kind::kWord && !token_.text.starts_with('.')) {
      Relocation relocation{.at = variable.initial.size()};
      relocation.generic = token_.Is("generic");
      if (relocation.generic) {
        Take();
        if (!Expect("(")) return false;
      }
      if (bytes != 8) {
        return Fail(token_.at, "an address needs an element of 8 bytes");
      }
      if (!TakeName("a variable", relocation.name)) return false;
      if (relocation.generic && !Expect(")")) return false;
      if (!Offset(relocation.offset)) return false;
      variable.relocations.push_back(relocation);
    } else {
      Operand operand;
      if (!Immediate(operand)) return false;
      value = operand.value;
      if (variable.type == Type::kF32 && operand.is_float &&
          !operand.is_single) {
        value = std::bit_cast<uint32_t>(
            static_cast<float>(std::bit_cast<double>(value)));
      }
    }
    for (uint32_t i = 0; i < bytes; ++i) {
      // Of b128, the upper half is zero.
      variable.initial.push_back(
          i < 8 ? static_cast<std::byte>(value >> (8 * i)) : std::byte{0});
    }
    return true;
  }

  // "+4", "-4", "+-4", or nothing.
  bool Offset(int64_t& offset) {
    while (token_.Is("+") || token_.Is("-")) {
      bool minus = token_.Is("-");
      Take();
      if (TakeIf("-")) minus = !minus;
      if (token_.kind != Kind::kInteger) {
        return Fail(token_.at,
                    fmt::format("expected an offset, found {}", Found()));
      }
      const auto by = static_cast<int64_t>(token_.value);
      if (minus ? __builtin_sub_overflow(offset, by, &offset)
                : __builtin_add_overflow(offset, by, &offset)) {
        return Fail(token_.at, "an offset of more than 64 bits");
      }
      Take();
    }
    return true;
  }

  // --- Functions.

  bool ParseFunction() {
    Function function;
    function.at = token_.at;
    function.is_entry = token_.Is(".entry");
    Take();
    scopes_.assign(1, Scope());
    pending_.clear();
    if (!function.is_entry && token_.Is("(") && !Parameters(function.results)) {
      return false;
    }
    if (!TakeName("the name of a function", function.name)) return false;
    if (token_.Is("(") && !Parameters(function.parameters)) return false;
    for (std::vector<Variable>* list :
         {&function.results, &function.parameters}) {
      for (Variable& parameter : *list) {
        // Also in the body's scope, as variables.
        const Variable copy = parameter;
        if (!Declare(copy, &function)) return false;
      }
    }
    if (!Attributes(function)) return false;
    const auto known = functions_.find(function.name);
    if (TakeIf(";")) {
      if (known == functions_.end()) AddFunction(std::move(function));
      return true;
    }
    if (known != functions_.end() &&
        module_->functions[known->second].defined) {
      return Fail(function.at,
                  fmt::format("'{}' is defined twice", function.name));
    }
    function.defined = true;
    if (!Body(function)) return false;
    if (known != functions_.end()) {
      module_->functions[known->second] = std::move(function);
    } else {
      AddFunction(std::move(function));
    }
    return true;
  }

  void AddFunction(Function function) {
    functions_.emplace(function.name,
                       static_cast<uint32_t>(module_->functions.size()));
    module_->functions.push_back(std::move(function));
  }

  bool Parameters(std::vector<Variable>& parameters) {
    if (!Expect("(")) return false;
    if (TakeIf(")")) return true;
    do {
      Variable parameter;
      if (!Declaration(parameter)) return false;
      if (parameter.space != Space::kParam) {
        return Fail(parameter.at,
                    fmt::format("parameter '{}' lies in .{}", parameter.name,
                                NameOf(parameter.space)));
      }
      if (parameter.bytes == 0) {
        return Fail(parameter.at,
                    fmt::format("'{}' has no size", parameter.name));
      }
      parameters.push_back(std::move(parameter));
    } while (TakeIf(","));
    return Expect(")");
  }

  bool Attributes(Function& function) {
    constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
    const auto take = [&](uint32_t& to) {
      uint64_t value = 0;
      if (!TakeInteger("the number", 1, kMost, value)) return false;
      to = static_cast<uint32_t>(value);
      return true;
    };
    while (token_.kind == Kind::kWord && token_.text.starts_with('.')) {
      if (token_.Is(".maxntid") || token_.Is(".reqntid")) {
        auto& block = token_.Is(".maxntid") ? function.max_block
                                            : function.required_block;
        Take();
        block = {1, 1, 1};
        size_t dimension = 0;
        do {
          if (dimension == 3) {
            return Fail(token_.at, "a block has three dimensions at most");
          }
          if (!take(block[dimension++])) return false;
        } while (TakeIf(","));
      } else if (TakeIf(".minnctapersm")) {
        if (!take(function.min_blocks)) return false;
      } else if (TakeIf(".maxnreg")) {
        if (!take(function.max_registers)) return false;
      } else if (!TakeIf(".noreturn")) {
        if (IsDebugging()) {
          if (!SkipDebugging()) return false;
          continue;
        }
        return Fail(token_.at, fmt::format("{} is not supported", Found()));
      }
    }
    return true;
  }

  bool Body(Function& function) {
    if (!Expect("{")) return false;
    scopes_.emplace_back();
    while (scopes_.size() > 1) {
      if (Ended()) {
        return Fail(token_.at,
                    fmt::format("the body of '{}' never ends", function.name));
      }
      if (!BodyStatement(function)) return false;
    }
    for (const Pending& pending : pending_) {
      Operand& operand =
          function.body[pending.instruction].operands[pending.operand];
      const auto called = functions_.find(operand.name);
      if (called == functions_.end() && operand.name != function.name) {
        return Fail(operand.at,
                    fmt::format("'{}' is not defined", operand.name));
      }
      operand.kind = Operand::Kind::kFunction;
      operand.index = called != functions_.end()
                          ? called->second
                          : static_cast<uint32_t>(module_->functions.size());
    }
    return true;
  }

  bool BodyStatement(Function& function) {
    if (TakeIf("{")) {
      if (scopes_.size() > kDeepest) {
        return Fail(
            token_.at,
            fmt::format("more than {} braces within each other", kDeepest));
      }
      scopes_.emplace_back();
      return true;
    }
    if (TakeIf("}")) return CloseScope(function);
    if (IsDebugging()) return SkipDebugging();
    if (token_.Is(".reg")) return Registers(function);
    if (token_.Is(".callprototype") || token_.Is(".calltargets")) {
      return Fail(token_.at, "calls by address are not supported");
    }
    if (token_.kind == Kind::kWord && token_.text.starts_with('.') &&
        !token_.Is(".branchtargets")) {
      return VariableStatement(/*external=*/false, &function);
    }
    return LabelOrInstruction(function);
  }

  // Names of labels, as far as they are defined in the braces that end.
  bool CloseScope(Function& function) {
    const int depth = static_cast<int>(scopes_.size());
    std::erase_if(pending_, [&](Pending& pending) {
      if (pending.depth < depth) return false;
      pending.depth = depth - 1;
      Operand& operand =
          function.body[pending.instruction].operands[pending.operand];
      const auto label = scopes_.back().find(operand.name);
      if (label == scopes_.back().end()) return false;
      operand.kind = Operand::Kind::kLabel;
      operand.index = label->second.index;
      return true;
    });
    scopes_.pop_back();
    return true;
  }

  // ".reg .b32 %r<33>;", ".reg .pred p, q;"
  bool Registers(Function& function) {
    Take();
    const auto type = token_.kind == Kind::kWord && token_.text.starts_with('.')
                          ? TypeNamed(token_.text.substr(1))
                          : std::nullopt;
    if (!type) {
      return Fail(token_.at,
                  fmt::format("{} is no type of a register", Found()));
    }
    Take();
    do {
      const Location at = token_.at;
      std::string_view text;
      if (!TakeName("the name of a register", text)) return false;
      uint64_t count = 1;
      Name name{Name::Kind::kRegister,
                static_cast<uint32_t>(function.registers.size())};
      if (TakeIf("<")) {
        name.kind = Name::Kind::kRegisters;
        if (!TakeInteger("the number of registers", 1, kMostRegisters, count) ||
            !Expect(">")) {
          return false;
        }
      }
      if (function.registers.size() + count > kMostRegisters) {
        return Fail(at, fmt::format("more than {} registers", kMostRegisters));
      }
      name.count = static_cast<uint32_t>(count);
      if (!Define(text, name, at, &scopes_.back())) return false;
      function.registers.insert(function.registers.end(), count, {text, *type});
    } while (TakeIf(","));
    return Expect(";");
  }

  // --- Instructions.

  bool LabelOrInstruction(Function& function) {
    Instruction instruction;
    instruction.at = token_.at;
    if (TakeIf("@")) {
      Operand guard;
      if (!ParseOperand(function, guard)) return false;
      if (guard.kind != Operand::Kind::kRegister ||
          function.registers[guard.index].type != Type::kPred) {
        return Fail(guard.at, "a guard is a predicate register");
      }
      instruction.guard = {guard.index, guard.negated};
    }
    if (token_.kind != Kind::kWord) {
      return Fail(token_.at,
                  fmt::format("expected an instruction, found {}", Found()));
    }
    const Location at = token_.at;
    instruction.name = token_.text;
    Take();
    if (!instruction.guard && token_.Is(":")) {
      Take();
      return Define(
          instruction.name,
          {Name::Kind::kLabel, static_cast<uint32_t>(function.body.size())}, at,
          &scopes_.back());
    }
    SplitName(instruction);
    if (!token_.Is(";")) {
      do {
        Operand operand;
        if (!ParseOperand(function, operand)) return false;
        instruction.operands.push_back(std::move(operand));
      } while (TakeIf(","));
    }
    if (!Expect(";")) return false;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      // Names that nothing known bears.
      if (instruction.operands[i].kind == Operand::Kind::kLabel) {
        pending_.push_back(
            {function.body.size(), i, static_cast<int>(scopes_.size())});
      }
    }
    function.body.push_back(std::move(instruction));
    return true;
  }

  static void SplitName(Instruction& instruction) {
    std::string_view rest = instruction.name;
    const size_t first = rest.find('.', 1);
    instruction.opcode = rest.substr(0, first);
    while (first != std::string_view::npos) {
      rest.remove_prefix(instruction.suffixes.empty() ? first + 1 : 0);
      const size_t dot = rest.find('.');
      instruction.suffixes.push_back(rest.substr(0, dot));
      if (dot == std::string_view::npos) return;
      rest.remove_prefix(dot + 1);
    }
  }

  bool ParseOperand(Function& function, Operand& operand) {
    if (!SimpleOperand(function, operand)) return false;
    if (!token_.Is("|")) return true;
    Take();
    Operand second;
    const Location at = operand.at;
    if (!SimpleOperand(function, second)) return false;
    Operand pair{.kind = Operand::Kind::kPair, .at = at};
    pair.parts = {std::move(operand), std::move(second)};
    operand = std::move(pair);
    return true;
  }

  bool SimpleOperand(Function& function, Operand& operand) {
    operand.at = token_.at;
    operand.name = token_.text;
    if (TakeIf("!")) {
      if (!Named(operand)) return false;
      operand.negated = true;
      if (operand.kind == Operand::Kind::kRegister) return true;
      return Fail(operand.at, "'!' is for predicate registers");
    }
    if (token_.Is("[")) return Address(function, operand);
    if (token_.Is("{")) {
      return List(function, operand, Operand::Kind::kVector, "}");
    }
    if (token_.Is("(")) {
      return List(function, operand, Operand::Kind::kTuple, ")");
    }
    if (token_.kind == Kind::kWord) {
      if (!Named(operand)) return false;
      return operand.kind != Operand::Kind::kVariable || Offset(operand.offset);
    }
    return Immediate(operand);
  }

  bool List(Function& function, Operand& operand, Operand::Kind kind,
            std::string_view end) {
    Take();
    operand.kind = kind;
    if (TakeIf(end)) return true;
    do {
      Operand part;
      if (token_.Is("(") || token_.Is("{")) {
        return Fail(token_.at, "lists do not nest");
      }
      if (!SimpleOperand(function, part)) return false;
      if (part.kind == Operand::Kind::kLabel) {
        return Fail(part.at, fmt::format("'{}' is not defined", part.name));
      }
      operand.parts.push_back(std::move(part));
    } while (TakeIf(","));
    return Expect(end);
  }

  bool Address(Function& function, Operand& operand) {
    Take();
    if (token_.kind == Kind::kWord) {
      if (!Named(operand)) return false;
      if (operand.kind != Operand::Kind::kRegister &&
          operand.kind != Operand::Kind::kVariable) {
        return Fail(operand.at,
                    fmt::format("'{}' is no address", operand.name));
      }
    } else if (!Immediate(operand)) {
      return false;
    }
    operand.base = operand.kind;
    operand.kind = Operand::Kind::kAddress;
    return Offset(operand.offset) && Expect("]");
  }

  bool Immediate(Operand& operand) {
    operand.at = token_.at;
    operand.kind = Operand::Kind::kImmediate;
    const bool minus = TakeIf("-");
    if (token_.kind == Kind::kInteger) {
      operand.value = minus ? 0 - token_.value : token_.value;
    } else if (token_.kind == Kind::kFloat) {
      operand.is_float = true;
      operand.is_single = token_.is_single;
      const uint64_t sign =
          token_.is_single ? uint64_t{1} << 31 : uint64_t{1} << 63;
      operand.value = minus ? token_.value ^ sign : token_.value;
    } else {
      return Fail(token_.at,
                  fmt::format("expected an operand, found {}", Found()));
    }
    Take();
    return true;
  }

  // A register, a variable, a special register, or kLabel: what is not known
  // yet.
  bool Named(Operand& operand) {
    operand.at = token_.at;
    if (!TakeName("an operand", operand.name)) return false;
    if (operand.name == "_") {
      operand.kind = Operand::Kind::kSink;
      return true;
    }
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (FindIn(*scope, operand)) return true;
    }
    if (FindIn(globals_, operand)) {
      operand.of_module = true;
      return true;
    }
    if (operand.name.starts_with('%')) {
      operand.kind = Operand::Kind::kSpecial;
      return true;
    }
    operand.kind = Operand::Kind::kLabel;
    return true;
  }

  static bool FindIn(const Scope& scope, Operand& operand) {
    auto found = scope.find(operand.name);
    if (found == scope.end()) {
      // %r12 of %r<33>.
      const std::string_view text = operand.name;
      size_t digits = text.size();
      while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9') {
        --digits;
      }
      if (digits == text.size() || text.size() - digits > 8) return false;
      if (text[digits] == '0' && digits + 1 != text.size()) return false;
      found = scope.find(text.substr(0, digits));
      if (found == scope.end() ||
          found->second.kind != Name::Kind::kRegisters) {
        return false;
      }
      uint32_t number = 0;
      for (const char c : text.substr(digits)) {
        number = number * 10 + static_cast<uint32_t>(c - '0');
      }
      if (number >= found->second.count) return false;
      operand.kind = Operand::Kind::kRegister;
      operand.index = found->second.index + number;
      return true;
    }
    switch (found->second.kind) {
      case Name::Kind::kRegister:
        operand.kind = Operand::Kind::kRegister;
        break;
      case Name::Kind::kVariable:
        operand.kind = Operand::Kind::kVariable;
        break;
      case Name::Kind::kRegisters:
      case Name::Kind::kLabel:
        // A label of these braces may be meant, or one of inner ones that comes
        // further down: see CloseScope().
        return false;
    }
    operand.index = found->second.index;
    return true;
  }

  void CheckFunctions() {
    if (module_->target.empty()) {
      Fail({}, "no PTX: a module begins with .version and .target");
    }
  }

  Module* const module_;
  Lexer lexer_;
  Token token_;
  absl::Status error_;
  Scope globals_;
  std::unordered_map<std::string_view, uint32_t> functions_;
  std::vector<Scope> scopes_;  // of the function, outermost first
  std::vector<Pending> pending_;
};

}  // namespace

absl::StatusOr<Module> ParseModule(std::string text, std::string file) {
  Module module;
  module.text = std::make_unique<const std::string>(std::move(text));
  module.file = std::move(file);
  const absl::Status status = Parser(&module).Run();
  if (!status.ok()) return status;
  return module;
}

absl::StatusOr<Module> ParseModuleFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file),
                   std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) {
    const std::string what = fmt::format("{}: {}", path, std::strerror(errno));
    return errno == EACCES ? absl::PermissionDeniedError(what)
                           : absl::NotFoundError(what);
  }
  return ParseModule(std::move(text), path);
}

}  // namespace carillon::sim::ptx
