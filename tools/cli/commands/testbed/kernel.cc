#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/commands/testbed/kernel_signature.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/cli/ui/proto_json.h"

namespace carillon::cli {
namespace {

// gpud's limit.
constexpr uintmax_t kMaxImageBytes = 32u << 20;

struct Options {
  std::string file;
  std::vector<std::string> kernels;
  std::string name;
  std::string summary;
};

absl::StatusOr<std::string> ReadImage(const std::string& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) {
    return absl::NotFoundError(fmt::format("there is no file {}", Quote(file)));
  }
  if (!std::filesystem::is_regular_file(status)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not a regular file", Quote(file)));
  }
  const uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > kMaxImageBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {}: the limit is {}", Quote(file),
                    FormatBytes(size), FormatBytes(kMaxImageBytes)));
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    return absl::PermissionDeniedError(
        fmt::format("cannot read {}: {}", Quote(file), std::strerror(errno)));
  }
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

absl::StatusOr<v1::RegisterModuleRequest> MakeRequest(const Options& options) {
  if (options.kernels.size() != 1 &&
      !(options.name.empty() && options.summary.empty())) {
    return absl::InvalidArgumentError(fmt::format(
        "--as and --summary are of one kernel, and there are {}: load the file "
        "once for each",
        options.kernels.size()));
  }
  v1::RegisterModuleRequest request;
  for (const std::string& signature : options.kernels) {
    auto kernel = ParseKernelSignature(signature);
    if (!kernel.ok()) {
      return WithHint(kernel.status(), "carillon kernel --help");
    }
    kernel->set_name(options.name);
    kernel->set_summary(options.summary);
    *request.add_kernels() = *std::move(kernel);
  }
  ASSIGN_OR_RETURN(auto image, ReadImage(options.file));
  request.set_image(std::move(image));
  request.set_file(std::filesystem::path(options.file).filename().string());
  return request;
}

std::string Parameters(const v1::Kernel& kernel) {
  std::string text;
  for (const v1::KernelParameter& parameter : kernel.parameters()) {
    const char* form = parameter.form() == v1::POINTER ? " as pointer"
                       : parameter.form() == v1::SPAN  ? " as span"
                                                       : "";
    text +=
        fmt::format("{}{}{}", text.empty() ? "" : ", ", parameter.name(), form);
  }
  return text;
}

absl::Status Load(OpenTestbed& open, const v1::RegisterModuleRequest& request,
                  Console& console) {
  ASSIGN_OR_RETURN(const auto loaded, open.client->RegisterModule(request));
  if (console.json()) {
    console.PrintDocument(ToJson(loaded));
    return absl::OkStatus();
  }
  Table table({"KERNEL", ">REGISTERS", ">SHARED", "PARAMETERS"});
  for (const v1::Kernel& kernel : loaded.kernels()) {
    table.AddRow(kernel.name(), kernel.registers_per_thread(),
                 FormatBytes(kernel.static_shared_bytes()), Parameters(kernel));
  }
  console.Print(table);
  console.Say(fmt::format("loaded from {}; devices can register {} now",
                          request.file(),
                          loaded.kernels_size() == 1 ? "it" : "them"));
  return absl::OkStatus();
}

}  // namespace

Run MakeKernel(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments
      .Text(
          "file FILE", options->file,
          "Made by nvcc -fatbin, -cubin or -ptx (a gpud without a GPU: -ptx); "
          "at most 32 MiB")
      .Required();
  arguments
      .Texts("--kernel SIGNATURE", options->kernels,
             "A __global__ in it and its parameters, 'saxpy(x: read f32[], y: "
             "write f32[], a: f32, n: u32)'. Values: u32, i32, u64, i64, f32, "
             "f64. Buffers: read or write, then an element's type (also u8, "
             "i8, u16, i16, f16, bf16) or bytes, then []; in the kernel a "
             "pointer or a simt::Span. May be repeated")
      .OneAtATime()
      .Required();
  arguments.Text("--as NAME", options->name,
                 "The name that devices register it under, instead of its own");
  arguments.Text("--summary TEXT", options->summary,
                 "A line about it, for `carillon kernels`");
  return [options, open_testbed = AddTestbedOption(arguments),
          &console]() -> absl::Status {
    // Report a wrong command line before a missing testbed.
    ASSIGN_OR_RETURN(const auto request, MakeRequest(*options));
    ASSIGN_OR_RETURN(auto open, open_testbed());
    return Load(open, request, console);
  };
}

}  // namespace carillon::cli
