#include "gpu_daemon/control/sessions/module_request.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/names.h"
#include "gpu_daemon/control/sessions/parameter_bindings.h"

namespace carillon::gpud {
namespace {

using simt::ParamKind;

constexpr size_t kMaxIdentifier = 64;
constexpr size_t kMaxSymbol = 1024;
constexpr uint32_t kMaxElementBytes = 1 << 20;
// A parameter has at least 4 bytes.
constexpr int kMaxParameters = shm::kMaxParameterBytes / 4;

bool IsSymbolCharacter(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '$';
}

bool IsSymbol(std::string_view text, size_t limit) {
  return !text.empty() && text.size() <= limit &&
         std::all_of(text.begin(), text.end(), IsSymbolCharacter);
}

absl::Status CheckIdentifier(std::string_view what, std::string_view name) {
  if (IsSymbol(name, kMaxIdentifier) && !absl::ascii_isdigit(name[0]) &&
      name.find('$') == std::string_view::npos) {
    return absl::OkStatus();
  }
  return Error(absl::StatusCode::kInvalidArgument,
               fmt::format("{} {}: must be 1 to {} letters, digits and '_', "
                           "with no digit first",
                           what, Quoted(name), kMaxIdentifier),
               reason::kBadName, name);
}

// Values only.
uint32_t ValueBytes(ParamKind kind) {
  switch (kind) {
    case ParamKind::kU32:
    case ParamKind::kI32:
    case ParamKind::kF32:
      return 4;
    default:
      return 8;
  }
}

std::optional<ParamKind> KindOf(v1::ParameterKind kind) {
  constexpr ParamKind kKinds[] = {
      ParamKind::kU32,        ParamKind::kI32,        ParamKind::kU64,
      ParamKind::kI64,        ParamKind::kF32,        ParamKind::kF64,
      ParamKind::kReadBuffer, ParamKind::kWriteBuffer};
  const auto found =
      std::ranges::find(kKinds, kind, [](ParamKind k) { return ProtoKind(k); });
  if (found == std::end(kKinds)) return std::nullopt;
  return *found;
}

absl::StatusOr<KernelDeclaration::Parameter> ReadParameter(
    const std::string& where, const v1::KernelParameter& parameter) {
  RETURN_IF_ERROR(CheckIdentifier(where + "parameter", parameter.name()));
  const auto bad = [&](std::string_view what, std::string_view why) {
    return Error(
        absl::StatusCode::kInvalidArgument,
        fmt::format("{}parameter '{}' {}", where, parameter.name(), what), why,
        parameter.name());
  };
  const auto kind = KindOf(parameter.kind());
  if (!kind.has_value()) {
    return bad(fmt::format("has no kind that there is ({})",
                           static_cast<int>(parameter.kind())),
               reason::kBadImage);
  }
  KernelDeclaration::Parameter read{parameter.name(), *kind,
                                    parameter.element_bytes()};
  if (*kind == ParamKind::kReadBuffer || *kind == ParamKind::kWriteBuffer) {
    if (read.element_bytes < 1 || read.element_bytes > kMaxElementBytes) {
      return bad(fmt::format("has elements of {} bytes: must be from 1 to {}",
                             read.element_bytes, kMaxElementBytes),
                 reason::kBadSize);
    }
  } else if (read.element_bytes != 0 &&
             read.element_bytes != ValueBytes(*kind)) {
    return bad(fmt::format("is a {} of {} bytes: it has {}, or say 0",
                           v1::ParameterKind_Name(parameter.kind()),
                           read.element_bytes, ValueBytes(*kind)),
               reason::kBadSize);
  }
  return read;
}

absl::StatusOr<KernelDeclaration> ReadKernel(
    const v1::KernelDeclaration& kernel) {
  if (!IsSymbol(kernel.symbol(), kMaxSymbol)) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("symbol {}: must be 1 to {} letters, digits, '_' "
                             "and '$'",
                             Quoted(kernel.symbol()), kMaxSymbol),
                 reason::kBadName, "symbol");
  }
  KernelDeclaration read{
      .symbol = kernel.symbol(),
      .name = kernel.name().empty() ? kernel.symbol() : kernel.name(),
      .summary = kernel.summary(),
      .parameters = {}};
  RETURN_IF_ERROR(CheckIdentifier("kernel name", read.name));
  const std::string where = fmt::format("kernel '{}': ", read.name);
  RETURN_IF_ERROR(CheckText(where + "summary", read.summary, kMaxNoteLength));
  if (kernel.parameters_size() > kMaxParameters) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("{}{} parameters: the limit is {}", where,
                             kernel.parameters_size(), kMaxParameters),
                 reason::kBadCount, read.name);
  }
  for (const v1::KernelParameter& parameter : kernel.parameters()) {
    ASSIGN_OR_RETURN(auto one, ReadParameter(where, parameter));
    if (std::ranges::find(read.parameters, one.name,
                          &KernelDeclaration::Parameter::name) !=
        read.parameters.end()) {
      return Error(
          absl::StatusCode::kInvalidArgument,
          fmt::format("{}two parameters are called '{}'", where, one.name),
          reason::kBadName, one.name);
    }
    read.parameters.push_back(std::move(one));
  }
  return read;
}

}  // namespace

absl::StatusOr<ModuleSource> ReadModuleRequest(
    const v1::RegisterModuleRequest& request) {
  RETURN_IF_ERROR(CheckText("file name", request.file(), kMaxNoteLength));
  ModuleSource source{
      .image = std::as_bytes(std::span(request.image())),
      .file = request.file().empty() ? "the image" : request.file(),
      .kernels = {}};
  if (source.image.size() > kMaxImageBytes) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("{} has {} bytes: the limit is {} (32 MiB)",
                             source.file, source.image.size(), kMaxImageBytes),
                 reason::kBadSize, "image");
  }
  if (request.kernels().empty() ||
      request.kernels_size() > kMaxKernelsOfAFile) {
    return Error(
        absl::StatusCode::kInvalidArgument,
        fmt::format("{}: {} kernels were declared: must be from 1 to "
                    "{}",
                    source.file, request.kernels_size(), kMaxKernelsOfAFile),
        reason::kBadCount, "kernels");
  }
  for (const v1::KernelDeclaration& kernel : request.kernels()) {
    ASSIGN_OR_RETURN(auto read, ReadKernel(kernel));
    source.kernels.push_back(std::move(read));
  }
  return source;
}

}  // namespace carillon::gpud
