#include "sim/ptx/parser.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/read_file.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::sim::ptx {
namespace {

using Kind = Token::Kind;

// Far more than nvcc writes; a text that says more is broken.
constexpr uint64_t kMaxBytes = 1 << 30;  // a variable
constexpr uint32_t kMaxAlign = 1 << 12;

}  // namespace

Parser::Parser(Module* module) : module_(module), lexer_(*module->text) {
  Take();
}

absl::Status Parser::Run() {
  while (!Ended() && Statement()) {
  }
  if (module_->target.empty()) {
    Fail({}, "no PTX: a module begins with .version and .target");
  }
  return error_;
}

void Parser::Take() {
  token_ = lexer_.Next();
  if (token_.kind == Kind::kBad) Fail(token_.at, "{}", token_.text);
}

bool Parser::TakeIf(std::string_view what) {
  if (!token_.Is(what)) return false;
  Take();
  return true;
}

std::string Parser::Found() const {
  if (Ended()) return "the end of the text";
  return fmt::format("'{}'", token_.text);
}

bool Parser::Expect(std::string_view what) {
  if (TakeIf(what)) return true;
  return Fail(token_.at, "expected '{}', found {}", what, Found());
}

bool Parser::TakeName(std::string_view what, std::string_view& name) {
  if (token_.kind != Kind::kWord || token_.text.starts_with('.')) {
    return Fail(token_.at, "expected {}, found {}", what, Found());
  }
  name = token_.text;
  Take();
  return true;
}

bool Parser::TakeInteger(std::string_view what, uint64_t least, uint64_t most,
                         uint64_t& value) {
  if (token_.kind != Kind::kInteger) {
    return Fail(token_.at, "expected {}, found {}", what, Found());
  }
  if (token_.value < least || token_.value > most) {
    return Fail(token_.at, "{} is {}: must be from {} to {}", what,
                token_.value, least, most);
  }
  value = token_.value;
  Take();
  return true;
}

bool Parser::Statement() {
  if (token_.kind != Kind::kWord) {
    return Fail(token_.at, "expected a directive, found {}", Found());
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
    } else if (!TakeIf(".visible") && !TakeIf(".weak") && !TakeIf(".common")) {
      break;
    }
  }
  if (token_.Is(".entry") || token_.Is(".func")) return ParseFunction();
  return VariableStatement(external, /*function=*/nullptr);
}

bool Parser::Version() {
  Take();
  // "9.0": a number with a fraction.
  if (token_.kind != Kind::kFloat && token_.kind != Kind::kInteger) {
    return Fail(token_.at, "expected a version, found {}", Found());
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
    return Fail(token_.at, "'{}' is no version", token_.text);
  }
  Take();
  return true;
}

bool Parser::Target() {
  Take();
  if (!TakeName("a target", module_->target)) return false;
  while (TakeIf(",")) {
    std::string_view more;
    if (!TakeName("a target", more)) return false;
  }
  return true;
}

bool Parser::IsDebugging() const {
  return token_.Is(".file") || token_.Is(".loc") || token_.Is(".section") ||
         token_.Is(".pragma");
}

bool Parser::SkipDebugging() {
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

bool Parser::VariableStatement(bool external, Function* function) {
  Variable variable;
  if (!Declaration(variable)) return false;
  variable.external = external;
  // An array may lack a size only if the launch gives it one (extern shared
  // memory).
  if (variable.bytes == 0 && !(external && variable.space == Space::kShared)) {
    return Fail(variable.at, "'{}' has no size", variable.name);
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

bool Parser::Declare(Variable variable, Function* function) {
  std::vector<Variable>& variables =
      function ? function->variables : module_->variables;
  if (!function) {
    // A variable may be declared as external first and then defined, or be
    // external twice.
    const auto known = globals_.find(variable.name);
    if (known != globals_.end()) {
      Variable& before = variables[known->second.index];
      if (!before.external && !variable.external) {
        return Fail(variable.at, "'{}' is defined twice", variable.name);
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

bool Parser::Define(std::string_view text, Name name, Location at,
                    Scope* scope) {
  if (scope->emplace(text, name).second) return true;
  return Fail(at, "'{}' is defined twice", text);
}

bool Parser::Declaration(Variable& variable) {
  variable.at = token_.at;
  const std::string_view space = token_.text;
  const auto known = token_.kind == Kind::kWord && space.starts_with('.')
                         ? SpaceNamed(space.substr(1))
                         : std::nullopt;
  if (!known) {
    return Fail(token_.at, "{} is no directive that is known here", Found());
  }
  variable.space = *known;
  Take();
  uint64_t align = 0;
  uint64_t vector = 1;
  std::optional<Type> type;
  while (token_.kind == Kind::kWord && token_.text.starts_with('.')) {
    if (TakeIf(".align")) {
      // For a pointer parameter, .align is about the memory that the pointer
      // leads to, not about the parameter.
      uint64_t said = 0;
      if (!TakeInteger("the alignment", 1, kMaxAlign, said)) return false;
      if (!std::has_single_bit(said)) {
        return Fail(token_.at, "alignment {} is no power of two", said);
      }
      if (!type) align = said;
    } else if (token_.Is(".v2") || token_.Is(".v4")) {
      vector = token_.Is(".v2") ? 2 : 4;
      Take();
    } else if (type) {
      // ".ptr" and the space that the pointer leads to.
      if (!token_.Is(".ptr") && !SpaceNamed(token_.text.substr(1))) {
        return Fail(token_.at, "unexpected {}", Found());
      }
      Take();
    } else {
      type = TypeNamed(token_.text.substr(1));
      if (!type || *type == Type::kPred) {
        return Fail(token_.at, "{} is no type of a variable", Found());
      }
      Take();
    }
  }
  if (!type) return Fail(token_.at, "expected a type, found {}", Found());
  variable.type = *type;
  const uint64_t element = BytesOf(*type) * vector;
  variable.align = static_cast<uint32_t>(align != 0 ? align : element);
  if (!TakeName("the name of a variable", variable.name)) return false;
  variable.bytes = element;
  while (TakeIf("[")) {
    uint64_t count = 0;
    if (!token_.Is("]") &&
        !TakeInteger("the size of an array", 0, kMaxBytes, count)) {
      return false;
    }
    if (count != 0 && variable.bytes > kMaxBytes / count) {
      return Fail(variable.at, "'{}' has more than {} bytes", variable.name,
                  kMaxBytes);
    }
    variable.bytes *= count;
    if (!Expect("]")) return false;
  }
  return true;
}

bool Parser::Initializer(Variable& variable) {
  const uint32_t bytes = BytesOf(variable.type);
  int depth = 0;
  do {
    while (TakeIf("{")) ++depth;
    if (!InitialValue(variable, bytes)) return false;
    while (depth > 0 && TakeIf("}")) --depth;
  } while (TakeIf(","));
  if (depth != 0) return Fail(token_.at, "an initializer that never ends");
  if (variable.initial.size() > variable.bytes) {
    return Fail(variable.at, "'{}' has {} bytes, and {} of initial values",
                variable.name, variable.bytes, variable.initial.size());
  }
  return true;
}

bool Parser::InitialValue(Variable& variable, uint32_t bytes) {
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
    if (variable.type == Type::kF32 && operand.is_float && !operand.is_single) {
      value = std::bit_cast<uint32_t>(
          static_cast<float>(std::bit_cast<double>(value)));
    }
  }
  for (uint32_t i = 0; i < bytes; ++i) {
    // For b128, the upper half is zero.
    variable.initial.push_back(i < 8 ? static_cast<std::byte>(value >> (8 * i))
                                     : std::byte{0});
  }
  return true;
}

bool Parser::Offset(int64_t& offset) {
  while (token_.Is("+") || token_.Is("-")) {
    bool minus = token_.Is("-");
    Take();
    if (TakeIf("-")) minus = !minus;
    if (token_.kind != Kind::kInteger) {
      return Fail(token_.at, "expected an offset, found {}", Found());
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

bool Parser::Immediate(Operand& operand) {
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
    return Fail(token_.at, "expected an operand, found {}", Found());
  }
  Take();
  return true;
}

absl::StatusOr<Module> ParseModule(std::string text, std::string file) {
  Module module;
  module.text = std::make_unique<const std::string>(std::move(text));
  module.file = std::move(file);
  RETURN_IF_ERROR(Parser(&module).Run());
  return module;
}

absl::StatusOr<Module> ParseModuleFile(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, "PTX text"));
  return ParseModule(std::move(text), path);
}

}  // namespace carillon::sim::ptx
