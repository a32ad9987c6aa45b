// Reads a module's text by recursive descent, one token ahead, and gives every
// mistake with its place. parser.cc reads what is outside of functions,
// function_parser.cc what is inside.
#ifndef CARILLON_SIM_PTX_PARSER_H_
#define CARILLON_SIM_PTX_PARSER_H_

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/ptx/lexer.h"
#include "sim/ptx/module.h"

namespace carillon::sim::ptx {

// What a name means within one pair of braces.
struct Name {
  enum class Kind : uint8_t {
    kRegister,
    kRegisters,
    kVariable,
    kLabel,
    kPrototype,
  };
  Kind kind = Kind::kRegister;
  uint32_t index = 0;  // the first of kRegisters
  uint32_t count = 1;
};
using Scope = std::unordered_map<std::string_view, Name>;

// An operand whose name is not known yet: a label further down, or a function.
struct Pending {
  size_t instruction = 0;
  size_t operand = 0;
  int depth = 0;  // how many pairs of braces are around it
};

// Parses one module, once. Functions that read return false on the first
// mistake, which becomes Run()'s result.
class Parser {
 public:
  explicit Parser(Module* module);

  absl::Status Run();

 private:
  // --- Tokens and errors.

  bool Ended() const { return token_.kind == Token::Kind::kEnd; }
  void Take();
  bool TakeIf(std::string_view what);
  // Records the mistake and returns false, for the caller to pass on.
  template <class... Args>
  bool Fail(Location at, fmt::format_string<Args...> what, Args&&... args) {
    if (error_.ok()) {
      error_ = absl::InvalidArgumentError(
          fmt::format("{}:{}:{}: {}", module_->file, at.line, at.column,
                      fmt::format(what, std::forward<Args>(args)...)));
    }
    return false;
  }
  std::string Found() const;
  bool Expect(std::string_view what);
  bool TakeName(std::string_view what, std::string_view& name);
  bool TakeInteger(std::string_view what, uint64_t least, uint64_t most,
                   uint64_t& value);

  // --- A module.

  bool Statement();
  bool Version();
  bool Target();
  // Whether the token begins something that has no effect on execution.
  bool IsDebugging() const;
  bool SkipDebugging();

  // --- Variables.

  bool VariableStatement(bool external, Function* function);
  bool Declare(Variable variable, Function* function);
  bool Define(std::string_view text, Name name, Location at, Scope* scope);
  // ".shared .align 4 .b8 name[1024]", ".param .u64 .ptr .align 1 name".
  bool Declaration(Variable& variable);
  // "{1, 2, name+4, generic(name)}", nested or not, or one value.
  bool Initializer(Variable& variable);
  bool InitialValue(Variable& variable, uint32_t bytes);
  // "+4", "-4", "+-4", or nothing.
  bool Offset(int64_t& offset);

  // --- Functions.

  bool ParseFunction();
  void AddFunction(Function function);
  bool Parameters(std::vector<Variable>& parameters);
  bool Attributes(Function& function);
  bool Body(Function& function);
  bool BodyStatement(Function& function);
  // Resolves labels that are defined in the braces that end. A name may be a
  // label of outer braces, so the rest stays pending.
  bool CloseScope(Function& function);
  // "name: .callprototype (.param .b32 _) _ (.param .b64 _);", from the dot on.
  bool CallPrototype(std::string_view name, Location at, Function& function);
  // ".reg .b32 %r<33>;", ".reg .pred p, q;"
  bool Registers(Function& function);

  // --- Instructions.

  bool LabelOrInstruction(Function& function);
  static void SplitName(Instruction& instruction);
  bool ParseOperand(Function& function, Operand& operand);
  bool SimpleOperand(Function& function, Operand& operand);
  bool List(Function& function, Operand& operand, Operand::Kind kind,
            std::string_view end);
  bool Address(Function& function, Operand& operand);
  bool Immediate(Operand& operand);
  // A register, a variable or a special register. An unknown name becomes
  // kLabel.
  bool Named(Operand& operand);
  static bool FindIn(const Scope& scope, Operand& operand);

  Module* const module_;
  Lexer lexer_;
  Token token_;
  absl::Status error_;
  Scope globals_;
  std::unordered_map<std::string_view, uint32_t> functions_;
  std::vector<Scope> scopes_;  // the function's scopes, outermost first
  std::vector<Pending> pending_;
  uint64_t registers_ = 0;  // of all functions
};

}  // namespace carillon::sim::ptx

#endif  // CARILLON_SIM_PTX_PARSER_H_
