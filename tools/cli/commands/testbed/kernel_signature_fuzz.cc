// Any text as a kernel's declaration: it is refused with a sentence that says
// where, or it means the same when it is written out and read again.
#include <string>

#include "base/testing/fuzz_input.h"
#include "tools/cli/commands/testbed/kernel_signature.h"

namespace carillon::cli {
namespace {

std::string WriteOut(const v1::KernelDeclaration& kernel) {
  std::string text = kernel.symbol() + "(";
  for (int i = 0; i < kernel.parameters_size(); ++i) {
    const v1::KernelParameter& parameter = kernel.parameters(i);
    if (i > 0) text += ",";
    text += parameter.name() + ":";
    switch (parameter.kind()) {
      case v1::READ_BUFFER:
        text += "read " + std::to_string(parameter.element_bytes()) + "[]";
        break;
      case v1::WRITE_BUFFER:
        text += "write " + std::to_string(parameter.element_bytes()) + "[]";
        break;
      default: {
        std::string name = v1::ParameterKind_Name(parameter.kind());
        for (char& c : name) c = static_cast<char>(std::tolower(c));
        text += name;
      }
    }
  }
  return text + ")";
}

void Run(std::string_view text) {
  const auto kernel = ParseKernelSignature(text);
  if (!kernel.ok()) {
    FUZZ_CHECK(kernel.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(!kernel.status().message().empty());
    return;
  }
  FUZZ_CHECK(!kernel->symbol().empty());
  const std::string written = WriteOut(*kernel);
  const auto again = ParseKernelSignature(written);
  FUZZ_CHECK(again.ok(), "%s", written.c_str());
  FUZZ_CHECK(again->SerializeAsString() == kernel->SerializeAsString());
}

}  // namespace
}  // namespace carillon::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::cli::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
