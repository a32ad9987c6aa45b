#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"

namespace carillon::cli {
namespace {

std::string LowerCase(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c == '_' ? ' ' : std::tolower(c); });
  return name;
}

std::string KindName(v1::ParameterKind kind) {
  return LowerCase(v1::ParameterKind_Name(kind));
}

std::string FormName(v1::ParameterForm form) {
  return LowerCase(v1::ParameterForm_Name(form));
}

void Explain(const v1::Kernel& kernel, Console& console) {
  console.Print(fmt::format(
      "{}{}{}\n{} registers a thread, {} static shared memory{}\n",
      console.Bold(kernel.name()), kernel.summary().empty() ? "" : ": ",
      kernel.summary(), kernel.registers_per_thread(),
      FormatBytes(kernel.static_shared_bytes()),
      kernel.uses_barriers() ? ", barriers" : ""));
  if (!kernel.file().empty()) {
    console.Print(
        fmt::format("loaded from {}, {}\n", kernel.file(), kernel.symbol()));
  }
  if (kernel.parameters().empty()) return;
  Table table(
      {{"PARAMETER"}, {"KIND"}, {"ELEMENT", Align::kRight}, {"PASSED AS"}});
  for (const v1::KernelParameter& parameter : kernel.parameters()) {
    table.AddRow({parameter.name(), KindName(parameter.kind()),
                  FormatBytes(parameter.element_bytes()),
                  FormName(parameter.form())});
  }
  console.Print(table);
}

absl::Status ShowOne(const v1::ListKernelsResponse& kernels,
                     const std::string& name, Console& console) {
  std::vector<std::string_view> names;
  for (const v1::Kernel& kernel : kernels.kernels()) {
    names.push_back(kernel.name());
    if (kernel.name() != name) continue;
    if (console.json()) {
      console.PrintDocument(ToJson(kernel));
    } else {
      Explain(kernel, console);
    }
    return absl::OkStatus();
  }
  return absl::NotFoundError(fmt::format("there is no kernel {}{}", Quote(name),
                                         DidYouMean(name, names)));
}

absl::Status Show(OpenTestbed& open, const std::string& name,
                  Console& console) {
  ASSIGN_OR_RETURN(const auto kernels, open.client->ListKernels());
  if (!name.empty()) return ShowOne(kernels, name, console);
  if (console.json()) {
    console.PrintDocument(ToJson(kernels));
    return absl::OkStatus();
  }
  Table table({{"KERNEL"},
               {"PARAMETERS", Align::kRight},
               {"REGISTERS", Align::kRight},
               {"SHARED", Align::kRight},
               {"FROM"},
               {"SUMMARY"}});
  for (const v1::Kernel& kernel : kernels.kernels()) {
    table.AddRow({kernel.name(), fmt::format("{}", kernel.parameters_size()),
                  fmt::format("{}", kernel.registers_per_thread()),
                  FormatBytes(kernel.static_shared_bytes()),
                  kernel.file().empty() ? "built in" : kernel.file(),
                  kernel.summary()});
  }
  console.Print(table);
  return absl::OkStatus();
}

}  // namespace

Run MakeKernels(Arguments& arguments, Console& console) {
  auto name = std::make_shared<std::string>();
  arguments.Text("kernel", *name, "Explain this one, with its parameters")
      .Placeholder("KERNEL");
  return MakeInspection(arguments, console,
                        [name, &console](OpenTestbed& open) {
                          return Show(open, *name, console);
                        });
}

}  // namespace carillon::cli
