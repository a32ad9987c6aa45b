// Functions and their instructions.
#include <algorithm>
#include <limits>
#include <utility>

#include "sim/ptx/parser.h"

namespace carillon::sim::ptx {
namespace {

using Kind = Token::Kind;

// Far more than nvcc writes; a text that says more is broken.
constexpr uint64_t kMaxRegisters = 1 << 20;  // a function
constexpr uint64_t kMaxModuleRegisters = 1 << 22;
constexpr int kMaxBraceDepth = 64;  // braces within braces

// Texture, surface and tensor instructions have operands like [a, {x, y}]. Nothing
// runs them here: they are kept by their names only, to be refused by these.
bool HasOtherOperands(const Instruction& instruction) {
  static constexpr std::string_view kOpcodes[] = {
      "tex", "tld4", "suld", "sust", "sured", "wgmma", "tcgen05", "multimem"};
  return std::ranges::count(kOpcodes, instruction.opcode) != 0 ||
         std::ranges::count(instruction.suffixes, "tensor") != 0;
}

}  // namespace

bool Parser::ParseFunction() {
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
      // The parameter is also a variable in the body's scope.
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
  if (known != functions_.end() && module_->functions[known->second].defined) {
    return Fail(function.at, "'{}' is defined twice", function.name);
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

void Parser::AddFunction(Function function) {
  functions_.emplace(function.name,
                     static_cast<uint32_t>(module_->functions.size()));
  module_->functions.push_back(std::move(function));
}

bool Parser::Parameters(std::vector<Variable>& parameters) {
  if (!Expect("(")) return false;
  if (TakeIf(")")) return true;
  do {
    Variable parameter;
    if (!Declaration(parameter)) return false;
    if (parameter.space != Space::kParam) {
      return Fail(parameter.at, "parameter '{}' lies in .{}", parameter.name,
                  NameOf(parameter.space));
    }
    if (parameter.bytes == 0) {
      return Fail(parameter.at, "'{}' has no size", parameter.name);
    }
    parameters.push_back(std::move(parameter));
  } while (TakeIf(","));
  return Expect(")");
}

bool Parser::Attributes(Function& function) {
  constexpr uint64_t kMaxCount = std::numeric_limits<uint32_t>::max();
  const auto take = [&](uint32_t& to) {
    uint64_t value = 0;
    if (!TakeInteger("the number", 1, kMaxCount, value)) return false;
    to = static_cast<uint32_t>(value);
    return true;
  };
  while (token_.kind == Kind::kWord && token_.text.starts_with('.')) {
    if (token_.Is(".maxntid") || token_.Is(".reqntid")) {
      auto& block =
          token_.Is(".maxntid") ? function.max_block : function.required_block;
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
    } else if (token_.Is(".explicitcluster") || token_.Is(".maxclusterrank") ||
               token_.Is(".reqnctapercluster")) {
      function.unsupported = token_.text;
      Take();
      uint32_t count = 0;
      while (token_.kind == Kind::kInteger && take(count)) TakeIf(",");
    } else if (!TakeIf(".noreturn")) {
      if (IsDebugging()) {
        if (!SkipDebugging()) return false;
        continue;
      }
      return Fail(token_.at, "{} is not supported", Found());
    }
  }
  return true;
}

bool Parser::Body(Function& function) {
  if (!Expect("{")) return false;
  scopes_.emplace_back();
  while (scopes_.size() > 1) {
    if (Ended()) {
      return Fail(token_.at, "the body of '{}' never ends", function.name);
    }
    if (!BodyStatement(function)) return false;
  }
  for (const Pending& pending : pending_) {
    Operand& operand =
        function.body[pending.instruction].operands[pending.operand];
    const auto called = functions_.find(operand.name);
    if (called == functions_.end() && operand.name != function.name) {
      return Fail(operand.at, "'{}' is not defined", operand.name);
    }
    operand.kind = Operand::Kind::kFunction;
    operand.index = called != functions_.end()
                        ? called->second
                        : static_cast<uint32_t>(module_->functions.size());
  }
  return true;
}

bool Parser::BodyStatement(Function& function) {
  if (TakeIf("{")) {
    if (scopes_.size() > kMaxBraceDepth) {
      return Fail(token_.at, "more than {} braces within each other",
                  kMaxBraceDepth);
    }
    scopes_.emplace_back();
    return true;
  }
  if (TakeIf("}")) return CloseScope(function);
  if (IsDebugging()) return SkipDebugging();
  if (token_.Is(".reg")) return Registers(function);
  if (token_.Is(".calltargets")) {
    return Fail(token_.at, "lists of call targets are not supported");
  }
  if (token_.kind == Kind::kWord && token_.text.starts_with('.') &&
      !token_.Is(".branchtargets")) {
    return VariableStatement(/*external=*/false, &function);
  }
  return LabelOrInstruction(function);
}

bool Parser::CallPrototype(std::string_view name, Location at,
                           Function& function) {
  Take();
  Prototype prototype;
  if (token_.Is("(") && !Parameters(prototype.results)) return false;
  if (!Expect("_") || !Parameters(prototype.parameters)) return false;
  TakeIf(".noreturn");
  if (!Expect(";")) return false;
  const auto index = static_cast<uint32_t>(function.prototypes.size());
  function.prototypes.push_back(std::move(prototype));
  return Define(name, {Name::Kind::kPrototype, index}, at, &scopes_.back());
}

// A branch may name a label before its definition, and inner braces may define
// the name anew, so a name is resolved only when the braces around it end.
bool Parser::CloseScope(Function& function) {
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

bool Parser::Registers(Function& function) {
  Take();
  const auto type = token_.kind == Kind::kWord && token_.text.starts_with('.')
                        ? TypeNamed(token_.text.substr(1))
                        : std::nullopt;
  if (!type) return Fail(token_.at, "{} is no type of a register", Found());
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
      if (!TakeInteger("the number of registers", 1, kMaxRegisters, count) ||
          !Expect(">")) {
        return false;
      }
    }
    if (function.registers.size() + count > kMaxRegisters) {
      return Fail(at, "more than {} registers", kMaxRegisters);
    }
    registers_ += count;
    if (registers_ > kMaxModuleRegisters) {
      return Fail(at, "more than {} registers in all functions",
                  kMaxModuleRegisters);
    }
    name.count = static_cast<uint32_t>(count);
    if (!Define(text, name, at, &scopes_.back())) return false;
    function.registers.insert(function.registers.end(), count, {text, *type});
  } while (TakeIf(","));
  return Expect(";");
}

bool Parser::LabelOrInstruction(Function& function) {
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
    return Fail(token_.at, "expected an instruction, found {}", Found());
  }
  const Location at = token_.at;
  instruction.name = token_.text;
  Take();
  if (!instruction.guard && token_.Is(":")) {
    Take();
    if (token_.Is(".callprototype")) {
      return CallPrototype(instruction.name, at, function);
    }
    return Define(
        instruction.name,
        {Name::Kind::kLabel, static_cast<uint32_t>(function.body.size())}, at,
        &scopes_.back());
  }
  SplitName(instruction);
  if (HasOtherOperands(instruction)) {
    while (!token_.Is(";") && !Ended()) Take();
  } else if (!token_.Is(";")) {
    do {
      Operand operand;
      if (!ParseOperand(function, operand)) return false;
      instruction.operands.push_back(std::move(operand));
    } while (TakeIf(","));
  }
  if (!Expect(";")) return false;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    // An operand with an unknown name may be a label that is defined later.
    if (instruction.operands[i].kind == Operand::Kind::kLabel) {
      pending_.push_back(
          {function.body.size(), i, static_cast<int>(scopes_.size())});
    }
  }
  function.body.push_back(std::move(instruction));
  return true;
}

void Parser::SplitName(Instruction& instruction) {
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

bool Parser::ParseOperand(Function& function, Operand& operand) {
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

bool Parser::SimpleOperand(Function& function, Operand& operand) {
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
  if (token_.Is("WARP_SZ")) {  // PTX ISA 4.5: the only constant with a name
    operand.kind = Operand::Kind::kImmediate;
    operand.value = 32;
    Take();
    return true;
  }
  if (token_.kind == Kind::kWord) {
    if (!Named(operand)) return false;
    return operand.kind != Operand::Kind::kVariable || Offset(operand.offset);
  }
  return Immediate(operand);
}

bool Parser::List(Function& function, Operand& operand, Operand::Kind kind,
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
      return Fail(part.at, "'{}' is not defined", part.name);
    }
    operand.parts.push_back(std::move(part));
  } while (TakeIf(","));
  return Expect(end);
}

bool Parser::Address(Function& function, Operand& operand) {
  Take();
  if (token_.kind == Kind::kWord) {
    if (!Named(operand)) return false;
    if (operand.kind != Operand::Kind::kRegister &&
        operand.kind != Operand::Kind::kVariable) {
      return Fail(operand.at, "'{}' is no address", operand.name);
    }
  } else if (!Immediate(operand)) {
    return false;
  }
  operand.base = operand.kind;
  operand.kind = Operand::Kind::kAddress;
  return Offset(operand.offset) && Expect("]");
}

bool Parser::Named(Operand& operand) {
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

bool Parser::FindIn(const Scope& scope, Operand& operand) {
  auto found = scope.find(operand.name);
  if (found == scope.end()) {
    // The name may be one register of a range: %r12 of %r<33>.
    const std::string_view text = operand.name;
    size_t digits = text.size();
    while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9') {
      --digits;
    }
    if (digits == text.size() || text.size() - digits > 8) return false;
    if (text[digits] == '0' && digits + 1 != text.size()) return false;
    found = scope.find(text.substr(0, digits));
    if (found == scope.end() || found->second.kind != Name::Kind::kRegisters) {
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
    case Name::Kind::kPrototype:
      operand.kind = Operand::Kind::kPrototype;
      break;
    case Name::Kind::kRegisters:
    case Name::Kind::kLabel:
      // The name may mean a label of these braces, or one of inner braces that
      // is defined later: see CloseScope().
      return false;
  }
  operand.index = found->second.index;
  return true;
}

}  // namespace carillon::sim::ptx
