#include "gpu_daemon/event/user_kernel.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "shm/layout.h"

namespace carillon::gpud {
namespace {

using simt::BufferForm;
using simt::ParamInfo;
using simt::ParamKind;

constexpr uint32_t kPointerBytes = sizeof(std::byte*);
constexpr uint32_t kSpanBytes = sizeof(simt::Span<std::byte>);
// What no type of CUDA's is aligned beyond.
constexpr uint32_t kLargestAlign = 16;

struct KindText {
  ParamKind kind;
  std::string_view name;
  uint32_t bytes;  // of values; 0: a buffer
};
constexpr KindText kKinds[] = {
    {ParamKind::kU32, "u32", 4},         {ParamKind::kI32, "i32", 4},
    {ParamKind::kU64, "u64", 8},         {ParamKind::kI64, "i64", 8},
    {ParamKind::kF32, "f32", 4},         {ParamKind::kF64, "f64", 8},
    {ParamKind::kReadBuffer, "read", 0}, {ParamKind::kWriteBuffer, "write", 0},
};

const KindText& TextOf(ParamKind kind) {
  return *std::ranges::find(kKinds, kind, &KindText::kind);
}

// "f32", "read buffer of 4-byte elements".
std::string Text(const KernelDeclaration::Parameter& parameter) {
  const KindText& kind = TextOf(parameter.kind);
  if (kind.bytes != 0) return std::string(kind.name);
  return fmt::format("{} buffer of {}-byte elements", kind.name,
                     parameter.element_bytes);
}

// The largest power of two that divides it: as much as addresses of elements
// have in common.
uint32_t AlignOf(uint32_t element_bytes) {
  return std::min(element_bytes & -element_bytes, kLargestAlign);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UserKernel>> UserKernel::Make(
    KernelDeclaration declaration, std::string file,
    const KernelLayout& layout) {
  std::unique_ptr<UserKernel> kernel(
      new UserKernel(std::move(declaration), std::move(file)));
  RETURN_IF_ERROR(kernel->Lay(layout));
  return kernel;
}

absl::Status UserKernel::Lay(const KernelLayout& layout) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        fmt::format("{}: kernel '{}': {}", file_, declaration_.symbol, what));
  };
  const auto& declared = declaration_.parameters;
  if (declared.size() != layout.parameters.size()) {
    return bad(fmt::format(
        "{} parameter{} declared, the image has {}", declared.size(),
        declared.size() == 1 ? " was" : "s were", layout.parameters.size()));
  }
  uint64_t args_size = 0;
  for (size_t i = 0; i < declared.size(); ++i) {
    const KernelLayout::Parameter& in_image = layout.parameters[i];
    const KindText& kind = TextOf(declared[i].kind);
    const bool is_buffer = kind.bytes == 0;
    const uint32_t bytes = in_image.bytes;
    if (is_buffer ? bytes != kPointerBytes && bytes != kSpanBytes
                  : bytes != kind.bytes) {
      return bad(fmt::format(
          "parameter {} '{}' was declared as {}, which has {} bytes; in the "
          "image it has {}",
          i + 1, declared[i].name, Text(declared[i]),
          is_buffer ? fmt::format("{} (a pointer) or {} (simt::Span)",
                                  kPointerBytes, kSpanBytes)
                    : fmt::format("{}", kind.bytes),
          bytes));
    }
    // Arguments are written by aligned stores.
    const uint32_t align = is_buffer ? kPointerBytes : bytes;
    if (in_image.offset % align != 0) {
      return bad(fmt::format(
          "parameter {} '{}' was declared as {}; in the image it is at byte "
          "{}, which is no multiple of {}",
          i + 1, declared[i].name, Text(declared[i]), in_image.offset, align));
    }
    descriptions_.push_back(Text(declared[i]));
    params_.push_back(
        {.name = declared[i].name,
         .kind = declared[i].kind,
         .offset = in_image.offset,
         .element_size = is_buffer ? declared[i].element_bytes : kind.bytes,
         .element_align =
             is_buffer ? AlignOf(declared[i].element_bytes) : kind.bytes,
         .description = {},
         .buffer_form = bytes == kPointerBytes ? BufferForm::kPointer
                                               : BufferForm::kSpan});
    args_size = std::max(args_size, uint64_t{in_image.offset} + bytes);
  }
  if (args_size > shm::kMaxParameterBytes) {
    return bad(fmt::format("{} bytes of parameters; the limit is {}", args_size,
                           shm::kMaxParameterBytes));
  }
  // Now that the strings stay where they are.
  for (size_t i = 0; i < params_.size(); ++i) {
    params_[i].description = descriptions_[i];
  }
  info_ = {.name = declaration_.name,
           .summary = declaration_.summary,
           .params = params_,
           .args_size = static_cast<uint32_t>(args_size),
           .args_align = kLargestAlign,
           .run_block = nullptr,
           .registers_per_thread = layout.registers_per_thread,
           .static_shared_bytes = layout.static_shared_bytes,
           // Nobody knows; what is safe for all.
           .uses_barriers = true,
           .unbounded = true,
           .check_shape = nullptr,
           .validate = nullptr,
           .symbol = declaration_.symbol,
           .file = file_,
           .most_threads = layout.most_threads};
  return absl::OkStatus();
}

absl::Status CheckCompletesItself(const simt::KernelInfo& kernel,
                                  std::string_view why) {
  if (!kernel.is_users()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "kernel '{}' of {} is a user's own: {}; use launch path edge or "
      "stream_wait, if no parameter is written with the event, or graph, "
      "baseline or baseline_flag",
      kernel.name, kernel.file, why));
}

}  // namespace carillon::gpud
