#include "tools/cli/commands/testbed/kernel_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"

namespace carillon::cli {
namespace {

struct Type {
  std::string_view name;
  v1::ParameterKind kind;  // unspecified: only as an element of a buffer
  uint32_t bytes;
};
constexpr Type kTypes[] = {
    {"u32", v1::U32, 4},
    {"i32", v1::I32, 4},
    {"u64", v1::U64, 8},
    {"i64", v1::I64, 8},
    {"f32", v1::F32, 4},
    {"f64", v1::F64, 8},
    {"u8", v1::PARAMETER_KIND_UNSPECIFIED, 1},
    {"i8", v1::PARAMETER_KIND_UNSPECIFIED, 1},
    {"u16", v1::PARAMETER_KIND_UNSPECIFIED, 2},
    {"i16", v1::PARAMETER_KIND_UNSPECIFIED, 2},
    {"f16", v1::PARAMETER_KIND_UNSPECIFIED, 2},
    {"bf16", v1::PARAMETER_KIND_UNSPECIFIED, 2},
};
constexpr char kValues[] = "u32, i32, u64, i64, f32 or f64";

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }
bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '$';
}

const Type* FindType(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &Type::name);
  return found == std::end(kTypes) ? nullptr : found;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<v1::KernelDeclaration> Parse() {
    v1::KernelDeclaration kernel;
    const std::string_view symbol = Word();
    if (symbol.empty()) return Wanted("the kernel's name");
    kernel.set_symbol(std::string(symbol));
    if (!Take('(')) return Wanted("'(' and the parameters");
    if (!Take(')')) {
      do {
        RETURN_IF_ERROR(Parameter(kernel));
      } while (Take(','));
      if (!Take(')')) return Wanted("',' or ')' after the parameter");
    }
    SkipBlanks();
    if (at_ != text_.size()) return Wanted("nothing more after ')'");
    return kernel;
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
  }
  // Takes a word. Returns an empty one, and takes nothing, if there is none.
  std::string_view Word() {
    SkipBlanks();
    word_at_ = at_;
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    return text_.substr(word_at_, at_ - word_at_);
  }
  bool Take(char c) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::Status Error(size_t at, std::string_view what) const {
    return absl::InvalidArgumentError(
        fmt::format("kernel signature {}, at character {}: {}", Quote(text_),
                    at + 1, what));
  }
  absl::Status Wanted(std::string_view what) {
    SkipBlanks();
    return Error(
        at_, fmt::format("expected {}, found {}", what,
                         at_ == text_.size() ? std::string("the end")
                                             : Quote(text_.substr(at_, 1))));
  }

  absl::Status Parameter(v1::KernelDeclaration& kernel) {
    const std::string_view name = Word();
    if (name.empty()) return Wanted("a parameter's name");
    for (const auto& other : kernel.parameters()) {
      if (other.name() == name) {
        return Error(word_at_, fmt::format("there is a parameter {} already",
                                           Quote(name)));
      }
    }
    v1::KernelParameter* parameter = kernel.add_parameters();
    parameter->set_name(std::string(name));
    if (!Take(':')) return Wanted("':' and the parameter's type");
    const std::string_view word = Word();
    if (word.empty()) {
      return Wanted(fmt::format("{}, or read or write", kValues));
    }
    if (word == "read" || word == "write") {
      parameter->set_kind(word == "read" ? v1::READ_BUFFER : v1::WRITE_BUFFER);
      return Elements(*parameter);
    }
    const Type* type = FindType(word);
    if (type == nullptr) return UnknownType(word);
    const size_t type_at = word_at_;
    SkipBlanks();
    if (at_ < text_.size() && text_[at_] == '[') {
      return Error(type_at, fmt::format("a buffer is read or write: write "
                                        "'read {}[]' or 'write {}[]'",
                                        word, word));
    }
    if (type->kind == v1::PARAMETER_KIND_UNSPECIFIED) {
      return Error(type_at, fmt::format("{} can only be what a buffer is made "
                                        "of; a value is {}",
                                        word, kValues));
    }
    parameter->set_kind(type->kind);
    return absl::OkStatus();
  }

  absl::Status Elements(v1::KernelParameter& parameter) {
    const std::string_view word = Word();
    if (word.empty()) {
      return Wanted("what the buffer is made of: f32[] or 12[] (bytes)");
    }
    if (const Type* type = FindType(word)) {
      parameter.set_element_bytes(type->bytes);
    } else {
      uint32_t bytes = 0;
      const auto [end, error] =
          std::from_chars(word.data(), word.data() + word.size(), bytes);
      if (end != word.data() + word.size()) return UnknownType(word);
      if (error != std::errc() || bytes == 0 || bytes > kMaxElementBytes) {
        return Error(word_at_, fmt::format("an element has from 1 to {} bytes",
                                           kMaxElementBytes));
      }
      parameter.set_element_bytes(bytes);
    }
    if (!Take('[') || !Take(']')) return Wanted("'[]' after the element");
    return absl::OkStatus();
  }

  absl::Status UnknownType(std::string_view word) const {
    std::vector<std::string_view> names = {"read", "write"};
    for (const Type& type : kTypes) names.push_back(type.name);
    return Error(word_at_,
                 fmt::format("there is no type {}{}", Quote(word),
                             DidYouMean(word, names,
                                        fmt::format("; a value is {}, a buffer "
                                                    "read or write f32[]",
                                                    kValues))));
  }

  static constexpr uint32_t kMaxElementBytes = 1 << 20;

  const std::string_view text_;
  size_t at_ = 0;
  size_t word_at_ = 0;  // of the last Word()
};

}  // namespace

absl::StatusOr<v1::KernelDeclaration> ParseKernelSignature(
    std::string_view text) {
  return Parser(text).Parse();
}

}  // namespace carillon::cli
