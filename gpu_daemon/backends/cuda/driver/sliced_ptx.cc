#include "gpu_daemon/backends/cuda/driver/sliced_ptx.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"
#include "kernels/simt/event_frame.h"
#include "sim/ptx/lexer.h"
#include "sim/ptx/module.h"

namespace carillon::gpud::cuda {
namespace {

using sim::ptx::Function;
using sim::ptx::Instruction;
using sim::ptx::Lexer;
using sim::ptx::Module;
using sim::ptx::Operand;
using sim::ptx::Token;
using OperandKind = Operand::Kind;

// Names of ours in the text; in %carillon_slice_<n> the numbers are GridPart's
// words, and behind them a scratch register.
constexpr std::string_view kPartPrefix = "carillon_part_";
constexpr std::string_view kArgs = "carillon_part_args";      // a GridPart
constexpr std::string_view kShared = "carillon_part_shared";  // the same
constexpr uint32_t kWords = 6;
static_assert(sizeof(simt::GridPart) == kWords * sizeof(uint32_t));
constexpr uint64_t kArgsAlign = 8;

// Of a kernel's parameters, in bytes (PTX ISA, 5.1.6.1).
constexpr uint64_t kMostParameters = 4352;
constexpr uint64_t kMostParametersSince81 = 32'764;  // on sm_70 and later
// Of shared memory that its code declares.
constexpr uint64_t kMostStaticShared = 48 * 1024;

// Registers that say nothing of the grid; what is not listed may.
constexpr std::string_view kHarmless[] = {"%tid",
                                          "%ntid",
                                          "%laneid",
                                          "%warpid",
                                          "%nwarpid",
                                          "%smid",
                                          "%nsmid",
                                          "%lanemask_eq",
                                          "%lanemask_le",
                                          "%lanemask_lt",
                                          "%lanemask_ge",
                                          "%lanemask_gt",
                                          "%clock",
                                          "%clock_hi",
                                          "%clock64",
                                          "%globaltimer",
                                          "%globaltimer_lo",
                                          "%globaltimer_hi",
                                          "%dynamic_smem_size"};
// Functions of CUDA's that may be called without their text.
constexpr std::string_view kSystemCalls[] = {"vprintf", "malloc", "free"};

// Where a function's definition is in the text: "head(parameters) {body}".
struct Extent {
  size_t begin = 0;  // .entry or .func
  size_t name = 0;
  size_t parameters_end =
      0;  // before ')'; behind the name, if there is no list
  bool has_list = false;
  bool has_parameters = false;
  size_t body = 0;  // behind '{'
  size_t end = 0;   // behind '}'
};

struct Edit {
  size_t at = 0;
  size_t length = 0;
  std::string text;
};

std::string Register(uint32_t word) {
  return fmt::format("%{}{}", kSlicePrefix, word);
}

// Which words of a GridPart a read of `name` needs: its first, and how many (all
// three: a vector). nullopt: another register.
struct Read {
  uint32_t word = 0;
  bool vector = false;
};
std::optional<Read> ReadOf(std::string_view name) {
  const size_t dot = name.find('.');
  const std::string_view base = name.substr(0, dot);
  if (base != "%ctaid" && base != "%nctaid") return std::nullopt;
  const uint32_t first = base == "%ctaid" ? 0 : 3;
  if (dot == std::string_view::npos) return Read{first, true};
  const std::string_view part = name.substr(dot + 1);
  const size_t index = std::string_view("xyz").find(part);
  if (part.size() != 1 || index == std::string_view::npos) return std::nullopt;
  return Read{first + static_cast<uint32_t>(index), false};
}

bool IsHarmless(std::string_view name) {
  return std::ranges::count(kHarmless, name.substr(0, name.find('.'))) != 0;
}

bool IsGridWide(std::string_view name) {
  return name == "%gridid" || name.starts_with("%envreg") ||
         name.starts_with("%cluster") || name.starts_with("%ncluster");
}

// More than there may be of one counts as just too much.
uint64_t SharedBytes(const std::vector<sim::ptx::Variable>& variables) {
  uint64_t sum = 0;
  for (const sim::ptx::Variable& variable : variables) {
    if (variable.space != sim::ptx::Space::kShared) continue;
    const uint64_t bytes = std::min(variable.bytes, kMostStaticShared + 1);
    sum += (bytes + variable.align - 1) / variable.align * variable.align;
  }
  return sum;
}

bool Is32Bits(std::string_view type) {
  return type == "u32" || type == "s32" || type == "b32";
}

class Rewriter {
 public:
  explicit Rewriter(const Module& module)
      : module_(module), text_(*module.text), uses_(module.functions.size()) {}

  absl::StatusOr<SlicedPtx> Run();

 private:
  // What a function's body has.
  struct Use {
    std::vector<Edit> reads;   // of what they become
    std::set<uint32_t> words;  // of GridPart that they read
    std::set<uint32_t> calls;  // functions, with a body or without
    std::vector<const Operand*> call_sites;
    std::optional<WhyWhole> why_whole;  // of what it calls, too
    // It reads, or calls one that does: it has a version of its own.
    bool differs = false;
  };

  absl::Status FindExtents();
  size_t OffsetOf(std::string_view part) const {
    return static_cast<size_t>(part.data() - text_.data());
  }
  size_t OffsetOf(sim::ptx::Location at) const {
    return lines_[at.line - 1] + at.column - 1;
  }
  void LookAt(const Function& function, Use& use);
  void LookAt(const Function& function, const Instruction& instruction,
              Use& use);
  // `source`: the instruction's second operand, by itself.
  void LookAt(const Instruction& instruction, const Operand& operand,
              bool source, Use& use);
  void LookAtSkipped(const Function& function, const Instruction& instruction,
                     Use& use);
  bool IsDeclared(const Function& function, std::string_view name);
  bool IsState(const Operand& operand) const;
  void ReplaceVector(const Instruction& instruction, const Operand& special,
                     uint32_t first, Use& use);
  void Spread();
  std::optional<WhyWhole> WhyNot(uint32_t entry) const;
  std::set<uint32_t> VersionsCalledBy(std::vector<uint32_t> entries) const;
  std::string Version(uint32_t function) const;
  std::string Head(uint32_t function) const;
  std::string Prologue(const Function& function, const Use& use) const;
  std::string Edited(size_t begin, size_t end, std::vector<Edit> edits) const;
  bool CallsDiffering(const Use& use) const;

  const Module& module_;
  const std::string& text_;
  std::vector<size_t> lines_;  // where each begins
  std::vector<std::optional<Extent>> extents_;
  std::vector<Use> uses_;
  // Names of the function that is looked at; empty until they are asked for.
  std::set<std::string_view> declared_;
  uint64_t shared_bytes_ = 0;  // that any kernel may have beside its own
};

absl::Status Rewriter::FindExtents() {
  lines_ = {0};
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') lines_.push_back(i + 1);
  }
  std::map<std::string_view, Extent> found;
  Lexer lexer(text_);
  Token token = lexer.Next();
  const auto skip_list = [&](bool& has_any) {
    token = lexer.Next();
    has_any = !token.Is(")");
    while (token.kind != Token::Kind::kEnd && !token.Is(")")) {
      token = lexer.Next();
    }
  };
  for (; token.kind != Token::Kind::kEnd; token = lexer.Next()) {
    if (!token.Is(".entry") && !token.Is(".func")) continue;
    Extent extent{.begin = OffsetOf(token.text)};
    token = lexer.Next();
    if (bool any = false; token.Is("(")) {  // its results
      skip_list(any);
      token = lexer.Next();
    }
    const std::string_view name = token.text;
    extent.name = OffsetOf(name);
    extent.parameters_end = extent.name + name.size();
    token = lexer.Next();
    if (token.Is("(")) {
      extent.has_list = true;
      skip_list(extent.has_parameters);
      extent.parameters_end = OffsetOf(token.text);
    }
    while (token.kind != Token::Kind::kEnd && !token.Is(";") &&
           !token.Is("{")) {
      token = lexer.Next();
    }
    if (!token.Is("{")) continue;  // no definition
    extent.body = OffsetOf(token.text) + 1;
    int depth = 1;
    while (depth != 0 && token.kind != Token::Kind::kEnd) {
      token = lexer.Next();
      depth += token.Is("{") ? 1 : token.Is("}") ? -1 : 0;
    }
    extent.end = OffsetOf(token.text) + 1;
    if (depth == 0) found.emplace(name, extent);
  }
  for (const Function& function : module_.functions) {
    extents_.emplace_back();
    if (!function.defined) continue;
    const auto extent = found.find(function.name);
    if (extent == found.end()) {
      return absl::InvalidArgumentError(
          fmt::format("the definition of '{}' is not found", function.name));
    }
    extents_.back() = extent->second;
  }
  return absl::OkStatus();
}

void Rewriter::LookAt(const Function& function, Use& use) {
  if (!function.unsupported.empty()) {
    use.why_whole = {WholeReason::kGridWide,
                     fmt::format("it is {}", function.unsupported)};
  }
  for (const sim::ptx::Variable& variable : function.variables) {
    if (variable.space == sim::ptx::Space::kGlobal ||
        variable.space == sim::ptx::Space::kConst) {
      // Its second version would have another.
      use.why_whole = {
          WholeReason::kUnknownPtx,
          fmt::format("the variable '{}' is in its body", variable.name)};
    }
  }
  declared_.clear();
  for (const Instruction& instruction : function.body) {
    LookAt(function, instruction, use);
  }
}

void Rewriter::LookAt(const Function& function, const Instruction& instruction,
                      Use& use) {
  if (instruction.opcode == "clusterlaunchcontrol") {  // it gives out %ctaid
    use.why_whole = {WholeReason::kGridWide,
                     fmt::format("it has {}", instruction.name)};
  }
  if (instruction.operands.empty()) LookAtSkipped(function, instruction, use);
  if (instruction.opcode == "call") {
    const auto direct = std::ranges::find(
        instruction.operands, OperandKind::kFunction, &Operand::kind);
    if (direct == instruction.operands.end()) {
      use.why_whole = {WholeReason::kForeignCall, "it calls by address"};
    } else {
      use.calls.insert(direct->index);
      use.call_sites.push_back(&*direct);
      if (module_.functions[direct->index].is_entry) {
        use.why_whole = {WholeReason::kUnknownPtx,
                         fmt::format("it calls the kernel {}", direct->name)};
      }
    }
  }
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    LookAt(instruction, instruction.operands[i],
           i == 1 && instruction.operands.size() == 2, use);
  }
}

void Rewriter::LookAt(const Instruction& instruction, const Operand& operand,
                      bool source, Use& use) {
  for (const Operand& part : operand.parts) {
    LookAt(instruction, part, false, use);
  }
  // A launch that is cancelled between slices would leave it half changed for all
  // launches after it.
  if (operand.of_module && instruction.opcode != "ld" && IsState(operand)) {
    use.why_whole = {WholeReason::kModuleState,
                     fmt::format("it may change '{}'", operand.name)};
  }
  if (operand.kind != OperandKind::kSpecial || IsHarmless(operand.name)) return;
  const auto read = ReadOf(operand.name);
  if (!read) {
    use.why_whole = {IsGridWide(operand.name) ? WholeReason::kGridWide
                                              : WholeReason::kUnknownPtx,
                     fmt::format("it reads {}", operand.name)};
    return;
  }
  // mov and cvt are all that may (PTX ISA, 10). The last type is the source's.
  const bool is_move = instruction.opcode == "mov";
  if (source && (is_move || instruction.opcode == "cvt") &&
      !instruction.suffixes.empty() && Is32Bits(instruction.suffixes.back())) {
    if (!read->vector) {
      use.reads.push_back(
          {OffsetOf(operand.name), operand.name.size(), Register(read->word)});
      use.words.insert(read->word);
      return;
    }
    const Operand& to = instruction.operands[0];
    const auto count = [&](OperandKind kind) {
      return std::ranges::count(to.parts, kind, &Operand::kind);
    };
    const auto registers = count(OperandKind::kRegister);
    if (is_move && to.kind == OperandKind::kVector && registers != 0 &&
        registers + count(OperandKind::kSink) == 4 && to.parts.size() == 4 &&
        instruction.suffixes.front() == "v4") {
      ReplaceVector(instruction, operand, read->word, use);
      return;
    }
  }
  use.why_whole = {
      WholeReason::kUnknownPtx,
      fmt::format("it reads {} by {}", operand.name, instruction.name)};
}

// The parser leaves out the operands of some (tex, wgmma, ...), where the assembler
// takes special registers, too.
void Rewriter::LookAtSkipped(const Function& function,
                             const Instruction& instruction, Use& use) {
  Lexer lexer(std::string_view(text_).substr(OffsetOf(instruction.name)));
  for (Token token = lexer.Next();
       token.kind != Token::Kind::kEnd && !token.Is(";");
       token = lexer.Next()) {
    if (!token.text.starts_with('%') || IsHarmless(token.text)) continue;
    const bool grid = ReadOf(token.text) || IsGridWide(token.text);
    if (grid || !IsDeclared(function, token.text)) {
      use.why_whole = {
          WholeReason::kUnknownPtx,
          fmt::format("it reads {} by {}", token.text, instruction.name)};
    }
  }
}

// As a name of the function's: "%r12" of %r<33>, too.
bool Rewriter::IsDeclared(const Function& function, std::string_view name) {
  if (declared_.empty()) {
    declared_.insert("");
    const char* last = nullptr;  // a range has its name many times
    for (const sim::ptx::Register& declared : function.registers) {
      if (declared.name.data() == last) continue;
      last = declared.name.data();
      declared_.insert(declared.name);
    }
    for (const auto* list : {&function.variables, &function.parameters,
                             &function.results, &module_.variables}) {
      for (const sim::ptx::Variable& declared : *list) {
        declared_.insert(declared.name);
      }
    }
  }
  name = name.substr(0, name.find('.'));
  return declared_.contains(name) ||
         declared_.contains(
             name.substr(0, name.find_last_not_of("0123456789") + 1));
}

// A variable that may be changed: strings of the compiler's are not.
bool Rewriter::IsState(const Operand& operand) const {
  const bool is_variable = operand.kind == OperandKind::kVariable ||
                           (operand.kind == OperandKind::kAddress &&
                            operand.base == OperandKind::kVariable);
  return is_variable && !operand.name.starts_with('$') &&
         module_.variables[operand.index].space == sim::ptx::Space::kGlobal;
}

// "@%p mov.v4.u32 {a, b, c, d}, %ctaid" becomes a move for each part; the fourth
// is always 0.
void Rewriter::ReplaceVector(const Instruction& instruction,
                             const Operand& special, uint32_t first, Use& use) {
  const size_t begin = OffsetOf(instruction.name);
  const size_t guarded = OffsetOf(instruction.at);
  const std::string guard = text_.substr(guarded, begin - guarded);
  const std::string_view type = instruction.suffixes.back();
  std::string moves;
  const Operand& to = instruction.operands[0];
  for (uint32_t i = 0; i < 4; ++i) {
    if (to.parts[i].kind == OperandKind::kSink) continue;
    if (!moves.empty()) moves += ";\n\t" + guard;
    moves += fmt::format("mov.{} {}, {}", type, to.parts[i].name,
                         i < 3 ? Register(first + i) : "0");
    if (i < 3) use.words.insert(first + i);
  }
  const size_t end = OffsetOf(special.name) + special.name.size();
  use.reads.push_back({begin, end - begin, std::move(moves)});
}

// Through calls: who differs, and why nothing that calls it has a version. The
// work grows with the calls in the text, not with what each function reaches.
void Rewriter::Spread() {
  std::vector<std::vector<uint32_t>> callers(uses_.size());
  std::vector<uint32_t> differ;
  std::vector<uint32_t> whole;
  for (uint32_t f = 0; f < uses_.size(); ++f) {
    const Function& function = module_.functions[f];
    Use& use = uses_[f];
    if (!function.defined &&
        std::ranges::count(kSystemCalls, function.name) == 0) {
      use.why_whole = {WholeReason::kForeignCall,
                       fmt::format("it calls {}", function.name)};
    }
    for (const uint32_t called : use.calls) callers[called].push_back(f);
    use.differs = !use.words.empty();
    if (use.differs) differ.push_back(f);
    if (use.why_whole) whole.push_back(f);
  }
  for (size_t i = 0; i < differ.size(); ++i) {
    for (const uint32_t caller : callers[differ[i]]) {
      if (std::exchange(uses_[caller].differs, true)) continue;
      differ.push_back(caller);
    }
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const uint32_t caller : callers[whole[i]]) {
      if (uses_[caller].why_whole) continue;
      uses_[caller].why_whole = uses_[whole[i]].why_whole;
      whole.push_back(caller);
    }
  }
}

bool Rewriter::CallsDiffering(const Use& use) const {
  return std::ranges::any_of(
      use.calls, [&](uint32_t called) { return uses_[called].differs; });
}

// At any depth.
std::set<uint32_t> Rewriter::VersionsCalledBy(
    std::vector<uint32_t> open) const {
  std::set<uint32_t> called;
  while (!open.empty()) {
    const Use& use = uses_[open.back()];
    open.pop_back();
    for (const uint32_t f : use.calls) {
      if (uses_[f].differs && called.insert(f).second) open.push_back(f);
    }
  }
  return called;
}

std::optional<WhyWhole> Rewriter::WhyNot(uint32_t entry) const {
  const Use& use = uses_[entry];
  if (use.why_whole) return use.why_whole;
  // More than it may need: the variables of functions that it does not call, too.
  const uint64_t shared =
      shared_bytes_ + SharedBytes(module_.functions[entry].variables);
  if (CallsDiffering(use) &&
      shared + sizeof(simt::GridPart) > kMostStaticShared) {
    return WhyWhole{WholeReason::kRefused,
                    fmt::format("{} bytes of shared memory leave no room in {}",
                                shared, kMostStaticShared)};
  }
  const uint64_t bytes = module_.functions[entry].ParameterBytes();
  uint32_t sm = 0;
  for (const char c : module_.target) {
    if (c >= '0' && c <= '9' && sm < 1000) {
      sm = sm * 10 + static_cast<uint32_t>(c - '0');
    }
  }
  const uint32_t version = module_.version_major * 10 + module_.version_minor;
  const uint64_t most =
      version >= 81 && sm >= 70 ? kMostParametersSince81 : kMostParameters;
  const uint64_t with_part =
      (bytes + kArgsAlign - 1) / kArgsAlign * kArgsAlign +
      sizeof(simt::GridPart);
  if (with_part > most) {
    return WhyWhole{
        WholeReason::kParameters,
        fmt::format("{} bytes of parameters leave no room in {}", bytes, most)};
  }
  return std::nullopt;
}

std::string Rewriter::Prologue(const Function& function, const Use& use) const {
  std::set<uint32_t> words = use.words;
  const bool shares = function.is_entry && CallsDiffering(use);
  if (shares) words = {0, 1, 2, 3, 4, 5};
  if (words.empty()) return "";
  std::string text =
      fmt::format("\n\t.reg .b32 %{}<{}>;\n", kSlicePrefix, kWords + 1);
  for (const uint32_t word : words) {
    const std::string to = Register(word);
    if (!function.is_entry) {
      text += fmt::format("\tld.volatile.shared.u32 {}, [{}+{}];\n", to,
                          kShared, 4 * word);
      continue;
    }
    text += fmt::format("\tld.param.u32 {}, [{}+{}];\n", to, kArgs, 4 * word);
    if (word < 3) {
      const std::string own = Register(kWords);
      text +=
          fmt::format("\tmov.u32 {0}, %ctaid.{1};\n\tadd.u32 {2}, {2}, {0};\n",
                      own, "xyz"[word], to);
    }
    // All threads store the same: each reads what it has stored itself.
    if (shares) {
      text += fmt::format("\tst.volatile.shared.u32 [{}+{}], {};\n", kShared,
                          4 * word, to);
    }
  }
  return text;
}

std::string Rewriter::Edited(size_t begin, size_t end,
                             std::vector<Edit> edits) const {
  std::ranges::sort(edits, {}, &Edit::at);
  std::string text;
  for (const Edit& edit : edits) {
    text += text_.substr(begin, edit.at - begin);
    text += edit.text;
    begin = edit.at + edit.length;
  }
  return text + text_.substr(begin, end - begin);
}

std::string Rewriter::Version(uint32_t f) const {
  const Function& function = module_.functions[f];
  const Extent& extent = *extents_[f];
  const Use& use = uses_[f];
  std::vector<Edit> edits = use.reads;
  edits.push_back({extent.name, 0, std::string(kSlicePrefix)});
  if (function.is_entry) {
    const std::string part = fmt::format(
        "{}.param .align {} .b8 {}[{}]", extent.has_parameters ? ", " : "",
        kArgsAlign, kArgs, sizeof(simt::GridPart));
    edits.push_back({extent.parameters_end, 0,
                     extent.has_list ? part : fmt::format("({})", part)});
  }
  edits.push_back({extent.body, 0, Prologue(function, use)});
  for (const Operand* site : use.call_sites) {
    if (!uses_[site->index].differs) continue;
    edits.push_back({OffsetOf(site->name), 0, std::string(kSlicePrefix)});
  }
  return fmt::format("\n{}{}\n", function.is_entry ? ".visible " : "",
                     Edited(extent.begin, extent.end, std::move(edits)));
}

std::string Rewriter::Head(uint32_t f) const {
  const Extent& extent = *extents_[f];
  return fmt::format("\n{}\n;\n",
                     Edited(extent.begin, extent.body - 1,
                            {{extent.name, 0, std::string(kSlicePrefix)}}));
}

absl::StatusOr<SlicedPtx> Rewriter::Run() {
  for (const std::string_view own : {kSlicePrefix, kPartPrefix}) {
    if (text_.find(own) == std::string::npos) continue;
    return absl::InvalidArgumentError(
        fmt::format("names with '{}' are gpud's own", own));
  }
  RETURN_IF_ERROR(FindExtents());
  for (size_t f = 0; f < uses_.size(); ++f) {
    if (extents_[f]) LookAt(module_.functions[f], uses_[f]);
  }
  Spread();
  shared_bytes_ = SharedBytes(module_.variables);
  for (const Function& function : module_.functions) {
    if (!function.is_entry) shared_bytes_ += SharedBytes(function.variables);
  }
  SlicedPtx made;
  std::vector<uint32_t> sliced;
  std::string entries;
  for (uint32_t f = 0; f < uses_.size(); ++f) {
    const Function& function = module_.functions[f];
    if (!function.is_entry || !function.defined) continue;
    if (auto why = WhyNot(f)) {
      made.whole.emplace(function.name, *std::move(why));
      continue;
    }
    entries += Version(f);
    sliced.push_back(f);
  }
  const std::set<uint32_t> called = VersionsCalledBy(std::move(sliced));
  made.text = text_;
  if (!called.empty()) {
    made.text += fmt::format("\n.shared .align 4 .b8 {}[{}];\n", kShared,
                             sizeof(simt::GridPart));
  }
  for (const uint32_t f : called) made.text += Head(f);
  for (const uint32_t f : called) made.text += Version(f);
  made.text += entries;
  return made;
}

}  // namespace

std::string_view NameOf(WholeReason reason) {
  static constexpr std::array<std::string_view, kWholeReasons> kNames = {
      "one_slice",    "no_ptx",     "unknown_ptx", "grid_wide", "foreign_call",
      "module_state", "parameters", "waits",       "refused"};
  return kNames[static_cast<size_t>(reason)];
}

absl::StatusOr<SlicedPtx> MakeSlicedPtx(std::string_view ptx) {
  ASSIGN_OR_RETURN(const Module module,
                   sim::ptx::ParseModule(std::string(ptx), "ptx"));
  return Rewriter(module).Run();
}

}  // namespace carillon::gpud::cuda
