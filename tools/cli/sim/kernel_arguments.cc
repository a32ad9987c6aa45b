#include "tools/cli/sim/kernel_arguments.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <random>

#include "absl/strings/str_split.h"
#include "base/read_file.h"
#include "base/status.h"
#include "fmt/format.h"
#include "tools/cli/sim/load_program.h"

namespace carillon::cli {
namespace {

using sim::ptx::Type;

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

bool IsFloat(Type type) {
  return type == Type::kF16 || type == Type::kBf16 || type == Type::kF32 ||
         type == Type::kF64;
}
bool IsSigned(Type type) {
  return type == Type::kS8 || type == Type::kS16 || type == Type::kS32 ||
         type == Type::kS64;
}

absl::Status Wrong(std::string_view text, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("'{}': {}", text, what));
}

// The bits of the nearest number of a floating-point type, and back.
uint64_t BitsOf(double value, Type type) {
  const auto single = static_cast<float>(value);
  const auto bits = std::bit_cast<uint32_t>(single);
  switch (type) {
    case Type::kF16:
      return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    case Type::kBf16:
      // The upper half; a tie goes to the even one.
      if (single != single) return 0x7fff;
      return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    case Type::kF32:
      return bits;
    default:
      return std::bit_cast<uint64_t>(value);
  }
}
double FloatOf(uint64_t bits, Type type) {
  switch (type) {
    case Type::kF16:
      return std::bit_cast<_Float16>(static_cast<uint16_t>(bits));
    case Type::kBf16:
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    case Type::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default:
      return std::bit_cast<double>(bits);
  }
}

// The bits of a number of this type. Signed and unsigned numbers are both
// accepted, since PTX does not distinguish them in parameters.
absl::StatusOr<uint64_t> ParseNumber(std::string_view text, Type type) {
  const uint32_t bytes = sim::ptx::BytesOf(type);
  const char* const end = text.data() + text.size();
  if (IsFloat(type)) {
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) {
      return Wrong(text,
                   fmt::format("no number of type {}", sim::ptx::NameOf(type)));
    }
    return BitsOf(value, type);
  }
  std::string_view digits = text;
  const bool minus = !digits.empty() && digits.front() == '-';
  if (minus) digits.remove_prefix(1);
  int base = 10;
  if (digits.starts_with("0x")) {
    digits.remove_prefix(2);
    base = 16;
  }
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stop != end || digits.empty()) {
    return Wrong(text,
                 fmt::format("no number of type {}", sim::ptx::NameOf(type)));
  }
  const uint32_t bits = 8 * bytes;
  const uint64_t most = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (value > most || (minus && value > uint64_t{1} << (bits - 1))) {
    return Wrong(text, fmt::format("does not fit {} bits", bits));
  }
  return minus ? (0 - value) & most : value;
}

absl::Status Fill(std::span<std::byte> bytes, Type type,
                  std::string_view init) {
  const uint32_t size = sim::ptx::BytesOf(type);
  const uint64_t count = bytes.size() / size;
  const auto put = [&](uint64_t i, uint64_t bits) {
    std::memcpy(bytes.data() + i * size, &bits, size);
  };
  if (init == "iota") {
    for (uint64_t i = 0; i < count; ++i) {
      put(i, IsFloat(type) ? BitsOf(static_cast<double>(i), type) : i);
    }
    return absl::OkStatus();
  }
  if (init == "random" || init.starts_with("random:")) {
    uint64_t seed = 1;
    if (init.size() > 7) {
      ASSIGN_OR_RETURN(const auto given,
                       ParseNumber(init.substr(7), Type::kU64));
      seed = given;
    }
    std::mt19937_64 random(seed);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t bits = random();
      put(i, IsFloat(type)
                 ? BitsOf(static_cast<double>(bits >> 11) * 0x1p-53, type)
                 : bits);
    }
    return absl::OkStatus();
  }
  uint64_t given = 0;
  uint64_t value = 0;
  const std::vector<std::string> numbers =
      absl::StrSplit(std::string(init), ',');
  for (const std::string& number : numbers) {
    ASSIGN_OR_RETURN(value, ParseNumber(number, type));
    if (given == count) {
      return Wrong(init, fmt::format("more than the {} elements", count));
    }
    put(given++, value);
  }
  for (uint64_t i = given; i < count && given == 1; ++i) put(i, value);
  return absl::OkStatus();
}

absl::StatusOr<KernelBuffer> FileBuffer(std::string_view path,
                                        sim::Memory* memory) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(std::string(path), "buffer", kMaxBytes));
  if (text.empty()) return Wrong(path, "a buffer has a byte at least");
  ASSIGN_OR_RETURN(const auto address,
                   memory->Allocate(text.size(), std::string(path)));
  std::memcpy(memory->At(address, text.size())->data(), text.data(),
              text.size());
  return KernelBuffer{address, text.size(), Type::kU8};
}

// The type of a buffer's elements.
absl::StatusOr<Type> ElementNamed(std::string_view text,
                                  std::string_view name) {
  const auto type = sim::ptx::TypeNamed(name);
  if (!type || *type == Type::kPred || sim::ptx::BytesOf(*type) > 8) {
    return Wrong(text,
                 fmt::format("'{}' is no type of an element (u8 to u64, s8 to "
                             "s64, f16, bf16, f32, f64)",
                             name));
  }
  return *type;
}

// nullopt if the text does not describe a buffer.
absl::StatusOr<std::optional<KernelBuffer>> ParseBuffer(std::string_view text,
                                                        sim::Memory* memory) {
  if (text.starts_with('@')) return FileBuffer(text.substr(1), memory);
  const size_t open = text.find('[');
  if (open == std::string_view::npos) return std::nullopt;
  const size_t close = text.find(']', open);
  ASSIGN_OR_RETURN(const Type type, ElementNamed(text, text.substr(0, open)));
  if (close == std::string_view::npos) return Wrong(text, "']' is missing");
  ASSIGN_OR_RETURN(
      const auto count,
      ParseNumber(text.substr(open + 1, close - open - 1), Type::kU64));
  const uint32_t size = sim::ptx::BytesOf(type);
  if (count == 0 || count > kMaxBytes / size) {
    return Wrong(
        text, fmt::format("a buffer has 1 to {} elements", kMaxBytes / size));
  }
  const std::string_view rest = text.substr(close + 1);
  if (!rest.empty() && rest.front() != '=') {
    return Wrong(text, "after the count may come '=' and values");
  }
  ASSIGN_OR_RETURN(
      const auto address,
      memory->Allocate(count * size, std::string(text.substr(0, close + 1))));
  if (!rest.empty()) {
    const auto bytes = memory->At(address, count * size);
    RETURN_IF_ERROR(Fill(*bytes, type, rest.substr(1)));
  }
  return KernelBuffer{address, count, type};
}

class Parser {
 public:
  Parser(sim::Memory* memory, KernelArguments* to) : memory_(memory), to_(to) {}

  absl::Status Argument(const sim::ptx::Variable& parameter, uint64_t offset,
                        std::string_view text) {
    std::vector<std::byte> bytes;
    const bool is_struct = text.starts_with('{');
    RETURN_IF_ERROR(is_struct ? Struct(text, bytes)
                              : Single(text, parameter.type, bytes));
    if (bytes.size() > parameter.bytes) {
      return Wrong(text, fmt::format("has {} bytes, the parameter {}",
                                     bytes.size(), parameter.bytes));
    }
    if (is_struct && (bytes.size() + 7) / 8 != (parameter.bytes + 7) / 8) {
      return Wrong(text, fmt::format("is a struct of {} bytes, the parameter "
                                     "has {}",
                                     bytes.size(), parameter.bytes));
    }
    std::copy(bytes.begin(), bytes.end(),
              to_->bytes.begin() + static_cast<ptrdiff_t>(offset));
    return absl::OkStatus();
  }

 private:
  static void Append(std::vector<std::byte>& bytes, uint64_t value,
                     uint32_t size) {
    bytes.resize((bytes.size() + size - 1) / size * size);
    for (uint32_t i = 0; i < size; ++i) {
      bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }

  absl::Status Single(std::string_view text, Type type,
                      std::vector<std::byte>& bytes) {
    ASSIGN_OR_RETURN(const auto buffer, ParseBuffer(text, memory_));
    if (buffer) {
      to_->buffers.push_back(*buffer);
      Append(bytes, buffer->address, 8);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const auto value, ParseNumber(text, type));
    Append(bytes, value, sim::ptx::BytesOf(type));
    return absl::OkStatus();
  }

  absl::Status Struct(std::string_view text, std::vector<std::byte>& bytes) {
    if (!text.ends_with('}')) return Wrong(text, "'}' is missing");
    std::string_view rest = text.substr(1, text.size() - 2);
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(';'), rest.size());
      std::string_view item = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const bool span = item.starts_with("span:");
      if (span) item.remove_prefix(5);
      const size_t colon = item.find(':');
      const auto type = colon == std::string_view::npos || span
                            ? std::nullopt
                            : sim::ptx::TypeNamed(item.substr(0, colon));
      if (type) item.remove_prefix(colon + 1);
      const bool buffer =
          item.starts_with('@') || item.find('[') != std::string_view::npos;
      if (!buffer && (!type || sim::ptx::BytesOf(*type) > 8)) {
        return Wrong(item, "in a struct a value needs its type: u32:256");
      }
      RETURN_IF_ERROR(Single(item, type.value_or(Type::kU64), bytes));
      if (span) Append(bytes, to_->buffers.back().count, 8);
    }
    return absl::OkStatus();
  }

  sim::Memory* const memory_;
  KernelArguments* const to_;
};

}  // namespace

absl::StatusOr<sim::Dim3> ParseDimensions(std::string_view text) {
  sim::Dim3 dim;
  uint32_t* const parts[] = {&dim.x, &dim.y, &dim.z};
  size_t part = 0;
  const std::vector<std::string> numbers =
      absl::StrSplit(std::string(text), absl::ByAnyChar("x,"));
  for (const std::string& number : numbers) {
    const auto value = ParseNumber(number, Type::kU32);
    if (part == 3 || number.starts_with('-') || !value.ok() || *value == 0) {
      return absl::InvalidArgumentError(fmt::format(
          "'{}': one to three dimensions from 1, as 16 or 16x16 or 4x4x2",
          text));
    }
    *parts[part++] = static_cast<uint32_t>(*value);
  }
  return dim;
}

absl::StatusOr<KernelArguments> ParseKernelArguments(
    const sim::ptx::Function& kernel, const std::vector<std::string>& texts,
    sim::Memory* memory) {
  if (texts.size() != kernel.parameters.size()) {
    std::string parameters;
    for (const sim::ptx::Variable& parameter : kernel.parameters) {
      parameters += fmt::format("{}.{}", parameters.empty() ? "" : ", ",
                                sim::ptx::NameOf(parameter.type));
      if (parameter.bytes != sim::ptx::BytesOf(parameter.type)) {
        parameters += fmt::format("[{}]", parameter.bytes);
      }
    }
    return absl::InvalidArgumentError(
        fmt::format("{} has {} parameters ({}), and {} are given", kernel.name,
                    kernel.parameters.size(), parameters, texts.size()));
  }
  KernelArguments arguments;
  arguments.bytes.resize(kernel.ParameterBytes());
  Parser parser(memory, &arguments);
  for (size_t i = 0; i < texts.size(); ++i) {
    const absl::Status status = parser.Argument(
        kernel.parameters[i], kernel.ParameterOffset(i), texts[i]);
    if (!status.ok()) {
      return absl::Status(status.code(), fmt::format("argument {}: {}", i + 1,
                                                     status.message()));
    }
  }
  return arguments;
}

absl::Status SetVariable(const sim::Program& program, std::string_view text,
                         sim::Memory* memory) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (equals == std::string_view::npos) {
    return Wrong(text, "NAME=TYPE:VALUES or NAME=@FILE is needed");
  }
  std::string_view values = text.substr(equals + 1);
  const auto variable = std::ranges::find_if(
      program.variables, [&](const sim::ProgramVariable& candidate) {
        return candidate.name == name || PlainName(candidate.name) == name;
      });
  if (variable == program.variables.end()) {
    return absl::NotFoundError(fmt::format(
        "there is no variable '{}' in global or constant memory", name));
  }
  ASSIGN_OR_RETURN(const auto bytes,
                   memory->At(variable->address, variable->bytes));
  if (values.starts_with('@')) {
    ASSIGN_OR_RETURN(const std::string file,
                     ReadFile(std::string(values.substr(1)), "variable",
                              std::max(kMaxFileBytes, bytes.size())));
    if (file.size() != bytes.size()) {
      return Wrong(text, fmt::format("the file has {} bytes, the variable {}",
                                     file.size(), bytes.size()));
    }
    std::memcpy(bytes.data(), file.data(), file.size());
    return absl::OkStatus();
  }
  const size_t colon = values.find(':');
  ASSIGN_OR_RETURN(
      const Type type,
      ElementNamed(text, values.substr(0, std::min(colon, values.size()))));
  if (colon == std::string_view::npos) return Wrong(text, "it has no values");
  if (bytes.size() % sim::ptx::BytesOf(type) != 0) {
    return Wrong(text, fmt::format("the variable has {} bytes, no whole number "
                                   "of {}",
                                   bytes.size(), sim::ptx::NameOf(type)));
  }
  return Fill(bytes, type, values.substr(colon + 1));
}

std::string FirstValues(const KernelBuffer& buffer, const sim::Memory& memory,
                        uint64_t most) {
  const uint32_t size = sim::ptx::BytesOf(buffer.type);
  const uint64_t count = std::min(most, buffer.count);
  const auto bytes = memory.At(buffer.address, count * size);
  if (!bytes.ok()) return std::string(bytes.status().message());
  std::string text;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes->data() + i * size, size);
    if (i != 0) text += ' ';
    if (buffer.type == Type::kF64) {
      text += fmt::format("{}", FloatOf(bits, buffer.type));
    } else if (IsFloat(buffer.type)) {
      text += fmt::format("{}", static_cast<float>(FloatOf(bits, buffer.type)));
    } else if (IsSigned(buffer.type)) {
      const uint32_t unused = 64 - 8 * size;
      text += fmt::format("{}", static_cast<int64_t>(bits << unused) >> unused);
    } else {
      text += fmt::format("{}", bits);
    }
  }
  if (count < buffer.count) text += " ...";
  return text;
}

}  // namespace carillon::cli
