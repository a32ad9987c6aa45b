// A PTX module as its text says it: names are resolved, nothing is interpreted.
// The lowering decides what an instruction means, and whether it is known at
// all.
#ifndef CARILLON_SIM_PTX_MODULE_H_
#define CARILLON_SIM_PTX_MODULE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/ptx/lexer.h"

namespace carillon::sim::ptx {

// PTX ISA 5.2: fundamental types.
enum class Type : uint8_t {
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBf16,
  kBf16x2,
  kU16x2,
  kS16x2,
  kF32,
  kF64,
};
// "u32", without its dot.
std::optional<Type> TypeNamed(std::string_view name);
std::string_view NameOf(Type type);
uint32_t BytesOf(Type type);  // a predicate has 1

// PTX ISA 5.1: state spaces that variables lie in.
enum class Space : uint8_t { kConst, kGlobal, kLocal, kParam, kShared };
std::optional<Space> SpaceNamed(std::string_view name);
std::string_view NameOf(Space space);

struct Register {
  std::string_view name;
  Type type = Type::kB32;
};

// An address in an initializer: the variable's generic address, or the one in
// its own space, plus `bytes`, once the variable has a place.
struct Relocation {
  uint64_t at = 0;  // byte of the initializer; 8 bytes are to be filled in
  std::string_view name;
  int64_t offset = 0;
  bool generic = false;
};

struct Variable {
  std::string_view name;
  Space space = Space::kGlobal;
  Type type = Type::kB8;
  uint32_t align = 1;  // bytes, a power of two
  uint64_t bytes = 0;  // 0: an array of any size (extern shared memory)
  bool external = false;
  std::vector<std::byte> initial;  // shorter than `bytes`: zeros follow
  std::vector<Relocation> relocations;
  Location at;
};

struct Operand {
  enum class Kind : uint8_t {
    kSink,       // "_"
    kRegister,   // index: of the function's registers
    kSpecial,    // name: "%tid.x"
    kImmediate,  // value
    kVariable,   // index: of the function's or the module's variables; offset
    kAddress,    // [base + offset]; base: kRegister, kVariable or kImmediate
    kVector,     // {a, b}: parts
    kTuple,      // (a, b), of a call: parts
    kPair,       // a|b: parts
    kLabel,      // index: of the function's instructions
    kFunction,   // index: of the module's functions
    kPrototype,  // index: of the function's prototypes
  };

  Kind kind = Kind::kSink;
  Kind base = Kind::kSink;  // what kAddress adds the offset to
  bool of_module = false;   // the variable is the module's
  bool negated = false;     // "!%p"
  bool is_float = false;    // the value's bits: f64, or f32 if is_single
  bool is_single = false;
  uint32_t index = 0;
  int64_t offset = 0;
  uint64_t value = 0;
  std::string_view name;  // as the text has it
  std::vector<Operand> parts;
  Location at;
};

struct Guard {
  uint32_t reg = 0;
  bool negated = false;
};

struct Instruction {
  std::string_view name;                   // "ld.global.nc.u32"
  std::string_view opcode;                 // "ld"
  std::vector<std::string_view> suffixes;  // "global", "nc", "u32"
  std::optional<Guard> guard;
  std::vector<Operand> operands;
  Location at;
};

// What is passed to a function that is called by its address, and back.
struct Prototype {
  std::vector<Variable> results;
  std::vector<Variable> parameters;
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool defined = false;           // has a body
  std::vector<Variable> results;  // in space param
  std::vector<Variable> parameters;
  std::vector<Register> registers;
  std::vector<Variable> variables;  // in all its scopes
  std::vector<Prototype> prototypes;
  std::vector<Instruction> body;
  // For all of these, 0 means that the text does not say it.
  std::array<uint32_t, 3> max_block{};       // .maxntid
  std::array<uint32_t, 3> required_block{};  // .reqntid
  uint32_t min_blocks = 0;                   // an SM: .minnctapersm
  uint32_t max_registers = 0;                // a thread: .maxnreg
  std::string_view unsupported;              // an attribute that nothing runs
  Location at;

  // The offset of an entry's parameter in cuLaunchKernel's buffer.
  uint64_t ParameterOffset(size_t index) const;
  uint64_t ParameterBytes() const;
};

struct Module {
  // The text, of which every name here is a view.
  std::unique_ptr<const std::string> text;
  std::string file;
  uint32_t version_major = 0;
  uint32_t version_minor = 0;
  std::string_view target;  // "sm_75"
  std::vector<Variable> variables;
  std::vector<Function> functions;

  const Function* FindEntry(std::string_view name) const;
};

// Errors: InvalidArgument, "FILE:LINE:COLUMN: what is wrong", where `file` is
// FILE.
absl::StatusOr<Module> ParseModule(std::string text, std::string file);
// Errors: those of ParseModule(), NotFound, PermissionDenied.
absl::StatusOr<Module> ParseModuleFile(const std::string& path);

}  // namespace carillon::sim::ptx

#endif  // CARILLON_SIM_PTX_MODULE_H_
